"""Base of engines with one process, which owns every conversation."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from agentserver.ports import Claim, EngineError, FencedError, GainedClaims

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Callable, Collection

    from agentserver.ports import Arrival, ArrivalOutcome, LostClaims, RemoteStep

LEASE = 1
"""Number of the only lease."""


class SinglePartition:
    """Base of an engine that has one claim on all conversations.

    Engines call ``own`` when they open, and ``check_claim`` before they store an outcome.
    """

    shared = False
    _own_claim: Claim
    _nothing: tuple[Any, ...] = ()

    def own(self, epoch: int) -> None:
        """Claim all conversations under an epoch."""
        self._own_claim = Claim(LEASE, epoch)

    def check_claim(self, claim: Claim) -> FencedError | None:
        """Return an error for a claim from another opening, or None."""
        return None if claim == self._own_claim else FencedError("another process has the conversation")

    def active(self) -> AsyncIterator[str]:
        """Iterate over open conversations with pending work; engines override it."""
        raise NotImplementedError

    def current_claim(self, conversation: str) -> Claim | None:  # noqa: ARG002 - an engine's signature
        """Return the only claim."""
        return self._own_claim

    async def claim(self, conversation: str) -> Claim | None:  # noqa: ARG002 - an engine's signature
        """Return the only claim."""
        return self._own_claim

    def begin_claim(self, conversation: str) -> Claim:  # noqa: ARG002 - an engine's signature
        """Return the only claim."""
        return self._own_claim

    async def changes(self) -> AsyncIterator[GainedClaims | LostClaims]:
        """Report active conversations as gained; nothing changes afterwards."""
        yield GainedClaims({key: self._own_claim async for key in self.active()}, LEASE)

    async def release(self, conversations: Collection[str]) -> None:
        """Do nothing: no other process could claim them."""

    async def give_up(self) -> None:
        """Do nothing: no other process could take over."""

    async def open_count(self, principal: str) -> int | None:  # noqa: ARG002 - an engine's signature
        """Return None: the pump's own count is complete."""
        return None

    async def hand_in(self, arrival: Arrival) -> asyncio.Future[ArrivalOutcome]:  # noqa: ARG002 - an engine's signature
        """Raise EngineError: there is no other process."""
        raise EngineError("no other process has conversations here")

    async def arrivals(self) -> AsyncIterator[Arrival]:
        """Report no arrivals."""
        for nothing in self._nothing:
            yield nothing

    def settle(self, arrival: Arrival, fate: ArrivalOutcome) -> None:
        """Do nothing: there are no arrivals."""

    async def news(self, list_keys: Callable[[], Collection[str]]) -> AsyncIterator[RemoteStep]:  # noqa: ARG002 - an engine's signature
        """Report no news: there is no other process."""
        for nothing in self._nothing:
            yield nothing

    @asynccontextmanager
    async def exclusive(self, name: str) -> AsyncIterator[None]:  # noqa: ARG002 - an engine's signature
        """Enter at once: there is no other process."""
        yield
