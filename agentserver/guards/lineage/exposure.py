"""The listeners and threads that untrusted text of a conversation reached.

Bounds. Beyond THREADS exposed threads each further one exposes its listener as a whole; beyond LISTENERS exposed
listeners a further one exposes everybody. So what is not known is taken for exposed, and no message costs more for
what came before it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

THREADS: Final = 256
"""Exposed threads that are told apart."""
LISTENERS: Final = 256
"""Exposed listeners that are told apart."""
CLOSED: Final = 64.0
"""Bits that exposed senders may tell others in closed schemas, in one conversation, where no budget is declared: fewer
than an address or a sentence takes."""

SENT: Final = 1.0
"""Bits of a closed message as such: it was sent, or it was not. So any number of empty ones counts."""

ERROR: Final = 8.0
"""Bits of a SystemError that a listener passes on: it is the system's own, and which of them it caused is a choice."""

_THREAD, _LISTENER, _EVERYBODY = "thread ", "listener ", "*"


class Recall(StrEnum):
    """The extent to which the code of a listener remembers what it was given.

    ``THREAD``: nothing that one thread was given shows on another. ``LISTENER``: what it was given in a conversation
    may show on all its threads in that conversation. ``SERVER``: it may show at other listeners that carry words, and
    in other conversations.
    """

    THREAD = "thread"
    LISTENER = "listener"
    SERVER = "server"


class FirstText(NamedTuple):
    """The untrusted text by which somebody was exposed first.

    Args:
        source: the listener or principal that brought it in; empty where that is not known.
        step: the number of the observation at which it was given.
        giver: who passed it on; the source itself, or a listener that was exposed before.
    """

    source: str
    step: int
    giver: str


NOT_KNOWN: Final = FirstText("", 0, "")
"""The text of which nothing is known but that there may have been one."""


@dataclass(frozen=True, slots=True)
class Exposure:
    """The threads and listeners of one conversation that were given untrusted text. Every change gives a new value.

    Args:
        first: for each that was exposed the text by which it was, in the order in which it happened.
        everybody: the text by which all count as exposed; None while they do not.
        bits: what exposed senders told in closed schemas to others, who are not exposed by that.
    """

    first: Mapping[str, FirstText] = field(default_factory=lambda: MappingProxyType({}))
    everybody: FirstText | None = None
    bits: float = 0.0

    @property
    def nobody(self) -> bool:
        """True while nobody was given untrusted text."""
        return not self.first and self.everybody is None

    def of(self, listener: str, thread: str, recall: Recall) -> FirstText | None:
        """The text by which a listener was exposed, as far as it shows on a thread; None when it was not."""
        known = self.everybody or self.first.get(_LISTENER + listener)
        return known or (self.first.get(_THREAD + thread) if recall is Recall.THREAD else None)

    def reaching(self, listener: str, thread: str, recall: Recall, text: FirstText) -> Exposure:
        """The exposure after a listener was given untrusted text on a thread."""
        if self.of(listener, thread, recall) is not None:
            return self
        threads = sum(key.startswith(_THREAD) for key in self.first)
        if recall is Recall.THREAD and threads < THREADS:
            return self._with(_THREAD + thread, text)
        if len(self.first) - threads < LISTENERS:
            return self._with(_LISTENER + listener, text)
        return replace(self, everybody=text)

    def _with(self, key: str, text: FirstText) -> Exposure:
        return replace(self, first=MappingProxyType({**self.first, key: text}))

    def since(self, before: Exposure) -> list[list[Any]]:
        """The additions to an earlier exposure that this one grew from, for JSON."""
        more = list(self.first.items())[len(before.first) :]
        return [[key, *text] for key, text in more]

    def state(self) -> list[Any]:
        """The parts that change as a whole, for JSON."""
        return [self.everybody, self.bits]

    @classmethod
    def load(cls, entries: Iterable[list[Any]], state: list[Any]) -> Exposure:
        """The exposure of which ``since`` and ``state`` gave these parts."""
        everybody, bits = state
        first = {key: FirstText(*text) for key, *text in entries}
        return cls(MappingProxyType(first), None if everybody is None else FirstText(*everybody), bits)
