"""Conversations that an earlier server left, and those in which nothing happens any more.

Owns what is in hand again at a start, and what idle means. Refuses to decide what follows from a conversation's end.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio

from agentserver.ports import EngineError, FencedError
from agentserver.pump.turns.schedule import turn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agentserver.core.state.conversation import Conversation
    from agentserver.ports import Engine
    from agentserver.pump.boundary import Boundary
    from agentserver.pump.timekeeper import Timekeeper

AT_ONCE = 500
"""Conversations that are looked at before the event loop gets a turn."""

logger = logging.getLogger("agentserver.pump")


LOOK = 3600.0
"""Seconds after which the clock is looked at again."""


async def sweep(
    live: Mapping[str, Conversation],
    engine: Engine,
    boundary: Boundary,
    time: Timekeeper,
    limit: Callable[[], float],
) -> None:
    """Close conversations in which nothing has happened for ``limit()`` seconds, for ever."""
    while True:
        await anyio.sleep(min(limit() / 4, LOOK))
        await tidy(live, engine, boundary, time, limit())


async def tidy(
    live: Mapping[str, Conversation],
    engine: Engine,
    boundary: Boundary,
    time: Timekeeper,
    limit: float,
) -> None:
    """Close conversations in which nothing has happened for ``limit`` seconds, also those that an earlier server left.

    Those that were kept long enough are let go.
    """
    before = await time.before(limit)

    def idle(conversation: Conversation) -> bool:
        return conversation.touched < before and not conversation.requests

    for number, conversation in enumerate(list(live.values())):
        if not number % AT_ONCE:
            await turn()
        if idle(conversation):
            await _close(boundary, conversation.id, idle)
    try:
        for key in await _idle(engine, before):
            if key not in live:
                await _close(boundary, key, idle, patient=False)
        await time.expire()
    except EngineError as error:
        logger.error("the journal could not be tidied: %s", error)  # noqa: TRY400 - the text says it all


async def _close(
    boundary: Boundary, conversation: str, idle: Callable[[Conversation], bool], *, patient: bool = True
) -> None:
    """Close a conversation that is idle still, and still this process's."""
    with suppress(FencedError):
        await boundary.close(conversation, "idle", idle, patient=patient)


async def _idle(engine: Engine, before: float) -> list[str]:
    found: list[str] = []
    async for key in engine.idle(before):
        found.append(key)
        if not len(found) % AT_ONCE:
            await turn()
    return found
