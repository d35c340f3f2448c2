"""Consequences of values that do not change, made when somebody first asks for them.

Owns when that is made, and from which part of it that was made before. Refuses to know what it is. The outcome depends
on the values alone, never on who asked when: that is its one law, and the only reason why it may be kept aside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Item = TypeVar("Item")
Made = TypeVar("Made")


class Later(Generic[Made]):
    """One value, made when it is first read. Two are equal when what they make is."""

    __slots__ = ("_made", "_make")

    def __init__(self, make: Callable[[], Made]) -> None:
        self._make: Callable[[], Made] | None = make
        self._made: tuple[Made] | None = None

    @classmethod
    def of(cls, value: Made) -> Later[Made]:
        """A value that is there already."""
        return cls(lambda: value)

    @property
    def value(self) -> Made:
        """The value. What it is made of is let go once it is there."""
        make = self._make  # read first: it is let go once the value is there
        if self._made is None:
            assert make is not None
            self._made = (make(),)
            self._make = None
        return self._made[0]

    def __eq__(self, other: object) -> bool:
        return self.value == other.value if isinstance(other, Later) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return repr(self.value)


class Derived(Generic[Item, Made]):
    """The consequences of the first ``count`` items of a sequence.

    Args:
        made: what follows from them, where that is known.
        before: what follows from fewer of them, where it is not.
        count: how many they are.
    """

    __slots__ = ("_next", "before", "count", "made")

    def __init__(self, made: Made | None, before: Derived[Item, Made] | None = None, count: int = 0) -> None:
        self.made, self.before, self.count = made, before, count
        self._next: tuple[list[object], Derived[Item, Made]] | None = None

    def extend_to(self, count: int) -> Derived[Item, Made]:
        """The consequences of so many items, of which the first are those of this one. Costs nothing yet."""
        return Derived(None, self, count)

    def of(
        self,
        items: Sequence[Item],
        extend: Callable[[Made, Sequence[Item]], Made],
        alike: Callable[[Item], object] | None = None,
    ) -> Made:
        """The consequences of ``items``, made by extending those of fewer.

        What came before is made as well, so that another sequence which grew from it need not begin again. Two threads
        that ask at once make the same twice.

        Args:
            items: the sequence; only the first ``count`` are looked at.
            extend: makes the consequences of more items.
            alike: gives all of an item on which they depend. What followed from items that were thought of and
                forgotten, as where a message is judged before it arrives, is taken again where the next are alike.
        """
        before = self.before  # read first: it is let go once the value is there
        if self.made is not None:
            return self.made
        assert before is not None
        before.reached(items, extend, alike)
        return self._extended(before, items, extend, alike)

    def reached(
        self,
        items: Sequence[Item],
        extend: Callable[[Made, Sequence[Item]], Made],
        alike: Callable[[Item], object] | None = None,
    ) -> Made:
        """The same, in one piece from the last that was made: a long way is no deep recursion."""
        last = self
        before = last.before
        while last.made is None:
            assert before is not None
            last, before = before, before.before
        return last.made if last is self else self._extended(last, items, extend, alike)

    def _extended(
        self,
        last: Derived[Item, Made],
        items: Sequence[Item],
        extend: Callable[[Made, Sequence[Item]], Made],
        alike: Callable[[Item], object] | None,
    ) -> Made:
        """Make the consequences from those of ``last``, which are known, or take those of a sequence that is alike."""
        assert last.made is not None
        more = items[last.count : self.count]
        key = None if alike is None else [*map(alike, more)]
        known = last._next
        if known is not None and known[0] == key:
            self._next, made = known[1]._next, known[1].made  # noqa: SLF001 - as above
            assert made is not None
        else:
            made = extend(last.made, more)
            if key is not None:
                last._next = key, self
        self.made = made
        self.before = None
        return made
