"""Immutable sequence that grows without a copy of the whole, for the texts and records of a conversation."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, takewhile
from typing import TYPE_CHECKING, Any, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AppendOnlyList(Sequence[T]):
    """Immutable sequence that shares its chunks with shorter versions.

    Each chunk has more than twice the length of the next. Equal to every other one with equal items.
    """

    chunks: tuple[tuple[T, ...], ...] = ()
    length: int = 0

    def add(self, items: Sequence[T]) -> AppendOnlyList[T]:
        """Append items by geometric merges, without a copy of the whole."""
        if not items:
            return self
        chunks = [*self.chunks, tuple(items)]
        while len(chunks) > 1 and len(chunks[-2]) <= 2 * len(chunks[-1]):
            newer = chunks.pop()
            chunks.append((*chunks.pop(), *newer))
        return AppendOnlyList(tuple(chunks), self.length + len(items))

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(self.chunks)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AppendOnlyList):
            return NotImplemented
        return self.length == other.length and all(map(_are_equal, self, other))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr([*self])

    @overload
    def __getitem__(self, number: int) -> T: ...

    @overload
    def __getitem__(self, number: slice) -> Sequence[T]: ...

    def __getitem__(self, number: int | slice) -> T | Sequence[T]:
        """Return an item or a slice, at the cost of the slice alone."""
        if isinstance(number, slice):
            start, stop, step = number.indices(self.length)
            return self._collect_slice(start, stop) if step == 1 else tuple(self)[number]
        offset = number if number >= 0 else number + self.length
        if offset >= 0:
            for chunk in self.chunks:
                if offset < len(chunk):
                    return chunk[offset]
                offset -= len(chunk)
        raise IndexError(number)

    def _collect_slice(self, start: int, stop: int) -> tuple[T, ...]:
        found: list[tuple[T, ...]] = []
        begin = self.length
        for chunk in reversed(self.chunks):
            begin -= len(chunk)
            if begin < stop:
                found.append(chunk[max(0, start - begin) : stop - begin])
            if begin <= start:
                break
        return found[0] if len(found) == 1 else tuple(chain.from_iterable(reversed(found)))

    def list_latest(self, count: int) -> tuple[T, ...]:
        """Return the last items, up to a number."""
        found: tuple[T, ...] = ()
        for chunk in reversed(self.chunks):
            found = chunk[len(found) - count :] + found
            if len(found) >= count:
                break
        return found

    def pick(self, numbers: Sequence[int]) -> list[T]:
        """Return the items at several indexes."""
        found: list[T] = []
        for number in numbers:
            offset = number
            for chunk in self.chunks:
                if offset < len(chunk):
                    found.append(chunk[offset])
                    break
                offset -= len(chunk)
        return found

    def list_added_to(self, before: AppendOnlyList[T]) -> tuple[T, ...]:
        """Return the items that were added to a shorter version."""
        return self._collect_slice(before.length, self.length) if self.length > before.length else ()

    def items_from(self, number: int) -> Iterator[T]:
        """Iterate from an index to the end, without a step for the entries before it."""
        for chunk in self.chunks:
            if number < len(chunk):
                yield from map(chunk.__getitem__, range(number, len(chunk)))
                number = 0
            else:
                number -= len(chunk)

    def bisect(self, value: Any, key: Callable[[T], Any]) -> int:
        """Find the index of the first item whose key is not below a value, in a sequence that is sorted by it."""
        number = 0
        for chunk in self.chunks:
            if key(chunk[-1]) >= value:
                return number + bisect_left(chunk, value, key=key)
            number += len(chunk)
        return number

    def items_with(self, value: Any, key: Callable[[T], Any]) -> Iterator[T]:
        """Iterate over the items whose key is a value, in a sequence that is sorted by it."""
        return takewhile(lambda item: key(item) == value, self.items_from(self.bisect(value, key)))


def _are_equal(one: object, other: object) -> bool:
    return one is other or one == other
