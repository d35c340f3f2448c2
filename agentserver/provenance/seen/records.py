"""Values that the system itself guarantees, and how they are looked up.

Owns their keys, and the doubt about those that merely pass on what untrusted text said. Refuses to know which listener
may guarantee what: the ledger is told.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agentserver.provenance.evidence.destinations import PlaceForm, handle, listed
from agentserver.provenance.evidence.inventory import scanned, written
from agentserver.provenance.evidence.labels import Standing
from agentserver.provenance.evidence.leaves import typed
from agentserver.provenance.evidence.words import WordIndex
from agentserver.provenance.policy.paths import bare
from agentserver.provenance.seen.derived import Derived
from agentserver.provenance.seen.untrusted import Untrusted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from agentserver.provenance.evidence.destinations import Destination
    from agentserver.provenance.evidence.labels import Text

_Chunks = tuple["Mapping[str, tuple[Text, ...]]", ...]


@dataclass(frozen=True, slots=True)
class Records:
    """Values that the system itself guarantees, as they came; looked up by their authority form.

    A value that a listener says which is no source itself guarantees nothing where untrusted text said it before. That
    is found out when the value is looked up, in ``untrusted``.
    """

    entries: tuple[Text, ...] = ()
    untrusted: Untrusted = field(default=Untrusted(), compare=False, repr=False)
    _chunks: Derived[Text, _Chunks] = field(default=Derived(()), compare=False, repr=False)
    _words: Derived[Text, WordIndex] = field(default=Derived(WordIndex()), compare=False, repr=False)
    _places: Derived[Text, int] = field(default=Derived(0), compare=False, repr=False)

    @property
    def places(self) -> int:
        """Count the values that name places: the choice that a directory offers."""
        return self._places.of(self.entries, lambda made, texts: made + sum(map(_names_place, texts)))

    @property
    def chunks(self) -> _Chunks:
        """The records by their keys; chunks of like size merge, so that adding stays cheap."""
        return self._chunks.of(self.entries, _chunked)

    @property
    def words(self) -> WordIndex:
        """The words of the entries, numbered like these. They count for sure entries only; see ``sure``."""
        return self._words.of(self.entries, lambda made, texts: made.add([text.body for text in texts]))

    def add(self, texts: Sequence[Text], untrusted: Untrusted | None = None) -> Records:
        """More records, and the untrusted texts of the conversation where there are more of them."""
        known = self.untrusted if untrusted is None else untrusted
        if not texts:
            return Records(self.entries, known, self._chunks, self._words, self._places)
        entries = (*self.entries, *texts)
        count = len(entries)
        chunks, words = self._chunks.grown(count), self._words.grown(count)
        return Records(entries, known, chunks, words, self._places.grown(count))

    def find(self, key: str) -> Iterator[Text]:
        """The sure records with one authority key."""
        for chunk in self.chunks:
            yield from filter(self.sure, chunk.get(key, ()))

    def directory(self, place: Destination) -> Iterator[Text]:
        """The sure records by which a place may receive: those of a directory, and what is the principal's own."""
        held = (text for key in place.alike for text in self.find(f"place {key}"))
        return filter(_names_place, held)

    def sure(self, text: Text) -> bool:
        """True for a record that does not merely pass on what untrusted text said."""
        return not text.after or not self.untrusted.told(text.body, text.after)


def _names_place(text: Text) -> bool:
    return text.standing in {Standing.DIRECTORY, Standing.OWN}


def _chunked(chunks: _Chunks, texts: Sequence[Text]) -> _Chunks:
    found: dict[str, tuple[Text, ...]] = {}
    for text in texts:
        for key in keys_of(text.body):
            found[key] = _distinct((*found.get(key, ()), text))
    merged = [*chunks, found] if texts else [*chunks]
    while len(merged) > 1 and len(merged[-2]) <= 2 * len(merged[-1]):
        newer = merged.pop()
        older = merged.pop()
        both = {**older, **newer}
        merged.append({key: _distinct((*older.get(key, ()), *newer.get(key, ()))) for key in both})
    return tuple(merged)


def _distinct(texts: tuple[Text, ...]) -> tuple[Text, ...]:
    """One text of each field, the first: that a field says the same again changes nothing."""
    if len(texts) == 1:
        return texts
    known: dict[tuple[object, ...], Text] = {}
    for text in texts:
        known.setdefault(
            (text.origin.source, bare(text.origin.path), text.standing, text.asked, text.id), text
        )
    return tuple(known.values())


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
