"""Sets of characters as ranges of code points.

Owns their algebra. Refuses to know expressions.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

Spans: TypeAlias = "tuple[tuple[int, int], ...]"
"""A set of characters: disjoint ranges of code points in order, both ends included."""

LAST: Final = 0x10FFFF
ALL: Final[Spans] = ((0, LAST),)


def spans(characters: Iterable[str]) -> Spans:
    """The set of these characters."""
    return union((ord(char), ord(char)) for char in characters)


def union(ranges: Iterable[tuple[int, int]]) -> Spans:
    """The characters of all the ranges."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


def complement(of: Spans) -> Spans:
    """Every character that is not in the set."""
    gaps, start = [], 0
    for low, high in of:
        if start < low:
            gaps.append((start, low - 1))
        start = high + 1
    if start <= LAST:
        gaps.append((start, LAST))
    return tuple(gaps)


def meet(left: Spans, right: Spans) -> Spans:
    """The characters in both sets."""
    both: list[tuple[int, int]] = []
    one = other = 0
    while one < len(left) and other < len(right):
        low, high = max(left[one][0], right[other][0]), min(left[one][1], right[other][1])
        if low <= high:
            both.append((low, high))
        if left[one][1] < right[other][1]:
            one += 1
        else:
            other += 1
    return tuple(both)


def overlap(left: Spans, right: Spans) -> bool:
    """True when a character is in both sets; quick for a small one."""
    few, many = sorted((left, right), key=len)
    for low, high in few:
        at = bisect_right(many, (high, LAST))
        if at and many[at - 1][1] >= low:
            return True
    return False


def holds(of: Spans, code: int) -> bool:
    """True when the set has the character of this code point."""
    return any(low <= code <= high for low, high in of)
