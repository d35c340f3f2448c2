"""Turns of those who want the same thing: one at a time, in the order in which they came.

Owns the waiting. Refuses to know what is wanted.
"""

from __future__ import annotations

import asyncio
from collections import deque


class Alone:
    """Lets in one at a time by key, in the order in which they came. Of a key without any nothing is kept."""

    def __init__(self) -> None:
        self.inside: dict[str, deque[asyncio.Future[None]]] = {}

    async def enter(self, key: str) -> None:
        """Wait for a turn; ``leave`` ends it."""
        if key not in self.inside:
            self.take(key)
            return
        turn = asyncio.get_running_loop().create_future()
        self.inside[key].append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave(key)
            raise

    def take(self, key: str) -> None:
        """Go in where none is inside."""
        self.inside[key] = deque()

    def leave(self, key: str) -> None:
        """Let the next in, not counting those that have given up."""
        waiting = self.inside[key]
        while waiting:
            turn = waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        del self.inside[key]
