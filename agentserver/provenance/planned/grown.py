"""A sequence that only grows, so that adding to it costs geometric merges and no copy of it all.

Owns that. Refuses to know what it holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Grown(Sequence[T]):
    """Items in the order in which they were added. Each chunk is more than twice as long as the next."""

    chunks: tuple[tuple[T, ...], ...] = ()
    length: int = 0

    def add(self, items: Sequence[T]) -> Grown[T]:
        """The sequence with more items at its end."""
        if not items:
            return self
        chunks = [*self.chunks, tuple(items)]
        while len(chunks) > 1 and len(chunks[-2]) <= 2 * len(chunks[-1]):
            newer = chunks.pop()
            chunks.append((*chunks.pop(), *newer))
        return Grown(tuple(chunks), self.length + len(items))

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, number: int) -> T: ...

    @overload
    def __getitem__(self, number: slice) -> Sequence[T]: ...

    def __getitem__(self, number: int | slice) -> T | Sequence[T]:
        """An item, or those from one on up to another; the work is that of the slice."""
        if isinstance(number, slice):
            start, stop, _ = number.indices(self.length)
            return tuple(islice(self.since(start), max(0, stop - start)))
        for chunk in self.chunks:
            if number < len(chunk):
                return chunk[number]
            number -= len(chunk)
        raise IndexError(number)

    def since(self, number: int) -> Iterator[T]:
        """The items from a number on."""
        for chunk in self.chunks:
            yield from chunk[number:] if number < len(chunk) else ()
            number = max(0, number - len(chunk))
