"""References: opaque names for values of untrusted origin, and what each stands for.

A reference is ``ref:`` and 26 letters and digits: 128 bits of a keyed hash. The key is the id of the delivery that
holds the value. That id comes from the random seed of the step that sent the message, and the seed is kept with the
step; so a step that is decided again gives the same references, and so does an invocation that is repeated. Who knows
a reference has nothing by it anywhere else: it is looked up for the thread that was shown it, and for no other.
"""

from __future__ import annotations

import re
from base64 import b32encode
from dataclasses import dataclass, field
from hashlib import blake2b, sha256
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from agentserver.core.state.overlay import changeable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PREFIX: Final = "ref:"
FORM: Final = re.compile(r"ref:[a-z2-7]{26}")
"""A reference, wherever it stands in a text."""

SAMPLE: Final = f"{PREFIX}{'abcdefghijklm234567nopqrst'}"
"""A reference that stands for nothing: what a field has to take."""

MOST: Final = 20_000
"""References of one conversation. A value beyond is shown as one that stands for nothing."""
CHARACTERS: Final = 16_000_000
"""Characters that the references of one conversation stand for."""
PUT_IN: Final = 20_000
"""Messages of one conversation that hold values in place of references; beyond, none is put in."""


def reference(conversation: str, thread: str, delivery: str, path: str) -> str:
    """The reference of one scalar of a delivery, the same each time. ``path`` has indices."""
    place = f"{conversation}\n{thread}\n{path}".encode("utf-8", "surrogatepass")
    digest = blake2b(place, key=sha256(delivery.encode()).digest(), digest_size=16).digest()
    return PREFIX + b32encode(digest).decode().rstrip("=").lower()


def stamp(thread: str, root: str, texts: Iterable[str]) -> str:
    """A message by its content and by the thread that sent it, as 32 digits."""
    digest = blake2b(f"{thread}\n{root}".encode(), digest_size=16)
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(data) + data)
    return digest.hexdigest()


class Referenced(NamedTuple):
    """The value that a reference stands for.

    Args:
        thread: the only one that may use it.
        value: as it was written.
        source: the sender of it.
        path: of its field.
        step: at which it was seen.
    """

    thread: str
    value: str
    source: str
    path: str
    step: int


class PutIn(NamedTuple):
    """The values in one message that were put in place of references.

    Args:
        source: the sender of the first of them.
        paths: of the fields in which they are.
    """

    source: str
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class References:
    """The references of one conversation. Every change gives a new value.

    Args:
        known: what each stands for.
        put_in: for messages in which values were put in place of references, by stamp, which.
        characters: that all of them stand for.
    """

    known: Mapping[str, Referenced] = field(default_factory=lambda: MappingProxyType({}))
    put_in: Mapping[str, PutIn] = field(default_factory=lambda: MappingProxyType({}))
    characters: int = 0

    @property
    def full(self) -> bool:
        """True when nothing more can be put into messages."""
        return len(self.put_in) >= PUT_IN

    def fitting(self, more: Mapping[str, Referenced]) -> dict[str, Referenced]:
        """Those of one more delivery that are new and for which there is room."""
        found: dict[str, Referenced] = {}
        characters = self.characters
        for name, each in more.items():
            if name in self.known:
                continue
            characters += len(each.value)
            if len(self.known) + len(found) >= MOST or characters > CHARACTERS:
                break
            found[name] = each
        return found

    def shown(self, more: Mapping[str, Referenced]) -> References:
        """The references with those that fit."""
        known = changeable(self.known)
        for name, each in more.items():
            known[name] = each
        return References(
            known, self.put_in, self.characters + sum(len(each.value) for each in more.values())
        )

    def used(self, stamped: str, more: PutIn) -> References:
        """The references after one more message in which values were put in place of some."""
        put_in = changeable(self.put_in)
        put_in[stamped] = more
        return References(self.known, put_in, self.characters)

    def opened(self, name: str, thread: str) -> str | None:
        """The value behind a reference; None for one that is unknown or another thread's."""
        found = self.known.get(name)
        return found.value if found is not None and found.thread == thread else None

    @classmethod
    def load(cls, references: Iterable[list[Any]], put_in: Iterable[list[Any]]) -> References:
        """The references of which these are the rows, each a name or a stamp and what belongs to it, in order."""
        known = {name: Referenced(*of) for name, *of in references}
        stamped = {name: PutIn(source, tuple(paths)) for name, source, paths in put_in}
        return cls(changeable(known), changeable(stamped), sum(len(each.value) for each in known.values()))
