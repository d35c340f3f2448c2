"""References: opaque names for values of untrusted origin.

A reference is ``ref:`` and 26 letters and digits: 128 bits of a hash, keyed by the id of the delivery that holds the
value. That id comes from the random seed of the step that sent the message, and the seed is stored with the step; so a
step that is decided again, or a repeated invocation, makes the same references. A reference is valid only on the thread
that received it.
"""

from __future__ import annotations

import re
from base64 import b32encode
from dataclasses import dataclass, field
from hashlib import blake2b, sha256
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from agentserver.core.state.overlay import copy_changeable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PREFIX: Final = "ref:"
FORM: Final = re.compile(r"ref:[a-z2-7]{26}")
"""Pattern of a reference anywhere in a text."""

SAMPLE: Final = f"{PREFIX}{'abcdefghijklm234567nopqrst'}"
"""Reference without a value, to test whether a field accepts references."""

MOST: Final = 20_000
"""Maximum references of one conversation. Values beyond get references that cannot be resolved."""
CHARACTERS: Final = 16_000_000
"""Maximum characters of the values behind the references of one conversation."""
PUT_IN: Final = 20_000
"""Maximum messages of one conversation in which references were replaced by values."""


def make_reference(conversation: str, thread: str, delivery: str, path: str) -> str:
    """Make the reference of one scalar of a delivery, the same each time. ``path`` has indices."""
    place = f"{conversation}\n{thread}\n{path}".encode("utf-8", "surrogatepass")
    digest = blake2b(place, key=sha256(delivery.encode()).digest(), digest_size=16).digest()
    return PREFIX + b32encode(digest).decode().rstrip("=").lower()


def stamp_message(thread: str, root: str, texts: Iterable[str]) -> str:
    """Hash a message by its content and the thread that sent it, as 32 digits."""
    digest = blake2b(f"{thread}\n{root}".encode(), digest_size=16)
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(data) + data)
    return digest.hexdigest()


class ReferencedValue(NamedTuple):
    """Value behind a reference.

    Args:
        thread: the only thread that may use it.
        value: the value as written.
        source: its sender.
        path: the path of its field.
        step: the step at which it was seen.
    """

    thread: str
    value: str
    source: str
    path: str
    step: int


class InsertedValues(NamedTuple):
    """Values in one message that replaced references.

    Args:
        source: the sender of the first value.
        paths: the fields that hold them.
    """

    source: str
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class References:
    """Immutable collection of a conversation's references.

    Args:
        known: the value behind each reference.
        put_in: the inserted values of each message that has any, by its stamp.
        characters: the total length of the values.
    """

    known: Mapping[str, ReferencedValue] = field(default_factory=lambda: MappingProxyType({}))
    put_in: Mapping[str, InsertedValues] = field(default_factory=lambda: MappingProxyType({}))
    characters: int = 0

    @property
    def full(self) -> bool:
        """True when the bound on messages with inserted values is reached."""
        return len(self.put_in) >= PUT_IN

    def select_fitting(self, added: Mapping[str, ReferencedValue]) -> dict[str, ReferencedValue]:
        """Select the new references of one more delivery, up to the bounds."""
        found: dict[str, ReferencedValue] = {}
        characters = self.characters
        for name, each in added.items():
            if name in self.known:
                continue
            characters += len(each.value)
            if len(self.known) + len(found) >= MOST or characters > CHARACTERS:
                break
            found[name] = each
        return found

    def add(self, added: Mapping[str, ReferencedValue]) -> References:
        """Add references."""
        known = copy_changeable(self.known)
        for name, each in added.items():
            known[name] = each
        return References(
            known, self.put_in, self.characters + sum(len(each.value) for each in added.values())
        )

    def record_put_in(self, stamped: str, values: InsertedValues) -> References:
        """Record the values that were put into one more message."""
        put_in = copy_changeable(self.put_in)
        put_in[stamped] = values
        return References(self.known, put_in, self.characters)

    def look_up(self, name: str, thread: str) -> str | None:
        """Look up the value behind a reference; None if it is unknown or another thread's."""
        found = self.known.get(name)
        return found.value if found is not None and found.thread == thread else None

    @classmethod
    def load(cls, references: Iterable[list[Any]], put_in: Iterable[list[Any]]) -> References:
        """Restore references from rows that each hold a name or a stamp and its value, in order."""
        known = {name: ReferencedValue(*of) for name, *of in references}
        stamped = {name: InsertedValues(source, tuple(paths)) for name, source, paths in put_in}
        return cls(
            copy_changeable(known), copy_changeable(stamped), sum(len(each.value) for each in known.values())
        )
