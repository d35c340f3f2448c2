"""Conversations in which nothing happens any more.

Owns what idle means. Refuses to decide what follows from a conversation's end.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from agentserver.ports import EngineError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentserver.core.conversation import Conversation
    from agentserver.ports import Engine
    from agentserver.pump.boundary import Boundary
    from agentserver.pump.timekeeper import Timekeeper

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

    for conversation in [each.id for each in live.values() if idle(each)]:
        await boundary.close(conversation, "idle", idle)
    try:
        left = [key async for key in engine.idle(before) if key not in live]
        for conversation in left:
            await boundary.close(conversation, "idle", idle, patient=False)
        await time.expire()
    except EngineError as error:
        logger.error("the journal could not be tidied: %s", error)  # noqa: TRY400 - the text says it all
