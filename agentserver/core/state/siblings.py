"""The children of a thread, in the order of their opening.

Owns a sequence that is never changed and yet can be made longer by one without copying what is in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import overload


class Siblings(Sequence[str]):
    """Ids of threads. Longer ones share their storage with the shorter ones that they were made from.

    ``ids`` begins with these, and ``size`` says how many they are: for those who look at very many.

    Args:
        ids: in order.
    """

    __slots__ = ("ids", "size")

    def __init__(self, ids: Iterable[str] = ()) -> None:
        self.ids = list(ids)
        self.size = len(self.ids)

    def followed_by(self, thread: str) -> Siblings:
        """These and one more. Copies only when another was made from the same ones before."""
        ids = self.ids
        if len(ids) != self.size or not ids:
            ids = ids[: self.size]
        ids.append(thread)
        longer = Siblings()
        longer.ids, longer.size = ids, self.size + 1
        return longer

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[str]:
        return islice(self.ids, self.size)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...

    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        return self.ids[: self.size][index]

    def __reversed__(self) -> Iterator[str]:
        return reversed(self.ids[: self.size])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Siblings | tuple):
            return NotImplemented
        return tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Siblings({list(self)})"


NO_SIBLINGS = Siblings()
