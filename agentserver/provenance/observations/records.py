"""Values that the system itself guarantees, and how they are looked up.

Owns their keys, and the doubt about those that merely pass on what untrusted text said. Refuses to know which listener
may guarantee what: the ledger is told.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.provenance.evidence.destinations import PlaceForm, handle, listed
from agentserver.provenance.evidence.inventory import scanned, written
from agentserver.provenance.evidence.labels import Standing
from agentserver.provenance.evidence.leaves import typed
from agentserver.provenance.evidence.words import WordIndex
from agentserver.provenance.observations.derived import Derived
from agentserver.provenance.observations.untrusted import Untrusted
from agentserver.provenance.policy.paths import strip_indices

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from agentserver.provenance.evidence.destinations import Destination
    from agentserver.provenance.evidence.labels import Text

FEW: Final = 64
"""Records of which all indexes are made at once, in a few milliseconds."""

CHUNK: Final = 1 << 12
"""Keys of a chunk beyond which it is merged with no other."""


class _Chunks(NamedTuple):
    """Numbers of the first ``held`` records by their keys; the oldest part comes first."""

    held: int = 0
    parts: tuple[Mapping[str, tuple[int, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Records:
    """Values that the system itself guarantees, as they came; looked up by their authority form.

    A value that a listener says which is no source itself guarantees nothing where untrusted text said it before. That
    is found out when the value is looked up, in ``untrusted``.

    Args:
        entries: in the order in which they came.
        untrusted: the untrusted texts of the conversation.
        indexed: how many entries all indexes are known to hold.
    """

    entries: tuple[Text, ...] = ()
    untrusted: Untrusted = field(default_factory=Untrusted, compare=False, repr=False)
    indexed: int = field(default=0, compare=False, repr=False)
    _chunks: Derived[Text, _Chunks] = field(
        default_factory=lambda: Derived(_Chunks()), compare=False, repr=False
    )
    _words: Derived[Text, WordIndex] = field(
        default_factory=lambda: Derived(WordIndex()), compare=False, repr=False
    )
    _places: Derived[Text, int] = field(default_factory=lambda: Derived(0), compare=False, repr=False)

    @property
    def places(self) -> int:
        """Count the values that name places: the choice that a directory offers."""
        return self._places.of(
            self.entries, lambda made, texts: made + sum(map(_names_place, texts)), _indexed
        )

    @property
    def chunks(self) -> tuple[Mapping[str, tuple[int, ...]], ...]:
        """The numbers of the records by their keys; chunks of like size merge, so that adding stays cheap."""
        return self._chunks.of(self.entries, self._chunked, _indexed).parts

    @property
    def words(self) -> WordIndex:
        """The words of the entries, numbered like these. They count for sure entries only; see ``sure``."""
        return self._words.of(
            self.entries, lambda made, texts: made.add([text.body for text in texts]), _indexed
        )

    def add(self, texts: Sequence[Text], untrusted: Untrusted | None = None) -> Records:
        """Add records, and take the untrusted texts of the conversation where there are more of them."""
        known = self.untrusted if untrusted is None else untrusted
        if not texts:
            return Records(self.entries, known, self.indexed, self._chunks, self._words, self._places)
        entries = (*self.entries, *texts)
        count = len(entries)
        made = not (self._chunks.made is None or self._words.made is None or self._places.made is None)
        return Records(
            entries,
            known,
            len(self.entries) if made else self.indexed,
            self._chunks.extend_to(count),
            self._words.extend_to(count),
            self._places.extend_to(count),
        )

    def followed(self, texts: Sequence[Text], untrusted: Untrusted) -> Records:
        """Add records to those of a conversation that goes on: what waits to be indexed never becomes much.

        More than two slices at once are left to ``index_all``, for which a caller may have a thread.
        """
        more = self.add(texts, untrusted)
        if FEW <= more.waiting <= 2 * FEW:
            more.index_all()
        return more

    @property
    def waiting(self) -> int:
        """The number of entries of which indexes may still have to be made."""
        return len(self.entries) - self.indexed

    def index_all(self) -> None:
        """Make every index that a decision may need. Safe in another thread than that of the decisions."""
        parts = self.chunks, self.words, self.places
        assert parts

    def find(self, key: str) -> Iterator[Text]:
        """The sure records with one authority key."""
        for chunk in self.chunks:
            yield from filter(self.sure, (self.entries[number] for number in chunk.get(key, ())))

    def directory(self, place: Destination) -> Iterator[Text]:
        """The sure records by which a place may receive: those of a directory, and what is the principal's own."""
        held = (text for key in place.alike for text in self.find(f"place {key}"))
        return filter(_names_place, held)

    def sure(self, text: Text) -> bool:
        """True for a record that does not merely pass on what untrusted text said."""
        return not text.after or not self.untrusted.told(text.body, text.after)

    def _chunked(self, made: _Chunks, texts: Sequence[Text]) -> _Chunks:
        found: dict[str, tuple[int, ...]] = {}
        for number, text in enumerate(texts, made.held):
            for key in keys_of(text.body):
                found[key] = self._distinct((*found.get(key, ()), number))
        parts = [*made.parts, found] if texts else [*made.parts]
        while len(parts) > 1 and len(parts[-2]) <= 2 * len(parts[-1]) and len(parts[-1]) <= CHUNK:
            newer = parts.pop()
            older = parts.pop()
            both = {**older, **newer}
            parts.append({key: self._distinct((*older.get(key, ()), *newer.get(key, ()))) for key in both})
        return _Chunks(made.held + len(texts), tuple(parts))

    def _distinct(self, numbers: tuple[int, ...]) -> tuple[int, ...]:
        """One record of each field, the first: that a field says the same again changes nothing."""
        if len(numbers) == 1:
            return numbers
        known: dict[tuple[object, ...], int] = {}
        for number in numbers:
            text = self.entries[number]
            field = text.origin.source, strip_indices(text.origin.path), text.standing, text.asked, text.id
            known.setdefault(field, number)
        return tuple(known.values())


def _names_place(text: Text) -> bool:
    return text.standing in {Standing.DIRECTORY, Standing.OWN}


def _indexed(text: Text) -> tuple[object, ...]:
    """The parts of a record that indexes depend on."""
    return text.body, text.origin.source, text.origin.path, text.standing, text.asked, text.id


def keys_of(body: str) -> frozenset[str]:
    """The keys under which a value is looked up: as a destination, as written, as a number or a date; what is in it."""
    known = {f"name {body.strip().lower() if body.isascii() else body.strip()}"}
    kind = typed(body)
    if kind is not None:
        known.add(kind)
    known.update(f"place {key}" for place in listed(body) for key in _held(place))
    known.update(f"within {key}" for value in scanned(body) for key in written(body, value))
    return frozenset(known)


def _held(place: Destination) -> tuple[str, ...]:
    """The keys of a place that a record holds. A mark that it has is a part of the name."""
    if place.form is PlaceForm.NAME:
        return place.key, handle(place.key)
    return () if place.form is PlaceForm.NONE else place.alike
