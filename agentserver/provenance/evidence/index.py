"""Exact index of folded texts that finds the spans of an argument and their places.

It stores sorted hashes of every window of ``SPAN`` bytes in immutable segments, which merge geometrically up to
``SEGMENT`` bytes, so that the cost of adding follows the new text. Repetitive text is as cheap as any other: if
too many candidates share a hash the answer is yes. Answers do not depend on how the texts were merged.

The table of values takes twelve bytes per value and grows by geometric merges, as the span index does.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

from agentserver.provenance.arrays import np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt


SPAN: Final = 24
"""Shortest span that counts as evidence, in bytes of the evidence form, which has no spaces."""

SEGMENT: Final = 1 << 18
"""Bytes of a segment that is not merged further; a merge of that size takes two to four milliseconds."""

_CANDIDATES: Final = 64
"""Places with one hash that are compared before the answer is yes."""

_MULTIPLIERS: Final = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)

_U64: TypeAlias = "npt.NDArray[np.uint64]"
_U32: TypeAlias = "npt.NDArray[np.uint32]"


@dataclass(frozen=True, slots=True)
class Hit:
    """Span of the query from ``start`` to ``end`` that occurs at ``offset`` of text ``text``.

    Every window of ``SPAN`` bytes between ``start`` and ``end`` occurs in the index; the first ``length`` bytes occur
    in one piece at this place.
    """

    start: int
    end: int
    text: int
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Segment:
    """Joined texts with their windows sorted by hash. ``first`` is the number of the first text."""

    blob: bytes
    starts: tuple[int, ...]
    first: int
    hashes: _U64
    places: _U32

    @property
    def nbytes(self) -> int:
        """Size of the arrays and the folded text in bytes."""
        return len(self.blob) + self.hashes.nbytes + self.places.nbytes + 8 * len(self.starts)

    def find_end(self, number: int) -> int:
        """Find the end of the text with a number, counted from the first one of the segment."""
        return self.starts[number + 1] if number + 1 < len(self.starts) else len(self.blob)


@dataclass(frozen=True, slots=True)
class Index:
    """Immutable sequence of segments. ``add`` returns a new index that shares the old segments."""

    segments: tuple[Segment, ...] = ()
    texts: int = 0

    @property
    def size(self) -> int:
        """Number of folded bytes."""
        return sum(len(segment.blob) for segment in self.segments)

    @property
    def nbytes(self) -> int:
        """Resident size in bytes."""
        return sum(segment.nbytes for segment in self.segments)

    def add(self, texts: tuple[bytes, ...]) -> Index:
        """Add folded texts, numbered from ``self.texts``."""
        count = self.texts + len(texts)
        if not any(texts):
            return Index(self.segments, count)
        segments = [*self.segments, _make_segment(texts, self.texts)]
        while len(segments) > 1 and _mergeable(segments[-2], segments[-1]):
            right = segments.pop()
            segments.append(_merge(segments.pop(), right))
        return Index(tuple(segments), count)

    def find_hits(self, query: bytes) -> tuple[Hit, ...]:
        """Find every maximal stretch of a query whose windows all occur in the index, in order."""
        if len(query) < SPAN or not self.segments:
            return ()
        hashes = _hash_windows(query)
        order = hashes.argsort()
        covered = np.zeros(len(hashes) + 2, dtype=bool)  # one at each end that is not covered
        for segment in self.segments:
            covered[1:-1] |= _find_windows(segment, query, hashes, order)
        edges = (covered[1:] != covered[:-1]).nonzero()[0].tolist()
        pairs = zip(edges[::2], edges[1::2], strict=True)
        return tuple(self._find_hit(query, hashes, start, end) for start, end in pairs)

    def find_owners(self, query: bytes) -> set[int]:
        """Find texts with a window of the query: the first few of each window, by hash alone."""
        hashes = _hash_windows(query)
        order = hashes.argsort()
        found: set[int] = set()
        room = dict.fromkeys(range(len(hashes)), _CANDIDATES)
        for segment in self.segments:
            places: set[int] = set()
            for window in _find_windows(segment, query, hashes, order).nonzero()[0].tolist():
                first = _collect_places(segment, hashes[window])[: room[window]]
                room[window] -= len(first)
                places.update(first)
            found.update(segment.first + bisect_right(segment.starts, place) - 1 for place in places)
        return found

    def holds_whole(self, query: bytes) -> bool:
        """Return whether one of the texts has the query in one piece, by a search without hashes."""
        return any(_lies_in_one_text(segment, query) for segment in self.segments)

    def holds(self, query: bytes, before: int) -> bool:
        """Return whether one of the first ``before`` texts has a window of the query; too many candidates mean yes."""
        if len(query) < SPAN:
            return False
        hashes = _hash_windows(query)
        order = hashes.argsort()
        for segment in self.segments:
            if segment.first >= before:
                return False
            found = _find_windows(segment, query, hashes, order).nonzero()[0]
            if segment.first + len(segment.starts) <= before and len(found):
                return True
            end = (
                segment.starts[before - segment.first] if before - segment.first < len(segment.starts) else 0
            )
            if any(_occurs_before(segment, query, window, hashes[window], end) for window in found.tolist()):
                return True
        return False

    def _find_hit(self, query: bytes, hashes: _U64, start: int, end: int) -> Hit:
        """Find the longest match at the start of a stretch of windows."""
        best = Hit(start, end + SPAN - 1, -1, 0, 0)
        for segment, place in self._list_candidates(hashes[start]):
            number = bisect_right(segment.starts, place) - 1
            room = min(best.end - start, segment.find_end(number) - place)
            length = _count_common_length(query, start, segment.blob, place, room)
            if length >= SPAN and length > best.length:
                offset = place - segment.starts[number]
                best = Hit(start, end + SPAN - 1, segment.first + number, offset, length)
                if start + length == best.end:
                    break
        return best

    def _list_candidates(self, value: np.uint64) -> Iterator[tuple[Segment, int]]:
        """List the first few places with a hash, in the order of the texts."""
        places = ((segment, place) for segment in self.segments for place in _collect_places(segment, value))
        return islice(places, _CANDIDATES)


def _view_words(data: bytes) -> _U64:
    """View the eight-byte word at each byte, without copies."""
    count = max(0, len(data) - 7)
    return np.ndarray(shape=(count,), dtype="<u8", buffer=data, strides=(1,))


def _hash_windows(data: bytes) -> _U64:
    """Hash each window of ``SPAN`` bytes, which is three words."""
    words = _view_words(data)
    count = len(data) - SPAN + 1
    if count <= 0:
        return np.zeros(0, dtype=np.uint64)
    mixed = np.zeros(count, dtype=np.uint64)
    for number, multiplier in enumerate(_MULTIPLIERS):
        mixed ^= words[number * 8 : number * 8 + count] * np.uint64(multiplier)
        mixed ^= mixed >> np.uint64(29)
        mixed *= np.uint64(_MULTIPLIERS[0])
    return mixed ^ (mixed >> np.uint64(32))


def _make_segment(texts: tuple[bytes, ...], first: int) -> Segment:
    blob = b"".join(texts)
    lengths = np.array([len(text) for text in texts], dtype=np.int64)
    starts = np.concatenate(([0], lengths.cumsum()[:-1])) if texts else np.zeros(0, dtype=np.int64)
    hashes = _hash_windows(blob)
    owner = np.arange(len(texts)).repeat(lengths)
    inside = (owner[: len(hashes)] == owner[SPAN - 1 :][: len(hashes)]).nonzero()[0]
    order = inside[_sort_stably(hashes[inside])]
    return Segment(blob, tuple(starts.tolist()), first, hashes[order], order.astype(np.uint32))


def _sort_stably(keys: _U64) -> npt.NDArray[np.int64]:
    """Sort as a stable sort does. To sort equal keys again is several times faster than numpy's stable sort."""
    order = keys.argsort()
    ordered = keys[order]
    equal = ordered[1:] == ordered[:-1]
    if equal.any():
        again = np.flatnonzero(np.append(equal, False) | np.insert(equal, 0, False))
        order[again] = order[again][np.lexsort((order[again], ordered[again]))]
    return order


