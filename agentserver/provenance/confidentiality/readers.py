"""Readers: who may be given the content of a source, or of one of its fields.

Owns the declaration, its entries and what they mean of a receiver. Refuses to look for content. Declarations add up:
each that covers a field must admit a receiver, so that one more never lets more out.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias

from agentserver.provenance.evidence.authority import DestinationPattern
from agentserver.provenance.evidence.destinations import PlaceForm
from agentserver.provenance.evidence.labels import Standing, Text, TextOrigin
from agentserver.provenance.evidence.leaves import text_of
from agentserver.provenance.evidence.paths import means, strip_indices

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from agentserver.provenance.evidence.destinations import Destination
    from agentserver.provenance.evidence.labels import Leaf, Observation

PRINCIPAL: Final = "principal"
"""The entry that means the places of the principal's own: those that a field of standing ``own`` names."""

_DIRECTORY: Final = "directory:"
_NAMES_PLACES: Final = {Standing.DIRECTORY, Standing.OWN}

Groups: TypeAlias = tuple[tuple[str, ...], ...]
"""Lists of entries, each of which must admit a receiver. None at all: anybody may read."""


class Readers:
    """The mark of a payload's field that not everybody may read: ``Annotated[str, Readers("principal")]``.

    Args:
        entries: ``principal``, ``directory:listener`` or ``directory:listener.field`` for the places that this
            directory names, or a destination as on an allow list. No entry at all: no receiver may read it.

    Raises ValueError for an entry that means nothing.
    """

    __slots__ = ("entries",)
    no_constraint: ClassVar = True
    """The payload's schema says nothing about it."""

    def __init__(self, *entries: str) -> None:
        wrong = next((entry for entry in entries if not is_sound(entry)), None)
        if wrong is not None:
            raise ValueError(f"'{wrong}' names no reader")
        self.entries = entries


@dataclass(frozen=True, slots=True)
class ReaderRule:
    """The readers of the fields ``field`` of the listeners ``source``. Both are globs; paths omit indices."""

    source: str
    field: str
    readers: tuple[str, ...]


def is_sound(entry: str) -> bool:
    """True when there can be a receiver that an entry means."""
    if entry.startswith(_DIRECTORY):
        return bool(entry.removeprefix(_DIRECTORY).strip())
    return entry == PRINCIPAL or DestinationPattern(entry).sound


def directory_of(entry: str) -> str | None:
    """The directory that an entry names, with or without a field; None for any other entry."""
    return entry.removeprefix(_DIRECTORY) if entry.startswith(_DIRECTORY) else None


def required_readers(rules: Iterable[ReaderRule], source: str, leaf: Leaf) -> Groups:
    """The groups of readers of one leaf: those of its type, then those of every rule that covers it."""
    path = strip_indices(leaf.path)
    declared = (
        rule.readers for rule in rules if means(rule.source, source) and fnmatchcase(path, rule.field)
    )
    return tuple(dict.fromkeys((*leaf.readers, *declared)))


def find_private_texts(rules: Sequence[ReaderRule], seen: Observation) -> list[tuple[Text, Groups]]:
    """The texts of a listener's output that have readers, with these."""
    if not rules and not any(leaf.readers for leaf in seen.leaves):
        return []
    found: list[tuple[Text, Groups]] = []
    for leaf in seen.leaves:
        groups, body = required_readers(rules, seen.source, leaf), text_of(leaf.value)
        if groups and body:
            origin = TextOrigin(seen.source, leaf.path, seen.step, seen.time, seen.trace)
            found.append((Text(origin, body, Standing.RECORD), groups))
    return found


def admits(groups: Groups, place: Destination, known: Sequence[Text]) -> bool:
    """True when a receiver may read what has these readers.

    Args:
        groups: of the content.
        place: the receiver. One that is no destination may read nothing that has readers.
        known: the records that name this place.
    """
    if not groups:
        return True
    if place.form is PlaceForm.NONE:
        return False
    vouched = [text.origin for text in known if text.standing in _NAMES_PLACES]
    directories = {origin.source for origin in vouched} | {
        _qualify_field(origin.source, origin.path) for origin in vouched
    }
    own = any(text.standing is Standing.OWN for text in known)
    return all(any(_matches(entry, place, directories, own=own) for entry in group) for group in groups)


def _matches(entry: str, place: Destination, directories: set[str], *, own: bool) -> bool:
    if entry == PRINCIPAL:
        return own
    directory = directory_of(entry)
    if directory is not None:
        return any(means(directory, name) for name in directories)
    return DestinationPattern(entry).matches(place)


def _qualify_field(source: str, path: str) -> str:
    return f"{source}.{strip_indices(path)}".rstrip(".")
