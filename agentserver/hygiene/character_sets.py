"""Sets of characters as ranges of code points."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

Spans: TypeAlias = "tuple[tuple[int, int], ...]"
"""A set of characters: sorted disjoint ranges of code points, inclusive."""

LAST: Final = 0x10FFFF
DIGITS: Final[Spans] = ((0x30, 0x39), (0x660, 0x2FFF), (0x3001, LAST))
"""Every decimal digit of any script (``\\d``), and no white space that a sample would show."""
_LATIN: Final = 0x100
_DISPUTED: Final = frozenset((0xAA, 0xBA))
"""Ordinal indicators, which changed their category between versions of Unicode."""


def make_spans(characters: Iterable[str]) -> Spans:
    """Make the set of these characters."""
    return union((ord(char), ord(char)) for char in characters)


def union(ranges: Iterable[tuple[int, int]]) -> Spans:
    """Merge ranges into a set."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


def complement(of: Spans) -> Spans:
    """Make the set of all other characters."""
    gaps, start = [], 0
    for low, high in of:
        if start < low:
            gaps.append((start, low - 1))
        start = high + 1
    if start <= LAST:
        gaps.append((start, LAST))
    return tuple(gaps)


def complement_estimate(of: Spans) -> Spans:
    """Make the set of all other characters from an estimate: exact in Latin-1, and everything above it."""
    return union((*meet(complement(of), ((0, _LATIN - 1),)), (_LATIN, LAST)))


def meet(left: Spans, right: Spans) -> Spans:
    """Intersect two sets."""
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
    """Check whether two sets share a character; fast for a small set."""
    few, many = sorted((left, right), key=len)
    for low, high in few:
        at = bisect_right(many, (high, LAST))
        if at and many[at - 1][1] >= low:
            return True
    return False


def holds(of: Spans, code: int) -> bool:
    """Check whether the set contains a code point."""
    return any(low <= code <= high for low, high in of)


def estimate_category(name: str) -> Spans:
    """Estimate a general category, such as ``L`` or ``Lu``: exact in Latin-1, too large from its next member on.

    The whole table would take a tenth of a second, and the versions of Unicode differ in it.
    """
    latin = (
        code
        for code in range(_LATIN)
        if (name == "Ll" and code in _DISPUTED) or unicodedata.category(chr(code)).startswith(name)
    )
    beyond = (code for code in range(_LATIN, LAST + 1) if unicodedata.category(chr(code)).startswith(name))
    first = next(beyond, None)
    return union([*((code, code) for code in latin), *([] if first is None else [(first, LAST)])])
