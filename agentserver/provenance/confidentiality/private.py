"""Private texts of one conversation, and the search for parts of them in outgoing text.

The index is separate from that of untrusted texts, with the same folding and span. Texts with equal readers share a
pool, so that each pool is searched or skipped as a whole. A private value shorter than a span counts as a whole.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from agentserver.provenance.append_only import AppendOnlyList
from agentserver.provenance.arrays import np
from agentserver.provenance.evidence.encodings import apply_involutions, unwrap
from agentserver.provenance.evidence.folding import fold_bytes, fold_map
from agentserver.provenance.evidence.index import SPAN, Index, Table
from agentserver.provenance.evidence.inventory import SCHEME, scan_values
from agentserver.provenance.evidence.labels import Text
from agentserver.provenance.evidence.leaves import build_typed_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

    from agentserver.provenance.confidentiality.readers import Groups

SHORTEST: Final = 4
"""Bytes of evidence form from which a private value is searched for; shorter ones occur in every text."""

INSIDE: Final = 6
"""Bytes of evidence form from which a private value counts inside a word; shorter ones must be whole words."""

ENTRIES: Final = 200_000
"""Private texts that one conversation tracks."""

_CODE: Final = re.compile(r"\d[\d ./()-]{3,40}\d|[^\s\d]{0,64}\d[^\s,;]{0,64}")
"""Group of digits, or word with a digit."""

_PLACES: Final = 64
"""Private values with one hash that are compared."""

_BASE: Final = 0x9E3779B97F4A7C15
_LENGTH: Final = 0xC2B2AE3D27D4EB4F
_ALL: Final = 0xFFFFFFFFFFFFFFFF

_U64: TypeAlias = "npt.NDArray[np.uint64]"


class PrivateMatch(NamedTuple):
    """Part of outgoing text that occurs in a private text.

    Args:
        piece: number of the piece in which it begins.
        excerpt: the outgoing part.
        text: the private text.
        readers: readers of the text.
        via: the encoding that was undone.
    """

    piece: int
    excerpt: str
    text: Text
    readers: Groups
    via: str


@dataclass(frozen=True, slots=True)
class Pool:
    """Private texts with one set of readers. Text ``n`` of the index is ``texts[n]``."""

    readers: Groups
    texts: AppendOnlyList[Text] = field(default=AppendOnlyList())
    index: Index = field(default=Index(), repr=False, compare=False)
    short: Table = field(default=Table(), repr=False, compare=False)
    forms: AppendOnlyList[bytes] = field(default=AppendOnlyList(), repr=False, compare=False)
    owners: AppendOnlyList[int] = field(default=AppendOnlyList(), repr=False, compare=False)
    lengths: frozenset[int] = field(default=frozenset(), repr=False, compare=False)

    def add(self, texts: Sequence[Text]) -> Pool:
        """Add texts and their values."""
        folded = tuple(fold_bytes(text.body) for text in texts)
        found: dict[bytes, int] = {}
        for number, (text, form) in enumerate(zip(texts, folded, strict=True), len(self.texts)):
            for one in (form, *map(fold_bytes, _find_values(text.body))):
                if SHORTEST <= len(one) < SPAN:
                    found.setdefault(one, number)
        first = len(self.forms)
        keys = [(_compute_key(form), first + number) for number, form in enumerate(found)]
        return Pool(
            self.readers,
            self.texts.add(texts),
            self.index.add(folded),
            self.short.add(keys),
            self.forms.add([*found]),
            self.owners.add([*found.values()]),
            self.lengths.union(map(len, found)),
        )

    def find_stretches(self, form: bytes, offsets: Sequence[int]) -> Iterator[tuple[int, int, int]]:
        """Find the stretches of an evidence form that the pool contains: begin, end, and the number of a text.

        Args:
            form: evidence form of the outgoing text.
            offsets: offset of each byte's character in the outgoing text.
        """
        for hit in self.index.find_hits(form):
            yield hit.start, hit.end, max(hit.text, 0)
        hashes = _hash_windows(form, self.lengths)
        for length, found in hashes.items():
            known = self.short.find(found.tolist())
            for begin in (at for at, number in enumerate(known) if number is not None):
                piece = form[begin : begin + length]
                owner = self._find_owner(piece)
                if owner is not None and (length >= INSIDE or _is_whole_word(offsets, begin, begin + length)):
                    yield begin, begin + length, owner

    def _find_owner(self, form: bytes) -> int | None:
        """Find a text with this short value."""
        numbers = self.short.find_all(_compute_key(form), _PLACES)
        return next((self.owners[number] for number in numbers if self.forms[number] == form), None)


@dataclass(frozen=True, slots=True)
class PrivateTexts:
    """Texts with readers that a conversation has seen. ``overflow``: there were more than it tracks."""

    pools: tuple[Pool, ...] = ()
    size: int = 0
    overflow: bool = False
    entries: AppendOnlyList[tuple[Text, Groups]] = field(default=AppendOnlyList(), repr=False, compare=False)
    """Texts in order of arrival, for the journal."""

    def __bool__(self) -> bool:
        """Return whether any text has readers."""
        return bool(self.pools) or self.overflow

    def add(self, added: Sequence[tuple[Text, Groups]], limit: int) -> PrivateTexts:
        """Add texts and the texts wrapped in them, unless their bytes or number exceed the limit."""
        if not added:
            return self
        size = self.size + sum(len(fold_bytes(text.body)) for text, _ in added)
        if size > limit or len(self.entries) + len(added) > ENTRIES:
            return replace(self, overflow=True)
        pools = {pool.readers: pool for pool in self.pools}
        for groups in dict.fromkeys(groups for _, groups in added):
            texts = [
                inner for text, owners in added if owners == groups for inner in (text, *_unwrap_text(text))
            ]
            pools[groups] = pools.get(groups, Pool(groups)).add(texts)
        return PrivateTexts(tuple(pools.values()), size, self.overflow, self.entries.add(added))

    def dump_since(self, before: PrivateTexts) -> list[list[Any]]:
        """Export the texts and readers since an earlier version for JSON."""
        added = self.entries.list_added_to(before.entries)
        return [[text.dump(), [list(group) for group in groups]] for text, groups in added]

    @classmethod
    def load(cls, entries: Iterable[Sequence[Any]], *, overflow: bool) -> PrivateTexts:
        """Restore the texts from ``dump_since``."""
        loaded = [(Text.load(text), tuple(map(tuple, groups))) for text, groups in entries]
        return replace(cls().add(loaded, sys.maxsize), overflow=overflow)

    def find_matches(self, pieces: Sequence[str], pools: Iterable[Pool]) -> Iterator[PrivateMatch]:
        """Find the private parts of consecutive pieces of text, in some pools."""
        searched = tuple(pools)
        if not searched:
            return
        starts = list(accumulate((len(piece) + 1 for piece in pieces), initial=0))
        for match in _match_text("\n".join(pieces), searched, ""):
            yield match._replace(piece=bisect_right(starts, match.piece) - 1)
        for number, piece in enumerate(pieces):
            for reading in (*unwrap(piece), *apply_involutions(piece)):
                for match in _match_text(reading.body, searched, reading.via):
                    yield match._replace(piece=number)


def _match_text(text: str, pools: Iterable[Pool], via: str) -> Iterator[PrivateMatch]:
    """Find the private parts of one text; ``piece`` is the offset at which a part begins."""
    form, offsets = fold_map(text)
    for pool in pools:
        for begin, end, number in pool.find_stretches(form, offsets):
            excerpt = text[offsets[begin] : offsets[end - 1] + 1]
            yield PrivateMatch(offsets[begin], excerpt, pool.texts[number], pool.readers, via)


def _unwrap_text(text: Text) -> Iterator[Text]:
    for decoded in unwrap(text.body):
        yield text._replace(origin=text.origin._replace(via=decoded.via), body=decoded.body)


def _find_values(body: str) -> Iterator[str]:
    """Find the values in a text: links without their scheme, words and digit groups with digits, but no dates."""
    yield from (SCHEME.sub("", value.text) for value in scan_values(body))
    for match in _CODE.finditer(body):
        if len(fold_bytes(match.group())) >= INSIDE and not (build_typed_key(match.group()) or "").startswith(
            "date "
        ):
            yield match.group()


def _is_whole_word(offsets: Sequence[int], begin: int, end: int) -> bool:
    """Return whether a stretch has word boundaries on both sides."""
    before = begin == 0 or offsets[begin] - offsets[begin - 1] > 1
    return before and (end == len(offsets) or offsets[end] - offsets[end - 1] > 1)


def _compute_key(form: bytes) -> int:
    return int(_hash_windows(form, frozenset({len(form)}))[len(form)][0])


def _hash_windows(form: bytes, lengths: frozenset[int]) -> dict[int, _U64]:
    """Hash each window of each length."""
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
