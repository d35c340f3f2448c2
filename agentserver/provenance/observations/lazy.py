"""Values that are computed on first use, from scratch or from an earlier version.

The result depends on the inputs alone and never on who asks when, which is why it may be cached.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Item = TypeVar("Item")
Made = TypeVar("Made")


class Lazy(Generic[Made]):
    """Value that is computed on first access. Lazies are equal if their values are."""

    __slots__ = ("_make", "_result")

    def __init__(self, make: Callable[[], Made]) -> None:
        self._make: Callable[[], Made] | None = make
        self._result: tuple[Made] | None = None

    @classmethod
    def ready(cls, value: Made) -> Lazy[Made]:
        """Wrap a value that is already known."""
        return cls(lambda: value)

    @property
    def value(self) -> Made:
        """Value, computed once; its function is then released."""
        make = self._make  # read first: another thread may clear it
        if self._result is None:
            assert make is not None
            self._result = (make(),)
            self._make = None
        return self._result[0]

    def __eq__(self, other: object) -> bool:
        return self.value == other.value if isinstance(other, Lazy) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return repr(self.value)


class Incremental(Generic[Item, Made]):
    """Result over the first ``count`` items of a sequence, computed from the result of a shorter one.

    Args:
        value: the result, if it is known.
        before: the shorter version to compute it from, if it is not.
        count: number of items.
    """

    __slots__ = ("_next", "before", "count", "made")

    def __init__(
        self, value: Made | None, before: Incremental[Item, Made] | None = None, count: int = 0
    ) -> None:
        self.made, self.before, self.count = value, before, count
        self._next: tuple[Sequence[Item], Incremental[Item, Made]] | None = None

    def extend_to(self, count: int) -> Incremental[Item, Made]:
        """Return a version for more items of the same sequence. It computes nothing yet."""
        return Incremental(None, self, count)

    def skip_to(self, count: int) -> Incremental[Item, Made]:
        """Return a version for more items, without keeping this one if nobody has asked for its result."""
        before = self.before  # read first: another thread may clear it
        return Incremental(None, self if before is None else before, count)

    def drop_pending(self) -> None:
        """Drop the versions since the last known one, from which no other sequence will grow."""
        before = self.before  # read first: another thread may clear it
        while before is not None and before.made is None:
            before = before.before
        if before is not None:
            self.before = before

    def compute(
        self,
        items: Sequence[Item],
        extend: Callable[[Made, Sequence[Item]], Made],
        alike: Callable[[Item], object] | None = None,
    ) -> Made:
        """Compute the result by extending the result of fewer items.

        The preceding version is computed as well, so that another sequence that grew from it can start there. Two
        threads that call this at the same time compute the same result twice.

        Args:
            items: the sequence; only the first ``count`` items are used.
            extend: computes the result of a longer sequence from a shorter one's result and the added items.
            alike: returns the parts of an item that the result depends on. A speculative version, such as one for a
                message that is judged before it arrives, lends its result to a version with equal parts.
        """
        before = self.before  # read first: another thread may clear it
        if self.made is not None:
            return self.made
        assert before is not None
        before.compute_iteratively(items, extend, alike)
        return self._extend_from(before, items, extend, alike)

    def compute_iteratively(
        self,
        items: Sequence[Item],
        extend: Callable[[Made, Sequence[Item]], Made],
        alike: Callable[[Item], object] | None = None,
    ) -> Made:
        """Compute the result in one step from the last known version, without deep recursion."""
        last = self
        before = last.before
        while last.made is None:
            assert before is not None
            last, before = before, before.before
        return last.made if last is self else self._extend_from(last, items, extend, alike)

    def _extend_from(
        self,
        last: Incremental[Item, Made],
        items: Sequence[Item],
        extend: Callable[[Made, Sequence[Item]], Made],
        alike: Callable[[Item], object] | None,
    ) -> Made:
        """Extend the result of ``last``, which is known, or reuse the result of an equal sequence."""
        assert last.made is not None
        added = items[last.count : self.count]
        known = last._next
        if known is not None and alike is not None and _are_alike(known[0], added, alike):
            self._next, value = known[1]._next, known[1].made  # noqa: SLF001 - as above
            assert value is not None
        else:
            value = extend(last.made, added)
            if alike is not None:
                last._next = added, self
        self.made = value
        self.before = None
        return value


def _are_alike(one: Sequence[Item], other: Sequence[Item], alike: Callable[[Item], object]) -> bool:
    """Check whether two sequences have items with equal parts."""
    return len(one) == len(other) and all(
        left is right or alike(left) == alike(right) for left, right in zip(one, other, strict=True)
    )
