"""A sequence that only grows, so that adding to it costs geometric merges and no copy of it all.

Owns that. Refuses to know what it holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Grown(Generic[T]):
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

    def __getitem__(self, number: int) -> T:
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
