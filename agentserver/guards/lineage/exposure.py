"""Record of the listeners and threads that untrusted text has reached.

Beyond THREADS exposed threads, each further one exposes its whole listener; beyond LISTENERS exposed listeners, a
further one exposes all. Unknown thus counts as exposed, and the cost of a message does not grow with the conversation.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

THREADS: Final = 256
"""Maximum exposed threads that are tracked separately."""
LISTENERS: Final = 256
"""Maximum exposed listeners that are tracked separately."""
CLOSED: Final = 64.0
"""Bits that exposed senders may pass on in closed schemas, in one conversation without a declared budget: fewer than an
address or a sentence takes.
"""

SENT: Final = 1.0
"""Bits of a closed message as such: it was sent, or it was not. Empty messages thus count as well."""

ERROR: Final = 8.0
"""Bits of a SystemError that a listener passes on: the system wrote it, but the listener chose which one to cause."""

_THREAD, _LISTENER, _EVERYBODY = "thread ", "listener ", "*"


class Recall(StrEnum):
    """Extent to which the code of a listener remembers its messages.

    ``THREAD``: messages of one thread do not affect another. ``LISTENER``: messages of a conversation may affect all
    its threads there. ``SERVER``: they may affect other listeners that carry words, and other conversations.
    """

    THREAD = "thread"
    LISTENER = "listener"
    SERVER = "server"


class FirstText(NamedTuple):
    """Untrusted text that first exposed a listener.

    Args:
        source: the listener or principal that introduced it; empty if unknown.
        step: the number of the observation at which it was delivered.
        giver: the sender: the source itself, or a listener that was exposed before.
    """

    source: str
    step: int
    giver: str


UNKNOWN_TEXT: Final = FirstText("", 0, "")
"""Untrusted text that may exist but is not known."""


@dataclass(frozen=True, slots=True)
class Exposure:
    """Immutable record of the threads and listeners of one conversation that received untrusted text.

    Args:
        first: the first untrusted text of each, in order.
        everyone: the text that exposes all listeners; None while they are not exposed.
        bits: bits that exposed senders passed on in closed schemas, which does not expose the receiver.
    """

    first: Mapping[str, FirstText] = field(default_factory=lambda: MappingProxyType({}))
    everyone: FirstText | None = None
    bits: float = 0.0

    @property
    def is_empty(self) -> bool:
        """True when no listener has received untrusted text."""
        return not self.first and self.everyone is None

    def find_text(self, listener: str, thread: str, recall: Recall) -> FirstText | None:
        """Find the text that exposed a listener on a thread; None if it is not exposed."""
        known = self.everyone or self.first.get(_LISTENER + listener)
        return known or (self.first.get(_THREAD + thread) if recall is Recall.THREAD else None)

    def expose(self, listener: str, thread: str, recall: Recall, text: FirstText) -> Exposure:
        """Record that a listener received untrusted text on a thread."""
        if self.find_text(listener, thread, recall) is not None:
            return self
        threads = sum(key.startswith(_THREAD) for key in self.first)
        if recall is Recall.THREAD and threads < THREADS:
            return self._add(_THREAD + thread, text)
        if len(self.first) - threads < LISTENERS:
            return self._add(_LISTENER + listener, text)
        return replace(self, everyone=text)

    def _add(self, key: str, text: FirstText) -> Exposure:
        return replace(self, first=MappingProxyType({**self.first, key: text}))

    def dump_additions_since(self, before: Exposure) -> list[list[Any]]:
        """Serialise the additions to an earlier exposure."""
        added = list(self.first.items())[len(before.first) :]
        return [[key, *text] for key, text in added]

    def dump_state(self) -> list[Any]:
        """Serialise the parts that are replaced as a whole."""
        return [self.everyone, self.bits]

    @classmethod
    def load(cls, entries: Iterable[list[Any]], state: list[Any]) -> Exposure:
        """Restore the exposure that ``dump_additions_since`` and ``dump_state`` serialised."""
        everybody, bits = state
        first = {key: FirstText(*text) for key, *text in entries}
        return cls(MappingProxyType(first), None if everybody is None else FirstText(*everybody), bits)
