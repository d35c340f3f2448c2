"""The engine of one process, which has every conversation from its opening on.

Owns the answers to questions about claims. Refuses to know what is kept.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from agentserver.ports import Claim, EngineError, FencedError, GainedClaims

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Callable, Collection

    from agentserver.ports import Arrival, Fate, LostClaims, News

LEASE = 1
"""The number of the one lease."""


class SinglePartition:
    """The one claim of an engine, on every conversation.

    Engines call ``own`` when they open, and ``check_claim`` before they keep an outcome.
    """

    shared = False
    _mine: Claim
    _nothing: tuple[Any, ...] = ()

    def own(self, epoch: int) -> None:
        """Have all conversations from now on."""
        self._mine = Claim(LEASE, epoch)

    def check_claim(self, claim: Claim) -> FencedError | None:
        """The error for a commit under another claim than that of this opening."""
        return None if claim == self._mine else FencedError("another process has the conversation")

    def active(self) -> AsyncIterator[str]:
        """Open conversations in which something waits: an engine's own."""
        raise NotImplementedError

    def current_claim(self, conversation: str) -> Claim | None:  # noqa: ARG002 - an engine's signature
        """The one claim."""
        return self._mine

    async def claim(self, conversation: str) -> Claim | None:  # noqa: ARG002 - an engine's signature
        """The one claim."""
        return self._mine

    def begin_claim(self, conversation: str) -> Claim:  # noqa: ARG002 - an engine's signature
        """The one claim."""
        return self._mine

    async def changes(self) -> AsyncIterator[GainedClaims | LostClaims]:
        """Everything that an earlier server left; nothing changes after it."""
        yield GainedClaims({key: self._mine async for key in self.active()}, LEASE)

    async def release(self, conversations: Collection[str]) -> None:
        """No other process is there to have them."""

    async def give_up(self) -> None:
        """No other process is there to take anything."""

    async def open_count(self, principal: str) -> int | None:  # noqa: ARG002 - an engine's signature
        """The pump's count is whole."""
        return None

    async def hand_in(self, arrival: Arrival) -> asyncio.Future[Fate]:  # noqa: ARG002 - an engine's signature
        """No other process is there: raises EngineError."""
        raise EngineError("no other process has conversations here")

    async def arrivals(self) -> AsyncIterator[Arrival]:
        """Nothing is handed in."""
        for nothing in self._nothing:
            yield nothing

    def settle(self, arrival: Arrival, fate: Fate) -> None:
        """Nothing is handed in."""

    async def news(self, wanted: Callable[[], Collection[str]]) -> AsyncIterator[News]:  # noqa: ARG002 - an engine's signature
        """Nothing happens elsewhere."""
        for nothing in self._nothing:
            yield nothing

    @asynccontextmanager
    async def exclusive(self, name: str) -> AsyncIterator[None]:  # noqa: ARG002 - an engine's signature
        """No other process is there to be inside."""
        yield
