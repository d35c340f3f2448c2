"""Long work in pieces, so that its driver may do something else between two of them.

Owns the form: a generator that gives nothing until its result. Refuses to know who waits, and for how long.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Pieces: TypeAlias = Generator[None, None, T]


def whole(pieces: Pieces[T]) -> T:
    """Do all of it without a pause. Raises what the work raises."""
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            result: T = end.value
            return result
