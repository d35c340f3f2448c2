"""Private texts of one conversation: what has readers, and what of it stands in something that is said.

Owns an index of its own, beside that of untrusted texts, with the same folding and the same span. Texts with the same
readers lie in one pool, so that a pool is asked or not, and no text hides another. A private value that is shorter
than a span counts as a whole, wherever it stands. Refuses to know who may read what.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from agentserver.provenance.arrays import np
from agentserver.provenance.evidence.encodings import apply_involutions, unwrap
from agentserver.provenance.evidence.folding import fold_bytes, fold_map
from agentserver.provenance.evidence.index import SPAN, Index
from agentserver.provenance.evidence.inventory import SCHEME, scan_values
from agentserver.provenance.evidence.labels import Text
from agentserver.provenance.evidence.leaves import typed_key
from agentserver.provenance.evidence.values import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

    from agentserver.provenance.confidentiality.readers import Groups

SHORTEST: Final = 4
"""Shortest private value that is looked for, in bytes of the evidence form. A shorter one is in every text."""

INSIDE: Final = 6
"""Shortest private value that counts inside of a word; a shorter one is a word of its own or is not meant."""

ENTRIES: Final = 200_000
"""Private texts that one conversation tracks."""

_CODE: Final = re.compile(r"\d[\d ./()-]{3,40}\d|[^\s\d]{0,64}\d[^\s,;]{0,64}")
"""A group of digits, or a word with one."""

_PLACES: Final = 64
"""Private values with one hash that are compared."""

_BASE: Final = 0x9E3779B97F4A7C15
_LENGTH: Final = 0xC2B2AE3D27D4EB4F
_ALL: Final = 0xFFFFFFFFFFFFFFFF

_U64: TypeAlias = "npt.NDArray[np.uint64]"


class PrivateMatch(NamedTuple):
    """A stretch of what is said that a private text holds.

    Args:
        piece: the number of the piece in which it begins.
        excerpt: as it is said.
        text: that holds it.
        readers: of the text.
        via: the encoding that was undone.
    """

    piece: int
    excerpt: str
    text: Text
    readers: Groups
    via: str


@dataclass(frozen=True, slots=True)
class Pool:
    """The private texts with one set of readers. Text ``n`` of the index is ``texts[n]``."""

    readers: Groups
    texts: tuple[Text, ...] = ()
    index: Index = field(default=Index(), repr=False, compare=False)
    short: Table = field(default=Table(), repr=False, compare=False)
    forms: tuple[bytes, ...] = field(default=(), repr=False, compare=False)
    owners: tuple[int, ...] = field(default=(), repr=False, compare=False)
    lengths: frozenset[int] = field(default=frozenset(), repr=False, compare=False)

    def add(self, texts: Sequence[Text]) -> Pool:
        """The pool with more texts, and with the values in them."""
        folded = tuple(fold_bytes(text.body) for text in texts)
        found: dict[bytes, int] = {}
        for number, (text, form) in enumerate(zip(texts, folded, strict=True), len(self.texts)):
            for one in (form, *map(fold_bytes, _find_values(text.body))):
                if SHORTEST <= len(one) < SPAN:
                    found.setdefault(one, number)
        first = len(self.forms)
        keys = [(_key(form), first + number) for number, form in enumerate(found)]
        return Pool(
            self.readers,
            (*self.texts, *texts),
            self.index.add(folded),
            self.short.add(keys),
            (*self.forms, *found),
            (*self.owners, *found.values()),
            self.lengths.union(map(len, found)),
        )

    def find_stretches(self, form: bytes, offsets: Sequence[int]) -> Iterator[tuple[int, int, int]]:
        """The stretches of an evidence form that the pool holds: begin, end, and the number of a text.

        Args:
            form: of what is said.
            offsets: for each byte the place of its character as it is said.
        """
        for hit in self.index.hits(form):
            yield hit.start, hit.end, max(hit.text, 0)
        hashes = _hash_windows(form, self.lengths)
        for length, found in hashes.items():
            known = self.short.find(found.tolist())
            for begin in (at for at, number in enumerate(known) if number is not None):
                piece = form[begin : begin + length]
                owner = self._owner(piece)
                if owner is not None and (length >= INSIDE or _is_whole_word(offsets, begin, begin + length)):
                    yield begin, begin + length, owner

    def _owner(self, form: bytes) -> int | None:
        """The number of a text with this short value."""
        numbers = self.short.find_all(_key(form), _PLACES)
        return next((self.owners[number] for number in numbers if self.forms[number] == form), None)


@dataclass(frozen=True, slots=True)
class PrivateTexts:
    """Everything with readers that a conversation has seen. ``overflow``: more than is tracked."""

    pools: tuple[Pool, ...] = ()
    size: int = 0
    overflow: bool = False
    entries: tuple[tuple[Text, Groups], ...] = field(default=(), repr=False, compare=False)
    """As they came, to be kept."""

    def __bool__(self) -> bool:
        """True when anything has readers."""
        return bool(self.pools) or self.overflow

    def add(self, more: Sequence[tuple[Text, Groups]], limit: int) -> PrivateTexts:
        """The same with more texts, and what is wrapped in them, unless they are too many bytes or pieces."""
        if not more:
            return self
        size = self.size + sum(len(fold_bytes(text.body)) for text, _ in more)
        if size > limit or len(self.entries) + len(more) > ENTRIES:
            return replace(self, overflow=True)
        pools = {pool.readers: pool for pool in self.pools}
        for groups in dict.fromkeys(groups for _, groups in more):
            texts = [inner for text, mine in more if mine == groups for inner in (text, *_unwrap_text(text))]
            pools[groups] = pools.get(groups, Pool(groups)).add(texts)
        return PrivateTexts(tuple(pools.values()), size, self.overflow, (*self.entries, *more))

    def dump_since(self, before: PrivateTexts) -> list[list[Any]]:
        """The texts and their readers that came after those of an earlier value, for JSON."""
        more = self.entries[len(before.entries) :]
        return [[text.dump(), [list(group) for group in groups]] for text, groups in more]

    @classmethod
    def load(cls, entries: Iterable[Sequence[Any]], *, overflow: bool) -> PrivateTexts:
        """The texts of which ``dump_since`` gave these."""
        loaded = [(Text.load(text), tuple(map(tuple, groups))) for text, groups in entries]
        return replace(cls().add(loaded, sys.maxsize), overflow=overflow)

    def find_matches(self, pieces: Sequence[str], pools: Iterable[Pool]) -> Iterator[PrivateMatch]:
        """Everything of some pools that stands in pieces of text which are said together, one after the other."""
        asked = tuple(pools)
        if not asked:
            return
        starts = list(accumulate((len(piece) + 1 for piece in pieces), initial=0))
        for match in _match_text("\n".join(pieces), asked, ""):
            yield match._replace(piece=bisect_right(starts, match.piece) - 1)
        for number, piece in enumerate(pieces):
            for reading in (*unwrap(piece), *apply_involutions(piece)):
                for match in _match_text(reading.body, asked, reading.via):
                    yield match._replace(piece=number)


def _match_text(said: str, pools: Iterable[Pool], via: str) -> Iterator[PrivateMatch]:
    """Everything of some pools that stands in one text; ``piece`` is the place at which it begins."""
    form, offsets = fold_map(said)
    for pool in pools:
        for begin, end, number in pool.find_stretches(form, offsets):
            excerpt = said[offsets[begin] : offsets[end - 1] + 1]
            yield PrivateMatch(offsets[begin], excerpt, pool.texts[number], pool.readers, via)


def _unwrap_text(text: Text) -> Iterator[Text]:
    for decoded in unwrap(text.body):
        yield replace(text, origin=replace(text.origin, via=decoded.via), body=decoded.body)


def _find_values(body: str) -> Iterator[str]:
    """The values in a text, links without their scheme; and what codes are: words and groups with digits, but dates."""
    yield from (SCHEME.sub("", value.text) for value in scan_values(body))
    for match in _CODE.finditer(body):
        if len(fold_bytes(match.group())) >= INSIDE and not (typed_key(match.group()) or "").startswith(
            "date "
        ):
            yield match.group()


def _is_whole_word(offsets: Sequence[int], begin: int, end: int) -> bool:
    """True when a stretch is a word, or words, of its own: what is folded away stands on both sides."""
    before = begin == 0 or offsets[begin] - offsets[begin - 1] > 1
    return before and (end == len(offsets) or offsets[end] - offsets[end - 1] > 1)


def _key(form: bytes) -> int:
    return int(_hash_windows(form, frozenset({len(form)}))[len(form)][0])


def _hash_windows(form: bytes, lengths: frozenset[int]) -> dict[int, _U64]:
    """For each length a hash of each window of it."""
    base, data = np.uint64(_BASE), np.frombuffer(form, dtype=np.uint8).astype(np.uint64)
    found: dict[int, _U64] = {}
    rolled = data
    longest = min(max(lengths, default=0), len(form))
    for length in range(1, longest + 1):
        if length > 1:
            rolled = rolled[:-1] * base + data[length - 1 :]
        if length in lengths:
            mixed = (rolled ^ np.uint64(length * _LENGTH & _ALL)) * base
            found[length] = mixed ^ (mixed >> np.uint64(32))
    return found
