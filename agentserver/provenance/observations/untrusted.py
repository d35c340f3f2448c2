"""The untrusted texts of a conversation, and the indexes that follow from them.

Owns which indexes there are, and how much of the texts goes into each. A text is only appended; all indexes are made of
every ``SLICE`` bytes as these come in, and of the rest when a decision first needs them. So no decision waits until a
whole history is indexed. Refuses to know whose texts they are and what follows for a call.

Bounds. Wrappings are undone in the first READ characters, values are told apart up to HELD; ``beyond`` says that there
is more, and a question that needs it has no answer.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Final

from agentserver.provenance.confidentiality.origin import Offers, count_offers
from agentserver.provenance.evidence.encodings import unwrapped
from agentserver.provenance.evidence.folding import fold_bytes
from agentserver.provenance.evidence.index import SPAN, Index
from agentserver.provenance.evidence.inventory import Value, ValueKind, closing, scanned, values, written
from agentserver.provenance.evidence.leaves import typed_in
from agentserver.provenance.evidence.values import Table
from agentserver.provenance.evidence.words import WordIndex
from agentserver.provenance.observations.derived import Derived

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from agentserver.provenance.evidence.encodings import Decoded
    from agentserver.provenance.evidence.labels import Text

HELD: Final = 100_000
"""Values of one conversation, each text's own counted once, that are told apart by their evidence form."""

PLACES: Final = 50_000
"""Values of one conversation that are told apart as places, which takes longer."""

READ: Final = 4_000_000
"""Characters of one conversation in which wrappings are undone."""

SLICE: Final = 1 << 13
"""Bytes of evidence form of which all indexes are made at once, in about eight milliseconds."""

WHOLE: Final = 6
"""Shortest evidence form of a whole short text (a title, a name) that counts as a value by itself."""


@dataclass(frozen=True, slots=True)
class Values:
    """The values of texts by hashes. ``beyond``: there are more than are told apart."""

    table: Table = field(default=Table())
    count: int = 0
    texts: int = 0
    beyond: bool = False

    def add(self, bodies: Sequence[str]) -> Values:
        """The values with those of more texts, which are numbered on, by their evidence forms."""
        found = self._with(bodies, values, lambda _, value: (value.key,), HELD)
        named = enumerate(bodies, self.texts)
        whole = [(whole_key(body), number) for number, body in named if WHOLE <= len(fold_bytes(body)) < SPAN]
        return replace(found, table=found.table.add(whole))

    def locate(self, bodies: Sequence[str]) -> Values:
        """The same by the places that they stand for."""
        return self._with(bodies, scanned, written, PLACES)

    def count_up(self, bodies: Sequence[str]) -> Values:
        """The numbers and dates with those of more texts, by value."""
        entries: list[tuple[int, int]] = []
        count, beyond = self.count, self.beyond
        for number, body in enumerate(bodies, self.texts):
            kinds = islice(dict.fromkeys(typed_in(body)) if count < HELD else (), HELD - count + 1)
            keys = [(kind_key(kind), number) for kind in kinds]
            count += len(keys)
            beyond = beyond or count > HELD or (count == HELD and not keys)
            entries += keys
        return Values(self.table.add(entries), count, self.texts + len(bodies), beyond)

    def _with(
        self,
        bodies: Sequence[str],
        scan: Callable[[str], Iterator[Value]],
        keys: Callable[[str, Value], Iterable[int]],
        most: int,
    ) -> Values:
        known: dict[tuple[ValueKind, str, str], Iterable[int]] = {}
        entries: list[tuple[int, int]] = []
        count, beyond = self.count, self.beyond
        for number, body in enumerate(bodies, self.texts):
            here: set[tuple[ValueKind, str, str]] = set()
            for value in scan(body) if count < most else ():
                about = value.kind, value.text, closing(body, value)
                if about in here:
                    continue
                if count >= most:
                    beyond = True
                    break
                here.add(about)
                count += 1
                if about not in known:
                    known[about] = keys(body, value)
                entries += [(key, number) for key in known[about]]
            beyond = beyond or (count >= most and not here)
        return Values(self.table.add(entries), count, self.texts + len(bodies), beyond)


