"""The numbers of rows: drawn in blocks, so that several servers number their rows without asking each time.

Owns the blocks of this process. Refuses to know what is numbered.
"""

from __future__ import annotations

import asyncio
import math
from bisect import bisect, insort
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentserver.engines.postgres.connection import Link

BLOCK = 4096
"""Numbers that are drawn at once."""

OLDEST = 600.0
"""Seconds after which the rest of a block is not used any more: the part of history that it is of may be dropped."""

MOST = 65_536
"""Blocks that are remembered: an event of an earlier one counts as told before."""

DRAW = "update @ledger set next = next + $1 returning next - $1"


class Numbers:
    """The numbers that this process has drawn.

    Args:
        link: for drawing.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._next = self._end = 0
        self._drawn = 0.0
        self._blocks: list[tuple[float, float]] = []

    async def draw(self, count: int) -> None:
        """See to it that so many can be taken. Raises EngineError, and what asyncpg raises."""
        now = asyncio.get_running_loop().time()
        if self._end - self._next < count or now - self._drawn > OLDEST:
            size = max(BLOCK, count)
            rows = await self._link.fetch(DRAW, size)
            self._next = int(rows[0][0])
            self._end, self._drawn = self._next + size, now
            self.note(self._next, size)

    def note(self, first: int, count: int) -> None:
        """Remember that so many numbers are of this process."""
        insort(self._blocks, (first, first + count))
        del self._blocks[:-MOST]

    def take(self, count: int) -> int:
        """Take numbers that follow each other, of those that were drawn; gives the first."""
        first, self._next = self._next, self._next + count
        assert self._next <= self._end
        return first

    def drop(self) -> None:
        """Use no more of what was drawn: a database that lost commits may have given it to another server."""
        self._next = self._end = 0

    def __contains__(self, number: int) -> bool:
        """True for a number that this process has drawn."""
        place = bisect(self._blocks, (number, math.inf))
        return place > 0 and number < self._blocks[place - 1][1]