def _mergeable(left: Segment, right: Segment) -> bool:
    return len(left.blob) <= 2 * len(right.blob) and len(left.blob) + len(right.blob) <= SEGMENT


def _merge(left: Segment, right: Segment) -> Segment:
    """Merge the sorted runs of two neighbours without hashing again. Texts between them are empty."""
    shift = len(left.blob)
    between = (shift,) * (right.first - left.first - len(left.starts))
    hashes = np.concatenate((left.hashes, right.hashes))
    places = np.concatenate((left.places, right.places + np.uint32(shift)))
    order = hashes.argsort(kind="stable")
    starts = left.starts + between + tuple(start + shift for start in right.starts)
    return Segment(left.blob + right.blob, starts, left.first, hashes[order], places[order])


def _collect_places(segment: Segment, value: np.uint64) -> list[int]:
    low = int(segment.hashes.searchsorted(value, side="left"))
    high = int(segment.hashes[low : low + _CANDIDATES + 1].searchsorted(value, side="right")) + low
    return [int(place) for place in segment.places[low:high]]


def _find_windows(
    segment: Segment, query: bytes, hashes: _U64, order: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Find the windows of a query that occur in the segment, by hash and then by bytes.

    Windows are looked up in the ``order`` of their hashes, which is several times faster because they are near in
    memory.
    """
    if not segment.hashes.size:
        return np.zeros(len(hashes), dtype=np.bool_)
    at = np.empty(len(hashes), dtype=np.int64)
    at[order] = segment.hashes.searchsorted(hashes[order])
    np.minimum(at, len(segment.hashes) - 1, out=at)
    found: npt.NDArray[np.bool_] = segment.hashes[at] == hashes
    hit = found.nonzero()[0]
    if not hit.size:
        return found
    place = segment.places[at[hit]].astype(np.int64)
    query_words, segment_words = _view_words(query), _view_words(segment.blob)
    same = np.ones(len(hit), dtype=bool)
    for shift in range(0, SPAN, 8):
        same &= query_words[hit + shift] == segment_words[place + shift]
    for window in hit[~same].tolist():
        found[window] = _compare_collisions(segment, query, window, hashes[window])
    return found


def _compare_collisions(segment: Segment, query: bytes, window: int, value: np.uint64) -> bool:
    """Compare the further places with a hash after the first one differed; too many of them mean yes."""
    places = _collect_places(segment, value)
    piece = query[window : window + SPAN]
    return len(places) > _CANDIDATES or any(segment.blob[at : at + SPAN] == piece for at in places)


def _occurs_before(segment: Segment, query: bytes, window: int, value: np.uint64, end: int) -> bool:
    """Return whether a window occurs before an offset; too many candidates mean yes."""
    places = [place for place in _collect_places(segment, value) if place < end]
    piece = query[window : window + SPAN]
    return len(places) > _CANDIDATES or any(segment.blob[at : at + SPAN] == piece for at in places)


def _lies_in_one_text(segment: Segment, query: bytes) -> bool:
    """Return whether a text of a segment has the query; two neighbours that have it together do not."""
    place = segment.blob.find(query)
    while place >= 0:
        end = segment.find_end(bisect_right(segment.starts, place) - 1)
        if place + len(query) <= end:
            return True
        place = segment.blob.find(query, end)
    return False


def _count_common_length(query: bytes, start: int, blob: bytes, place: int, limit: int) -> int:
    """Count the bytes that agree from two offsets on, up to ``limit``."""
    length, step = 0, 64
    while step:
        take = min(step, limit - length)
        piece = query[start + length : start + length + take]
        if take and piece == blob[place + length : place + length + take]:
            length += take
            step *= 2
        else:
            step //= 2
    return length


_Run: TypeAlias = "tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]"


@dataclass(frozen=True, slots=True)
class Table:
    """Sorted runs of pairs of a hash and a text number."""

    runs: tuple[_Run, ...] = ()

    @property
    def nbytes(self) -> int:
        """Resident size in bytes."""
        return sum(keys.nbytes + texts.nbytes for keys, texts in self.runs)

    def add(self, entries: Iterable[tuple[int, int]]) -> Table:
        """Add pairs of a hash and a text number, without duplicates."""
        pairs = sorted(set(entries))
        if not pairs:
            return self
        keys = np.array([key for key, _ in pairs], dtype=np.uint64)
        runs = [*self.runs, (keys, np.array([text for _, text in pairs], dtype=np.uint32))]
        while len(runs) > 1 and len(runs[-2][0]) <= 2 * len(runs[-1][0]):
            right = runs.pop()
            runs.append(_merge_values(runs.pop(), right))
        return Table(tuple(runs))

    def find(self, keys: Sequence[int]) -> list[int | None]:
        """Find one text for each hash, or ``None``."""
        searched = np.array(keys, dtype=np.uint64)
        found = np.full(len(keys), -1, dtype=np.int64)
        for hashes, texts in self.runs:
            at = np.minimum(hashes.searchsorted(searched), len(hashes) - 1)
            matched = (hashes[at] == searched) & (found < 0)
            found[matched] = texts[at[matched]]
        return [None if number < 0 else number for number in found.tolist()]

    def find_all(self, key: int, limit: int) -> list[int]:
        """Find the texts with a value by its hash, up to a number, in order."""
        found: list[int] = []
        for hashes, texts in self.runs:  # a run keeps the texts of one hash in order
            at = int(hashes.searchsorted(np.uint64(key)))
            end = int(hashes[at : at + limit].searchsorted(np.uint64(key), side="right")) + at
            found += texts[at:end].tolist()
        return sorted(found)[:limit]

    def holds(self, keys: Sequence[int], before: int) -> bool:
        """Return whether one of the first ``before`` texts has a value with one of these hashes."""
        return any(number < before for key in keys for number in self.find_all(key, 1))

    def find_first(self, key: int) -> int | None:
        """Find one text with a value by its hash."""
        return self.find((key,))[0]


def _merge_values(left: _Run, right: _Run) -> _Run:
    keys = np.concatenate((left[0], right[0]))
    order = keys.argsort(kind="stable")
    return keys[order], np.concatenate((left[1], right[1]))[order]
