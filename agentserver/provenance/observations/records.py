"""Records: values that the system guarantees, with indexes over them.

The ledger decides which listeners guarantee which values. A record that only repeats untrusted text is doubtful.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.provenance.append_only import AppendOnlyList
from agentserver.provenance.copies import change
from agentserver.provenance.evidence.destinations import PlaceForm, fold_handle, parse_list
from agentserver.provenance.evidence.inventory import SHORTEST_NUMBER, hash_places, scan_values
from agentserver.provenance.evidence.labels import Standing, strip_indices
from agentserver.provenance.evidence.leaves import build_typed_key
from agentserver.provenance.evidence.words import WordIndex
from agentserver.provenance.observations.lazy import Incremental
from agentserver.provenance.observations.untrusted_texts import UntrustedTexts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from agentserver.provenance.evidence.destinations import Destination
    from agentserver.provenance.evidence.labels import Text

FEW: Final = 64
"""Records that are indexed at once, in a few milliseconds."""

CHUNK: Final = 1 << 12
"""Keys of a chunk that is not merged further."""


RECENT: Final = 32
"""Latest different values of fields that are known to be indexed, so that a repetition of one costs nothing."""

LATEST: Final = 8
"""Latest records that are compared with a value as a whole."""


class _Chunks(NamedTuple):
    """Record numbers by key for the first ``held`` records, in chunks from old to new.

    ``recent`` are the latest different values with their fields, by the last occurrence of each.
    """

    held: int = 0
    parts: tuple[Mapping[str, tuple[int, ...]], ...] = ()
    recent: tuple[tuple[object, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Records:
    """Values that the system guarantees, in order, with lookup by authority form.

    A value from a listener that is no source guarantees nothing if untrusted text contained it before. That is
    checked against ``untrusted`` at lookup.

    Args:
        entries: in order of arrival.
        untrusted: the untrusted texts of the conversation.
        indexed: the number of entries that all indexes are known to cover.
        places: the number of values that name places, which is the choice that a directory offers.
        has_chosen: whether the principal's words chose any of them.
        has_found: whether a look-up by other words found any of them.
    """

    entries: AppendOnlyList[Text] = field(default=AppendOnlyList())
    untrusted: UntrustedTexts = field(default_factory=UntrustedTexts, compare=False, repr=False)
    indexed: int = field(default=0, compare=False, repr=False)
    _chunks: Incremental[Text, _Chunks] = field(
        default_factory=lambda: Incremental(_Chunks()), compare=False, repr=False
    )
    _words: Incremental[Text, WordIndex] = field(
        default_factory=lambda: Incremental(WordIndex()), compare=False, repr=False
    )
    places: int = field(default=0, compare=False, repr=False)
    has_chosen: bool = field(default=False, compare=False, repr=False)
    has_found: bool = field(default=False, compare=False, repr=False)

    @property
    def chunks(self) -> tuple[Mapping[str, tuple[int, ...]], ...]:
        """Record numbers by key, in chunks that merge geometrically."""
        return self._chunks.compute(self.entries, self._extend_chunks, _index_key).parts

    @property
    def words(self) -> WordIndex:
        """Index of the entries' words, by entry number. It includes doubtful entries; see ``is_independent``."""
        return self._words.compute(
            self.entries, lambda made, texts: made.add([text.body for text in texts]), _index_key
        )

    def add(self, texts: Sequence[Text], untrusted: UntrustedTexts | None = None) -> Records:
        """Append records, and update the conversation's untrusted texts if given."""
        known = self.untrusted if untrusted is None else untrusted
        if not texts:
            return self if known is self.untrusted else change(self, untrusted=known)
        entries = self.entries.add(texts)
        count = len(entries)
        is_indexed = not (self._chunks.made is None or self._words.made is None)
        places, has_chosen, has_found = self.places, self.has_chosen, self.has_found
        for text in texts:
            places += _names_place(text)
            has_chosen = has_chosen or text.chosen
            has_found = has_found or text.found_by is not None
        return Records(
            entries,
            known,
            len(self.entries) if is_indexed else self.indexed,
            self._chunks.extend_to(count),
            self._words.extend_to(count),
            places,
            has_chosen,
            has_found,
        )

    def add_and_index(self, texts: Sequence[Text], untrusted: UntrustedTexts) -> Records:
        """Append records of a continuing conversation, and keep the backlog of indexing small.

        Those before the new ones are indexed in one step, and the new ones with the next. More than two batches are
        left to ``index_all``, which a caller may run in a thread.
        """
        extended = self.add(texts, untrusted)
        if not FEW <= extended.waiting <= 2 * FEW:
            return extended
        self._chunks.drop_pending()
        self._words.drop_pending()
        self.index_all()
        extended = self.add(texts, untrusted)
        if extended.waiting >= FEW:
            extended.index_all()
        return extended

    def date_since(self, before: Records, time: float, trace: str, untrusted: UntrustedTexts) -> Records:
        """Return the same records with another time and delivery for those that were added to earlier ones."""
        dated = [text.date(time, trace) for text in self.entries.list_added_to(before.entries)]
        return change(self, entries=before.entries.add(dated), untrusted=untrusted)

    @property
    def waiting(self) -> int:
        """Number of entries that may not be indexed yet."""
        return len(self.entries) - self.indexed

    def index_all(self) -> None:
        """Complete every index that a decision may need. It is thread-safe."""
        parts = self.chunks, self.words
        assert parts

    def find(self, key: str) -> Iterator[Text]:
        """Find the independent records with an authority key."""
        return filter(self.is_independent, self.find_all(key))

    def find_all(self, key: str) -> Iterator[Text]:
        """Find the records with an authority key, including those that only repeat untrusted text."""
        return (self.entries[number] for chunk in self.chunks for number in chunk.get(key, ()))

    def find_latest(self, body: str) -> list[Text]:
        """Find the value among the latest records that cannot repeat untrusted text, before there is an index of them.

        ``find`` finds them too. A listener whose words are untrusted is judged with its message among the records.
        """
        return [text for text in self.entries.list_latest(LATEST) if text.body == body and not text.after]

    def find_directory(self, place: Destination) -> Iterator[Text]:
        """Find the independent records that let a place receive: directory entries and the principal's own places."""
        return filter(_names_place, self.find_holders(place))

    def find_holders(self, place: Destination) -> Iterator[Text]:
        """Find the independent records that are a place or list it, whether or not they let it receive."""
        return (text for key in place.alike for text in self.find(f"place {key}"))

    def is_independent(self, text: Text) -> bool:
        """Return whether a record does more than repeat untrusted text."""
        return not text.after or not self.untrusted.may_contain(text.body, text.after)

    def _extend_chunks(self, chunks: _Chunks, texts: Sequence[Text]) -> _Chunks:
        found: dict[str, tuple[int, ...]] = {}
        recent = dict.fromkeys(chunks.recent)
        for number, text in enumerate(texts, chunks.held):
            known = (text.body, *_list_field(text))
            if known in recent:
                del recent[known]
            else:
                for key in build_keys(text.body):
                    found[key] = self._drop_repeats((*found.get(key, ()), number))
            recent[known] = None  # as the latest
        parts = [*chunks.parts, found] if found else [*chunks.parts]
        while len(parts) > 1 and len(parts[-2]) <= 2 * len(parts[-1]) and len(parts[-1]) <= CHUNK:
            newer = parts.pop()
            older = parts.pop()
            both = {**older, **newer}
            for key in older.keys() & newer.keys():
                both[key] = self._drop_repeats((*older[key], *newer[key]))
            parts.append(both)
        return _Chunks(chunks.held + len(texts), tuple(parts), tuple(recent)[-RECENT:])

    def _drop_repeats(self, numbers: tuple[int, ...]) -> tuple[int, ...]:
        """Keep the first record of each field, since a repetition changes nothing."""
        if len(numbers) == 1:
            return numbers
        known: dict[tuple[object, ...], int] = {}
        for number, text in zip(numbers, self.entries.pick(numbers), strict=True):
            known.setdefault(_list_field(text), number)
        return tuple(known.values())