def whole_key(body: str) -> int:
    """The hash of a short text as one value."""
    return Value(ValueKind.KEY, body, 0).key


def kind_key(kind: str) -> int:
    """The hash of a number or a date by its value, every character of which counts."""
    return int.from_bytes(blake2b(kind.encode(), digest_size=8, person=b"kind").digest(), "little")


@dataclass(frozen=True, slots=True)
class Wrapped:
    """The texts that were wrapped inside others, with their own indexes.

    Args:
        inner: each of them, and what it was wrapped in.
        outer: the number of the text around each of them, in order.
        over: whether not all texts were looked into.
    """

    inner: tuple[Decoded, ...] = ()
    outer: tuple[int, ...] = ()
    index: Index = field(default=Index())
    values: Values = field(default=Values())
    places: Values = field(default=Values())
    words: WordIndex = field(default=WordIndex())
    read: int = 0
    seen: int = 0
    over: bool = False
    offers: Offers = field(default=Offers())
    kinds: Values = field(default=Values())

    @property
    def beyond(self) -> bool:
        """True when not all texts were looked into, or not all that was found in them."""
        return self.over or self.values.beyond

    def add(self, texts: Sequence[Text]) -> Wrapped:
        """The same with what is wrapped in more texts."""
        read, over = self.read, self.over
        found: list[Decoded] = []
        outer: list[int] = []
        offered: list[tuple[str, str]] = []
        for number, text in enumerate(texts, self.seen):
            read += len(text.body)
            if read > READ:
                over = True
                break
            inner = unwrapped(text.body)
            found += inner
            outer += [number] * len(inner)
            offered += [(text.origin.place, decoded.body) for decoded in inner]
        bodies = [decoded.body for decoded in found]
        return Wrapped(
            (*self.inner, *found),
            (*self.outer, *outer),
            _spans(self.index, bodies),
            self.values.add(bodies),
            self.places.locate(bodies),
            self.words.add(bodies),
            read,
            self.seen + len(texts),
            over,
            self.offers.add(count_offers(offered)),
            self.kinds.count_up(bodies),
        )

    def body(self, number: int) -> str:
        """Give the body of one of them."""
        return self.inner[number].body


def _spans(index: Index, bodies: Sequence[str]) -> Index:
    return index.add(tuple(map(fold_bytes, bodies))) if bodies else index


def _bodies(texts: Sequence[Text]) -> list[str]:
    return [text.body for text in texts]


def _more_offers(offers: Offers, texts: Sequence[Text]) -> Offers:
    return offers.add(count_offers((text.origin.place, text.body) for text in texts))


def _indexed(text: Text) -> tuple[str, str]:
    """The parts of a text that indexes depend on."""
    return text.body, text.origin.place


