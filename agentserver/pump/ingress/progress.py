"""Progress on its way to the gateways that show it.

Owns how much of it waits: the latest words, in order. Refuses to keep anything, and to know who may tell.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from agentserver.core.messages import Progress

WAITING: Final = 64
"""Words that wait for one gateway; of more the oldest are dropped."""


class ProgressQueue:
    """Progress of one conversation, kept only once it has been asked for."""

    __slots__ = ("_ended", "_heard", "_stirred", "_words")

    def __init__(self) -> None:
        self._words: deque[Progress] = deque(maxlen=WAITING)
        self._stirred = asyncio.Event()
        self._ended = self._heard = False

    def put(self, progress: Progress) -> None:
        """Add a word. Neither waits nor raises."""
        if self._heard:
            self._words.append(progress)
            self._stirred.set()

    def end(self) -> None:
        """Nothing more comes."""
        self._ended = True
        self._stirred.set()

    def words(self) -> AsyncIterator[Progress]:
        """The words from now on as they come, until nothing more does. Several may take: each word goes to one."""
        self._heard = True
        return self._take()

    async def _take(self) -> AsyncIterator[Progress]:
        while self._words or not self._ended:
            if self._words:
                yield self._words.popleft()
            else:
                self._stirred.clear()
                await self._stirred.wait()
