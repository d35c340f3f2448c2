"""Ends a conversation of one request once that is done."""

from __future__ import annotations

from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

from agentserver.core.messages import Done
from agentserver.ports import EngineError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from agentserver.ports import Ingress


async def end_when_done(server: Ingress, principal: str, conversation: str) -> None:
    """Wait for the end of the only request of a conversation, and end that. Idle conversations end anyway."""
    with suppress(LookupError, EngineError):
        async with aclosing(server.watch(principal, conversation)) as events:  # type: ignore[type-var]
            over = await _wait_for_done(events)
        if over:
            await server.end(principal, conversation, by=principal)


async def _wait_for_done(events: AsyncIterator[object]) -> bool:
    """Wait for the end of a request. Returns False if the server stops before."""
    async for event in events:
        if isinstance(event, Done):
            return True
    return False