@dataclass(frozen=True, slots=True)
class Untrusted:
    """Untrusted texts in the order in which they came. Text ``n`` of each index is ``texts[n]``.

    Args:
        texts: in the order in which they came.
        size: the length of their evidence forms, in bytes.
        indexed: as much of it as all indexes are known to hold.
    """

    texts: tuple[Text, ...] = ()
    size: int = 0
    indexed: int = field(default=0, repr=False, compare=False)
    _spans: Derived[Text, Index] = field(default_factory=lambda: Derived(Index()), repr=False, compare=False)
    _values: Derived[Text, Values] = field(
        default_factory=lambda: Derived(Values()), repr=False, compare=False
    )
    _places: Derived[Text, Values] = field(
        default_factory=lambda: Derived(Values()), repr=False, compare=False
    )
    _words: Derived[Text, WordIndex] = field(
        default_factory=lambda: Derived(WordIndex()), repr=False, compare=False
    )
    _wrapped: Derived[Text, Wrapped] = field(
        default_factory=lambda: Derived(Wrapped()), repr=False, compare=False
    )
    _offers: Derived[Text, Offers] = field(
        default_factory=lambda: Derived(Offers()), repr=False, compare=False
    )
    _kinds: Derived[Text, Values] = field(
        default_factory=lambda: Derived(Values()), repr=False, compare=False
    )

    def add(self, texts: Sequence[Text]) -> Untrusted:
        """The texts with more of them. Nothing is looked for yet."""
        if not texts:
            return self
        more = (*self.texts, *texts)
        size = self.size + sum(len(fold_bytes(text.body)) for text in texts)
        count = len(more)
        return Untrusted(
            more,
            size,
            self.size if self.made else self.indexed,
            self._spans.extend_to(count),
            self._values.extend_to(count),
            self._places.extend_to(count),
            self._words.extend_to(count),
            self._wrapped.extend_to(count),
            self._offers.extend_to(count),
            self._kinds.extend_to(count),
        )

    def followed(self, texts: Sequence[Text]) -> Untrusted:
        """Add texts to those of a conversation that goes on: what waits to be indexed never becomes much.

        More than two slices at once are left to ``index_all``, for which a caller may have a thread.
        """
        more = self.add(texts)
        if SLICE <= more.waiting <= 2 * SLICE:
            more.index_all()
        return more

    @property
    def made(self) -> bool:
        """True when every index is made."""
        parts = self._spans, self._values, self._places, self._words, self._wrapped, self._offers, self._kinds
        return all(part.made is not None for part in parts)

    @property
    def waiting(self) -> int:
        """Bytes of evidence form of which indexes may still have to be made."""
        return 0 if self.made else self.size - self.indexed

    def index_all(self) -> None:
        """Make every index that a decision may need. Safe in another thread than that of the decisions."""
        parts = self.index, self.values, self.places, self.words, self.wrapped, self._offered, self.kinds
        assert parts

    @property
    def index(self) -> Index:
        """Their spans."""
        return self._spans.of(self.texts, lambda made, texts: _spans(made, _bodies(texts)), _indexed)

    @property
    def values(self) -> Values:
        """Their values, by their evidence forms."""
        return self._values.of(self.texts, lambda made, texts: made.add(_bodies(texts)), _indexed)

    @property
    def places(self) -> Values:
        """Their values, by the places that they stand for."""
        return self._places.of(self.texts, lambda made, texts: made.locate(_bodies(texts)), _indexed)

    @property
    def kinds(self) -> Values:
        """Their numbers and dates, by value."""
        return self._kinds.of(self.texts, lambda made, texts: made.count_up(_bodies(texts)), _indexed)

    @property
    def words(self) -> WordIndex:
        """Their words."""
        return self._words.of(self.texts, lambda made, texts: made.add(_bodies(texts)), _indexed)

    @property
    def wrapped(self) -> Wrapped:
        """The texts that are wrapped in them."""
        return self._wrapped.of(self.texts, lambda made, texts: made.add(texts), _indexed)

    @property
    def _offered(self) -> Offers:
        return self._offers.of(self.texts, _more_offers, _indexed)

    def body(self, number: int) -> str:
        """Give the body of a text."""
        return self.texts[number].body

    def unwrapped(self, number: int) -> Text:
        """Give the text that is wrapped in one of them, with its origin."""
        wrapped = self.wrapped
        decoded, outer = wrapped.inner[number], self.texts[wrapped.outer[number]]
        return replace(outer, origin=replace(outer.origin, via=decoded.via), body=decoded.body)

    def offers(self, key: str) -> int:
        """A bound on the links that they, and what is wrapped in them, offer from one place; see ``Offers``."""
        return self._offered.of(key) + self.wrapped.offers.of(key)

    def showing(self, place: int, most: int) -> list[Text]:
        """The texts, and those wrapped in them, that hold the place with this hash; at most so many of each."""
        found = [self.texts[number] for number in self.places.table.all(place, most)]
        return found + [self.unwrapped(number) for number in self.wrapped.places.table.all(place, most)]

    def shows(self, place: int) -> bool:
        """True when a text, or one that is wrapped in it, holds the place with this hash."""
        shown = self.places.table.first(place)
        return shown is not None or self.wrapped.places.table.first(place) is not None

    @property
    def beyond(self) -> bool:
        """True when they hold more than is told apart."""
        return self.values.beyond or self.wrapped.beyond

    def told(self, body: str, before: int) -> bool:
        """True when one of the first ``before`` texts, or what is wrapped in it, holds a span or a value of ``body``.

        True as well where that is beyond what is tracked.
        """
        if not before:
            return False
        form = fold_bytes(body)
        keys = [value.key for value in values(body)]
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
