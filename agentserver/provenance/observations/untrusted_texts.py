"""Untrusted texts of a conversation with their indexes.

Texts are only appended. All indexes are extended after every ``SLICE`` bytes, and with the rest when a decision needs
them, so that no decision waits until a whole history is indexed.

Limits: wrapped texts are searched for in the first MOST_CHARACTERS characters, and up to MOST_VALUES values are
distinguished. ``beyond`` reports an excess; a query that needs the excess has no answer.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeAlias, TypeVar

from agentserver.provenance.append_only import AppendOnlyList
from agentserver.provenance.confidentiality.origin import LinkCounts, count_offers
from agentserver.provenance.copies import change
from agentserver.provenance.evidence.destinations import PlaceForm, parse_destination, parse_list
from agentserver.provenance.evidence.encodings import unwrap
from agentserver.provenance.evidence.folding import fold_bytes
from agentserver.provenance.evidence.index import SPAN, Index, Table
from agentserver.provenance.evidence.inventory import (
    Value,
    ValueKind,
    estimate_values,
    find_values,
    hash_places,
    hash_whole,
    scan_values,
    trailing_brackets,
)
from agentserver.provenance.evidence.keys import list_evidence_keys
from agentserver.provenance.evidence.leaves import find_typed_keys
from agentserver.provenance.evidence.words import WordIndex
from agentserver.provenance.observations.lazy import Incremental

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from agentserver.provenance.evidence.encodings import DecodedText
    from agentserver.provenance.evidence.labels import Text

Found = TypeVar("Found")
Made = TypeVar("Made")

MOST_VALUES: Final = 100_000
"""Values that one conversation distinguishes by evidence form, counted once per text."""

MOST_PLACES: Final = 50_000
"""Values that one conversation distinguishes as places, which takes longer."""

MOST_CHARACTERS: Final = 4_000_000
"""Characters of one conversation in which wrapped texts are searched for."""

SLICE: Final = 1 << 12
"""Bytes of evidence form that are indexed at once, in about three milliseconds; half as many more on the loop."""

FILLED: Final = 64
"""Maximum texts with an address that are looked at."""
LONGEST_FIELD: Final = 256
"""Maximum characters of a field with one address and its name."""

LONGEST_SCANNED: Final = 1 << 16
"""Maximum characters of a text whose values and numbers are kept for a text that repeats it."""
NEWEST: Final = 8
"""Latest long texts that a text may repeat at little cost."""
REPEATED: Final = 128
"""Bytes that take as long to index as a text that repeats one of them, without its values."""

SHORTEST_WHOLE: Final = 6
"""Shortest evidence form of a whole short text, such as a title or name, that counts as a value."""


@dataclass(frozen=True, slots=True)
class ValueIndex:
    """Values of texts by hash. ``beyond``: there are more than it distinguishes."""

    table: Table = field(default=Table())
    count: int = 0
    texts: int = 0
    beyond: bool = False

    def add(
        self, bodies: Sequence[str], scanned: Sequence[Sequence[_FoundValue]] | None = None
    ) -> ValueIndex:
        """Add the values of further texts, which ``_scan`` found, by their evidence forms."""
        all_found = [*map(_scan, bodies)] if scanned is None else scanned
        addresses = [[one for one in found if one.value.kind is not ValueKind.FILE] for found in all_found]
        found = self._add_scanned(bodies, addresses, lambda _, value: (value.key,), MOST_VALUES)
        whole_keys = [
            (hash_whole(body), number)
            for number, body in enumerate(bodies, self.texts)
            if SHORTEST_WHOLE <= len(fold_bytes(body)) < SPAN
        ]
        return ValueIndex(found.table.add(whole_keys), found.count, found.texts, found.beyond)

    def add_places(
        self, bodies: Sequence[str], scanned: Sequence[Sequence[_FoundValue]] | None = None
    ) -> ValueIndex:
        """Add the values of further texts, which ``_scan`` found, by the places that they denote."""
        found = [*map(_scan, bodies)] if scanned is None else scanned
        return self._add_scanned(bodies, found, hash_places, MOST_PLACES)

    def add_kinds(
        self, bodies: Sequence[str], find_kinds: Callable[[str], Sequence[int]] | None = None
    ) -> ValueIndex:
        """Add the numbers and dates of further texts by value, which ``find_kinds`` finds and hashes."""
        find = find_kinds or _Reader(_find_kinds)
        entries: list[tuple[int, int]] = []
        count, beyond = self.count, self.beyond
        for number, body in enumerate(bodies, self.texts):
            found = find(body)[: MOST_VALUES - count + 1] if count < MOST_VALUES else ()
            keys = [(key, number) for key in found]
            count += len(keys)
            beyond = beyond or count > MOST_VALUES or (count == MOST_VALUES and not keys)
            entries += keys
        return ValueIndex(self.table.add(entries), count, self.texts + len(bodies), beyond)

    def _add_scanned(
        self,
        bodies: Sequence[str],
        scanned: Sequence[Sequence[_FoundValue]],
        keys: Callable[[str, Value], Iterable[int]],
        limit: int,
    ) -> ValueIndex:
        known: dict[tuple[ValueKind, str, str], Iterable[int]] = {}
        entries: list[tuple[int, int]] = []
        count, beyond = self.count, self.beyond
        for number, (body, found) in enumerate(zip(bodies, scanned, strict=True), self.texts):
            seen_here: set[tuple[ValueKind, str, str]] = set()
            for about, value in found if count < limit else ():
                if about in seen_here:
                    continue
                if count >= limit:
                    beyond = True
                    break
                seen_here.add(about)
                count += 1
                if about not in known:
                    known[about] = keys(body, value)
                entries += [(key, number) for key in known[about]]
            beyond = beyond or (count >= limit and not seen_here)
        return ValueIndex(self.table.add(entries), count, self.texts + len(bodies), beyond)


class _FoundValue(NamedTuple):
    """Value of a text, with what distinguishes it from others: its kind, its spelling and brackets behind it."""

    about: tuple[ValueKind, str, str]
    value: Value


class _Reader(Generic[Found]):
    """Reads the texts of one addition, each once, and none that repeats a recent long one: agents pass texts on.

    Args:
        read: the result of reading a text depends on nothing else.
        recent: the latest long texts with their results.
    """

    def __init__(self, read: Callable[[str], Found], recent: Iterable[tuple[str, Found]] = ()) -> None:
        self._read, self._known = read, dict(recent)

    def __call__(self, body: str) -> Found:
        found = self._known.pop(body, None)
        if found is None:
            found = self._read(body)
        self._known[body] = found  # as the latest
        return found

    @property
    def recent(self) -> tuple[tuple[str, Found], ...]:
        """The latest long texts with their results, by the last occurrence of each."""
        kept = [one for one in self._known.items() if LONGEST_FIELD < len(one[0]) <= LONGEST_SCANNED]
        return tuple(kept[-NEWEST:])


class _Kept(NamedTuple, Generic[Made, Found]):
    """Index with the findings in the latest long texts."""

    made: Made
    recent: tuple[tuple[str, Found], ...] = ()


def _find_kinds(body: str) -> tuple[int, ...]:
    kinds = dict.fromkeys(chain(find_typed_keys(body), list_evidence_keys(body)))
    return tuple([hash_kind(kind) for kind in kinds])


def _scan(body: str) -> tuple[_FoundValue, ...]:
    return tuple(
        [
            _FoundValue((value.kind, value.text, trailing_brackets(body, value)), value)
            for value in scan_values(body)
        ]
    )


def hash_kind(kind: str) -> int:
    """Hash a number or date by its value; every character counts."""
    return int.from_bytes(blake2b(kind.encode(), digest_size=8, person=b"kind").digest(), "little")


@dataclass(frozen=True, slots=True)
class WrappedTexts:
    """Texts that were encoded within other texts, with their own indexes.

    Args:
        inner: the decoded texts with their encodings.
        outer: the number of the enclosing text of each, in order.
        over: whether some texts were not searched.
    """

    inner: tuple[DecodedText, ...] = ()
    outer: tuple[int, ...] = ()
    index: Index = field(default=Index())
    values: ValueIndex = field(default=ValueIndex())
    places: ValueIndex = field(default=ValueIndex())
    words: WordIndex = field(default=WordIndex())
    read: int = 0
    seen: int = 0
    over: bool = False
    offers: LinkCounts = field(default=LinkCounts())
    kinds: ValueIndex = field(default=ValueIndex())

    @property
    def beyond(self) -> bool:
        """True if some texts were not searched, or some of their values not distinguished."""
        return self.over or self.values.beyond

    def add(
        self, texts: Sequence[Text], find_inner: Callable[[str], tuple[DecodedText, ...]] | None = None
    ) -> WrappedTexts:
        """Add the texts that are wrapped in further texts, which ``find_inner`` finds."""
        find = find_inner or _Reader(unwrap)
        read, over = self.read, self.over
        found: list[DecodedText] = []
        outer: list[int] = []
        offered: list[tuple[str, str]] = []
        for number, text in enumerate(texts, self.seen):
            read += len(text.body)
            if read > MOST_CHARACTERS:
                over = True
                break
            inner = find(text.body)
            found += inner
            outer += [number] * len(inner)
            offered += [(text.origin.place, decoded.body) for decoded in inner]
        if not found:
            return change(self, read=read, seen=self.seen + len(texts), over=over)
        bodies = [decoded.body for decoded in found]
        by_form, by_place = _add_values(self.values, self.places, bodies)
        return WrappedTexts(
            (*self.inner, *found),
            (*self.outer, *outer),
            _extend_spans(self.index, bodies),
            by_form,
            by_place,
            self.words.add(bodies),
            read,
            self.seen + len(texts),
            over,
            self.offers.add(count_offers(offered)),
            self.kinds.add_kinds(bodies),
        )

    def body(self, number: int) -> str:
        """Return the text with a number."""
        return self.inner[number].body


def _extend_spans(index: Index, bodies: Sequence[str]) -> Index:
    return index.add(tuple(map(fold_bytes, bodies))) if bodies else index


def _collect_bodies(texts: Sequence[Text]) -> list[str]:
    return [text.body for text in texts]


class _Spans(NamedTuple):
    """Index of spans, in which a text that repeats a recent one is empty.

    Args:
        made: the index.
        recent: the latest texts of several words that are in it, by the last occurrence of each.
        long: the latest long ones of them, whose places are not taken by short ones.
    """

    made: Index = Index()
    recent: tuple[str, ...] = ()
    long: tuple[str, ...] = ()


def _extend_distinct(spans: _Spans, texts: Sequence[Text]) -> _Spans:
    """Add the spans of further texts, without those of repeated ones."""
    short, long, bodies = dict.fromkeys(spans.recent), dict.fromkeys(spans.long), _collect_bodies(texts)
    for number, body in enumerate(bodies):
        if not _may_be_repeated(body):
            continue
        recent = long if len(body) > LONGEST_FIELD else short
        if body in recent:
            bodies[number] = ""
            del recent[body]
        recent[body] = None  # as the latest
        if len(recent) > NEWEST:
            del recent[next(iter(recent))]
    return _Spans(_extend_spans(spans.made, bodies), tuple(short), tuple(long))


def _may_be_repeated(body: str) -> bool:
    """Check for a text of several words that is no address. Nothing is asked of it but its first occurrence."""
    return (len(body) > LONGEST_FIELD or "@" not in body) and len(body.split(None, 1)) > 1


def _add_values(
    by_form: ValueIndex,
    by_place: ValueIndex,
    bodies: Sequence[str],
    scan: Callable[[str], tuple[_FoundValue, ...]] | None = None,
) -> tuple[ValueIndex, ValueIndex]:
    """Add the values of further texts by form and by place, which one scan finds."""
    find = scan or _Reader(_scan)
    scanned = [find(body) if by_form.count < MOST_VALUES else () for body in bodies]
    return by_form.add(bodies, scanned), by_place.add_places(bodies, scanned)


_Values: TypeAlias = _Kept[tuple[ValueIndex, ValueIndex], tuple[_FoundValue, ...]]
_Kinds: TypeAlias = _Kept[ValueIndex, tuple[int, ...]]
_Wrapped: TypeAlias = "_Kept[WrappedTexts, tuple[DecodedText, ...]]"


def _extend_values(known: _Values, texts: Sequence[Text]) -> _Values:
    scan = _Reader(_scan, known.recent)
    return _Kept(_add_values(*known.made, _collect_bodies(texts), scan), scan.recent)


def _extend_kinds(known: _Kinds, texts: Sequence[Text]) -> _Kinds:
    find = _Reader(_find_kinds, known.recent)
    return _Kept(known.made.add_kinds(_collect_bodies(texts), find), find.recent)


def _extend_wrapped(known: _Wrapped, texts: Sequence[Text]) -> _Wrapped:
    find = _Reader(unwrap, known.recent)
    return _Kept(known.made.add(texts, find), find.recent)


def _extend_offers(offers: LinkCounts, texts: Sequence[Text]) -> LinkCounts:
    return offers.add(count_offers((text.origin.place, text.body) for text in texts))


_index_key: Final = attrgetter("body", "origin.place")
"""Returns the parts of a text that indexes depend on."""


@dataclass(frozen=True, slots=True)
class UntrustedTexts:
    """Untrusted texts in order of arrival. Text ``n`` of each index is ``texts[n]``.

    Args:
        texts: in order of arrival.
        size: the length of their evidence forms in bytes.
        work: the same, with less for a text that repeats a recent one.
        indexed: the part of ``work`` that all indexes are known to cover.
    """

    texts: AppendOnlyList[Text] = field(default=AppendOnlyList())
    size: int = 0
    work: int = field(default=0, repr=False, compare=False)
    indexed: int = field(default=0, repr=False, compare=False)
    _spans: Incremental[Text, _Spans] = field(
        default_factory=lambda: Incremental(_Spans()), repr=False, compare=False
    )
    _values: Incremental[Text, _Values] = field(
        default_factory=lambda: Incremental(_Kept((ValueIndex(), ValueIndex()))), repr=False, compare=False
    )
    _words: Incremental[Text, WordIndex] = field(
        default_factory=lambda: Incremental(WordIndex()), repr=False, compare=False
    )
    _wrapped: Incremental[Text, _Wrapped] = field(
        default_factory=lambda: Incremental(_Kept(WrappedTexts())), repr=False, compare=False
    )
    _offers: Incremental[Text, LinkCounts] = field(
        default_factory=lambda: Incremental(LinkCounts()), repr=False, compare=False
    )
    _kinds: Incremental[Text, _Kinds] = field(
        default_factory=lambda: Incremental(_Kept(ValueIndex())), repr=False, compare=False
    )

    def add(self, texts: Sequence[Text]) -> UntrustedTexts:
        """Append texts without indexing them."""
        if not texts:
            return self
        extended = self.texts.add(texts)
        size, work = self.size, self.work
        for text in texts:
            length = len(fold_bytes(text.body))
            size += length
            repeated = length > REPEATED and self._is_repeated(text.body)
            work += min(REPEATED + estimate_values(text.body), length) if repeated else length
        count = extended.length
        return UntrustedTexts(
            extended,
            size,
            work,
            self.work if self.made else self.indexed,
            Incremental(None, self._spans, count),
            Incremental(None, self._values, count),
            Incremental(None, self._words, count),
            Incremental(None, self._wrapped, count),
            Incremental(None, self._offers, count),
            Incremental(None, self._kinds, count),
        )

    def _is_repeated(self, body: str) -> bool:
        """Check whether no index reads a text again."""
        if len(body) > LONGEST_SCANNED or not _may_be_repeated(body):
            return False
        return body in [text.body for text in self.texts.list_latest(NEWEST)]

    def add_and_index(self, texts: Sequence[Text]) -> UntrustedTexts:
        """Append texts of a continuing conversation, and keep the backlog of indexing small.

        Those before the new ones are indexed in one step, and the new ones with the next. More than one slice and a
        half is left to ``index_all``, which a caller may run in a thread.
        """
        extended = self.add(texts)
        if not SLICE <= extended.waiting <= 3 * SLICE // 2:
            return extended
        for part in (self._spans, self._values, self._words, self._wrapped, self._offers, self._kinds):
            part.drop_pending()
        self.index_all()
        extended = self.add(texts)
        if extended.waiting >= SLICE:
            extended.index_all()
        return extended

    def date_since(self, before: UntrustedTexts, time: float, trace: str) -> UntrustedTexts:
        """Return the same texts with another time and delivery for those that were added to earlier ones."""
        dated = [text.date(time, trace) for text in self.texts.list_added_to(before.texts)]
        return change(self, texts=before.texts.add(dated)) if dated else self

    @property
    def made(self) -> bool:
        """True if every index is complete."""
        return not (
            self._kinds.made is None
            or self._wrapped.made is None
            or self._values.made is None
            or self._words.made is None
            or self._offers.made is None
            or self._spans.made is None
        )

    @property
    def waiting(self) -> int:
        """Bytes of evidence form that may not be indexed yet."""
        return 0 if self.made else self.work - self.indexed

    def index_all(self) -> None:
        """Complete every index that a decision may need. It is thread-safe."""
        parts = self.index, self.values, self.words, self.wrapped, self._offered, self.kinds
        assert parts

    @property
    def index(self) -> Index:
        """Index of their spans. It finds a long text of several words once, by the first that has its words."""
        return self._spans.compute(self.texts, _extend_distinct, _index_key).made

    @property
    def values(self) -> ValueIndex:
        """Index of their values by evidence form."""
        return self._values.compute(self.texts, _extend_values, _index_key).made[0]

    @property
    def places(self) -> ValueIndex:
        """Index of their values by place."""
        return self._values.compute(self.texts, _extend_values, _index_key).made[1]

    @property
    def kinds(self) -> ValueIndex:
        """Index of their numbers and dates by value."""
        return self._kinds.compute(self.texts, _extend_kinds, _index_key).made

    @property
    def words(self) -> WordIndex:
        """Index of their words."""
        return self._words.compute(
            self.texts, lambda made, texts: made.add(_collect_bodies(texts)), _index_key
        )

    @property
    def wrapped(self) -> WrappedTexts:
        """Texts that are wrapped in them."""
        return self._wrapped.compute(self.texts, _extend_wrapped, _index_key).made

    @property
    def _offered(self) -> LinkCounts:
        return self._offers.compute(self.texts, _extend_offers, _index_key)

    def body(self, number: int) -> str:
        """Return the body of a text."""
        return self.texts[number].body

    def unwrap_text(self, number: int) -> Text:
        """Return a wrapped text with its origin."""
        wrapped = self.wrapped
        decoded, outer = wrapped.inner[number], self.texts[wrapped.outer[number]]
        return outer._replace(origin=outer.origin._replace(via=decoded.via), body=decoded.body)

    def offers(self, key: str) -> int:
        """Return an upper bound on the links from one place in these and the wrapped texts; see ``LinkCounts``."""
        return self._offered.count(key) + self.wrapped.offers.count(key)

    def find_texts_with(self, place: int, limit: int) -> list[Text]:
        """Find the texts and wrapped texts that contain a place, up to a number of each."""
        found = [self.texts[number] for number in self.places.table.find_all(place, limit)]
        return found + [
            self.unwrap_text(number) for number in self.wrapped.places.table.find_all(place, limit)
        ]

    def has_place(self, place: int) -> bool:
        """Return whether a text or a wrapped text contains a place."""
        shown = self.places.table.find_first(place)
        return shown is not None or self.wrapped.places.table.find_first(place) is not None

    @property
    def beyond(self) -> bool:
        """True if they contain more values than are distinguished."""
        return self.values.beyond or self.wrapped.beyond

    def is_filled_only(self, body: str) -> bool:
        """Return whether an address occurs only in fields that it fills, with or without a name.

        Its owner's own message has such a field. False if running text, a wrapped text or a longer word holds it.
        """
        if not self._names_address(body, body) or self.beyond:
            return False
        form, keys = fold_bytes(body), [value.key for value in find_values(body)]
        wrapped = self.wrapped
        inside = wrapped.values.table.find(keys)
        if any(number is not None for number in inside) or (
            len(form) >= SPAN and wrapped.index.find_owners(form)
        ):
            return False
        found = {number for key in keys for number in self.values.table.find_all(key, FILLED)}
        found |= self.index.find_owners(form) if len(form) >= SPAN else set()
        return len(found) < FILLED and all(self._fills_field(number, body) for number in found)

    def _fills_field(self, number: int, body: str) -> bool:
        text = self.texts[number]
        return bool(text.origin.path) and self._names_address(text.body, body)

    @staticmethod
    def _names_address(text: str, body: str) -> bool:
        if "@" not in text or len(text) > LONGEST_FIELD:
            return False
        found, address = parse_list(text), parse_destination(body)
        return len(found) == 1 and found[0].form is PlaceForm.ADDRESS and found[0] == address

    def may_contain(self, body: str, before: int) -> bool:
        """Return whether one of the first ``before`` texts, or its wrapped texts, shares a span or value with ``body``.

        Also true if the answer is beyond the tracked values.
        """
        if not before:
            return False
        form = fold_bytes(body)
        keys = [value.key for value in find_values(body)]
        if len(form) < SPAN and not keys:
            return False
        wrapped = self.wrapped
        inner = bisect_left(wrapped.outer, before)
        if wrapped.beyond or (keys and self.values.beyond):
            return True
        if len(form) >= SPAN and (self.index.holds(form, before) or wrapped.index.holds(form, inner)):
            return True
        found = self.values.table.holds(keys, before) if keys else False
        return found or wrapped.values.table.holds(keys, inner)
