"""Conversations in which nothing happens any more.

Owns what idle means. Refuses to decide what follows from a conversation's end.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from agentserver.ports import EngineError
from agentserver.pump.turns.schedule import turn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentserver.core.state.conversation import Conversation
    from agentserver.ports import Engine
    from agentserver.pump.boundary import Boundary
    from agentserver.pump.timekeeper import Timekeeper

AT_ONCE = 500
"""Conversations that are looked at before the event loop gets a turn."""

logger = logging.getLogger("agentserver.pump")


async def tidy(
    live: Mapping[str, Conversation], engine: Engine, boundary: Boundary, time: Timekeeper, limit: float
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
            await boundary.close(conversation.id, "idle", idle)
    try:
        left: list[str] = []
        async for key in engine.idle(before):
            left.append(key)
            if not len(left) % AT_ONCE:
                await turn()
        for key in left:
            if key not in live:
                await boundary.close(key, "idle", idle, patient=False)
        await time.expire()
    except EngineError as error:
        logger.error("the journal could not be tidied: %s", error)  # noqa: TRY400 - the text says it all
