"""Generators for long work, which yield so that the event loop can run other tasks."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Work: TypeAlias = Callable[[], None]
"""Work that any thread may do early, such as filling a cache. It changes no result."""

Pieces: TypeAlias = Generator[None, None, T]

PreparedPieces: TypeAlias = Generator[Work | None, None, T]
"""Pieces that may yield work."""


def prepend_work(work: Work | None, pieces: PreparedPieces[T]) -> PreparedPieces[T]:
    """Offer work to the driver before the first piece."""
    yield work
    return (yield from pieces)


def run_pieces(pieces: Pieces[T]) -> T:
    """Run all pieces without a pause and return the result."""
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            result: T = end.value
            return result
