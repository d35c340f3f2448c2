"""The children of a thread: a tuple, or of many a persistent sequence with an index of the idle ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, TypeAlias, final, overload

from agentserver.core.state.overlay import copy_changeable

FEW: Final = 32
"""Children that are a tuple: it takes a third of the memory, and to look at each of them is quicker than an index."""

Kind = tuple[str, frozenset[str] | None]
"""Owner of a child and the peers in force there: the key for finding an idle one."""


@final
class Siblings(Sequence[str]):
    """Ids of many threads, a persistent sequence that shares storage with its shorter versions.

    They are the first ``size`` of ``ids``. Equality ignores the index, which follows from the threads. Callers compare
    types, because ``isinstance`` with a subclass of ``Sequence`` is a call of Python.

    Args:
        ids: in order.
    """

    __slots__ = ("ids", "places", "resting", "size")

    def __init__(self, ids: Iterable[str] = ()) -> None:
        self.ids = list(ids)
        self.size = len(self.ids)
        self.places: dict[str, int] | None = None
        """The place of each id in ``ids``, shared like them; None without an index."""
        self.resting: Mapping[Kind, int] | None = None
        """The places of idle children by kind, as the bits of a number; None without an index."""

    def followed_by(self, thread: str) -> Siblings:
        """Add one more. Copies only when another was made from the same ones before."""
        ids, places = self.ids, self.places
        if len(ids) != self.size or not ids:
            ids = ids[: self.size] + [thread]  # noqa: RUF005 - without room for more, unlike one that grows
            places = None if places is None else {child: place for place, child in enumerate(ids)}
        else:
            ids.append(thread)
            if places is not None:
                places[thread] = self.size
        longer = Siblings.__new__(Siblings)
        longer.ids, longer.size, longer.places, longer.resting = ids, self.size + 1, places, self.resting
        return longer

    def with_index(self, kinds: Iterable[Kind | None]) -> Siblings:
        """Add an index if there are many. ``kinds`` has the kind of each in order; None for a busy one."""
        if self.size <= FEW:
            return self
        indexed = Siblings.__new__(Siblings)
        indexed.ids, indexed.size = self.ids, self.size
        indexed.places = {child: place for place, child in enumerate(self)}
        resting: dict[Kind, int] = {}
        for place, kind in enumerate(kinds):
            if kind is not None:
                resting[kind] = resting.get(kind, 0) | 1 << place
        indexed.resting = resting
        return indexed

    def move(self, thread: str, before: Kind | None, after: Kind | None) -> Siblings:
        """Move one child to another kind; None means busy."""
        if self.resting is None or self.places is None:
            return self
        resting, bit = copy_changeable(self.resting), 1 << self.places[thread]
        if before is not None:
            resting[before] = resting.get(before, 0) & ~bit
        if after is not None:
            resting[after] = resting.get(after, 0) | bit
        moved = Siblings.__new__(Siblings)
        moved.ids, moved.size, moved.places, moved.resting = self.ids, self.size, self.places, resting
        return moved

    def find_first(self, kind: Kind, start: int = 0) -> int | None:
        """Return the place of the first idle child of a kind from ``start`` on. Needs the index."""
        found = (self.resting or {}).get(kind, 0) >> start
        return start + (found & -found).bit_length() - 1 if found else None

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


Children: TypeAlias = tuple[str, ...] | Siblings


def list_children(ids: Iterable[str]) -> Children:
    """Make the children of a thread, without an index."""
    few = tuple(ids)
    return few if len(few) <= FEW else Siblings(few)