def _list_field(text: Text) -> tuple[object, ...]:
    """List what distinguishes the field of a record from others with the same value."""
    origin = text.origin
    place = origin.source, strip_indices(origin.path)
    return *place, text.standing, text.asked, text.id, text.chosen, text.found_by


def _names_place(text: Text) -> bool:
    return text.standing is Standing.DIRECTORY or text.standing is Standing.OWN


_index_key: Final = attrgetter(
    "body", "origin.source", "origin.path", "standing", "asked", "id", "chosen", "found_by"
)
"""Returns the parts of a record that indexes depend on."""


def build_name_key(body: str) -> str:
    """Build the key of a value as it is written, but for the letter case of ASCII."""
    return f"name {body.lower() if body.isascii() else body}"


def list_name_keys(body: str) -> tuple[str, ...]:
    """List the keys of a value as it is written and in small letters, in which an ASCII one is indexed."""
    return tuple(f"name {form}" for form in dict.fromkeys((body.lower(), body)))


def build_keys(body: str) -> frozenset[str]:
    """Build the lookup keys of a value: as a destination, as written, as a number or date, and by its parts."""
    if len(body) < SHORTEST_NUMBER and body.isdecimal() and body.isascii():  # it names nothing but itself
        return frozenset((build_name_key(body), f"number {body.lstrip('0') or '0'}", f"place {body}"))
    known = {build_name_key(body.strip())}
    kind = build_typed_key(body)
    if kind is not None:
        known.add(kind)
    known.update(f"place {key}" for place in parse_list(body) for key in _build_place_keys(place))
    known.update(f"within {key}" for value in scan_values(body) for key in hash_places(body, value))
    return frozenset(known)


def _build_place_keys(place: Destination) -> tuple[str, ...]:
    """Build the keys of a place in a record. A leading mark in the record is part of the name."""
    if place.form is PlaceForm.NAME:
        return place.key, fold_handle(place.key)
    return () if place.form is PlaceForm.NONE else place.alike
