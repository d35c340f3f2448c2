"""The engine of one process: all conversations are one share, held by the engine that opened the storage last.

Owns the answers to what an engine is asked about shares. Refuses to know what is kept.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from agentserver.ports import EngineError, FencedError, Share

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from agentserver.ports import Arrival, Fate, Heard

WHOLE = 0
"""The one partition."""


class Undivided:
    """The one share of an engine, from its opening on.

    Engines call ``own`` when they open, and ``fenced`` before they keep an outcome.
    """

    _mine: Share | None = None
    _nothing: tuple[Any, ...] = ()

    def own(self, epoch: int) -> None:
        """Have all conversations from now on."""
        self._mine = Share(WHOLE, epoch)
        self._changed = asyncio.Event()

    def take_from(self, other: Undivided) -> None:
        """Have what another engine of the same storage had until now. Raises LookupError when that has nothing."""
        if other._mine is None:
            raise LookupError("a third engine has it")
        self.own(other._mine.epoch + 1)
        other._mine = None
        other._changed.set()

    def fenced(self, share: Share) -> FencedError | None:
        """The error for a commit under a share that is no more this engine's."""
        if share == self._mine:
            return None
        return FencedError("another process has the conversation")

    async def shares(self) -> AsyncIterator[frozenset[Share]]:
        """The one share, and none once it is lost."""
        while True:
            self._changed.clear()
            yield frozenset() if self._mine is None else frozenset({self._mine})
            await self._changed.wait()

    def share_of(self, conversation: str) -> Share | None:  # noqa: ARG002 - an engine's signature
        """The one share."""
        return self._mine

    def homely(self, conversation: str) -> bool:  # noqa: ARG002 - an engine's signature
        """Every id is."""
        return True

    def minted(self, conversation: str) -> str:
        """The id as it is: who has every conversation knows those that there are."""
        return conversation

    async def give_up(self) -> None:
        """No other process is there to take it."""

    async def hand_in(self, arrival: Arrival) -> asyncio.Future[Fate]:  # noqa: ARG002 - an engine's signature
        """No other process is there: raises EngineError."""
        raise EngineError("no other process has conversations here")

    async def arrivals(self, share: Share) -> AsyncIterator[Arrival]:  # noqa: ARG002 - an engine's signature
        """Nothing is handed in."""
        for nothing in self._nothing:
            yield nothing

    def arrived(self, share: Share, arrival: Arrival, fate: Fate) -> None:
        """Nothing is handed in."""

    @asynccontextmanager
    async def alone(self, name: str) -> AsyncIterator[None]:  # noqa: ARG002 - an engine's signature
        """No other process is there to be inside."""
        yield

    async def heard(self) -> AsyncIterator[Heard]:
        """Nothing leaves elsewhere."""
        for nothing in self._nothing:
            yield nothing
