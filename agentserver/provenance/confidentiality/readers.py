"""Readers: the receivers that may get the content of a source or of one of its fields.

Declarations add up: every declaration for a field must admit a receiver, so that another one never releases more.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias

from agentserver.provenance.evidence.authority import DestinationPattern
from agentserver.provenance.evidence.destinations import PlaceForm
from agentserver.provenance.evidence.labels import Standing, Text, TextOrigin, means, strip_indices
from agentserver.provenance.evidence.leaves import format_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from agentserver.provenance.evidence.destinations import Destination
    from agentserver.provenance.evidence.labels import Leaf, Observation

PRINCIPAL: Final = "principal"
"""Entry for the principal's own places, which fields declared ``own`` name."""

_DIRECTORY: Final = "directory:"
_NAMES_PLACES: Final = {Standing.DIRECTORY, Standing.OWN}

Groups: TypeAlias = tuple[tuple[str, ...], ...]
"""Lists of entries. A receiver must be admitted by each list; without a list every receiver may read."""


class Readers:
    """Annotation of a payload's field with limited readers: ``Annotated[str, Readers("principal")]``.

    Args:
        entries: ``principal``, ``directory:listener`` or ``directory:listener.field`` for the places that this
            directory names, or a destination as on an allow list. Without entries no receiver may read it.

    Raises ValueError for an entry without a meaning.
    """

    __slots__ = ("entries",)
    no_constraint: ClassVar = True
    """Keeps it out of the payload's schema."""

    def __init__(self, *entries: str) -> None:
        wrong = next((entry for entry in entries if not is_sound(entry)), None)
        if wrong is not None:
            raise ValueError(f"'{wrong}' names no reader")
        self.entries = entries


@dataclass(frozen=True, slots=True)
class ReaderRule:
    """Readers of the fields ``field`` of the listeners ``source``. Both are globs; paths omit indices."""

    source: str
    field: str
    readers: tuple[str, ...]


def is_sound(entry: str) -> bool:
    """Return whether an entry can match any receiver."""
    if entry.startswith(_DIRECTORY):
        return bool(entry.removeprefix(_DIRECTORY).strip())
    return entry == PRINCIPAL or DestinationPattern(entry).sound


def find_directory(entry: str) -> str | None:
    """Return the directory that an entry names, with or without a field; None for other entries."""
    return entry.removeprefix(_DIRECTORY) if entry.startswith(_DIRECTORY) else None


def collect_required_readers(rules: Iterable[ReaderRule], source: str, leaf: Leaf) -> Groups:
    """Collect the reader groups of a leaf, from its type and from every matching rule."""
    path = strip_indices(leaf.path)
    declared = (
        rule.readers for rule in rules if means(rule.source, source) and fnmatchcase(path, rule.field)
    )
    return tuple(dict.fromkeys((*leaf.readers, *declared)))


def find_private_texts(rules: Sequence[ReaderRule], seen: Observation) -> list[tuple[Text, Groups]]:
    """Find the texts with readers in a listener's output."""
    if not rules and not any(leaf.readers for leaf in seen.leaves):
        return []
    found: list[tuple[Text, Groups]] = []
    for leaf in seen.leaves:
        groups, body = collect_required_readers(rules, seen.source, leaf), format_text(leaf.value)
        if groups and body:
            origin = TextOrigin(seen.source, leaf.path, seen.step, seen.time, seen.trace)
            found.append((Text(origin, body, Standing.RECORD), groups))
    return found


def admits(groups: Groups, place: Destination, known: Sequence[Text]) -> bool:
    """Return whether a receiver may read content with these readers.

    Args:
        groups: the readers of the content.
        place: the receiver. A text that is no destination may read nothing.
        known: the records that name this place.
    """
    if not groups:
        return True
    if place.form is PlaceForm.NONE:
        return False
    vouched = [text.origin for text in known if text.standing in _NAMES_PLACES]
    directories = {origin.source for origin in vouched} | {
        _format_qualify_field(origin.source, origin.path) for origin in vouched
    }
    own = any(text.standing is Standing.OWN for text in known)
    return all(any(_matches(entry, place, directories, own=own) for entry in group) for group in groups)


def _matches(entry: str, place: Destination, directories: set[str], *, own: bool) -> bool:
    if entry == PRINCIPAL:
        return own
    directory = find_directory(entry)
    if directory is not None:
        return any(means(directory, name) for name in directories)
    return DestinationPattern(entry).matches(place)


def _format_qualify_field(source: str, path: str) -> str:
    return f"{source}.{strip_indices(path)}".rstrip(".")
