"""A conversation that cannot go on, and the words about it for the log and for operators.

Owns what is said of it. Refuses to know what the server held of it in memory: the pump lets that go.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from agentserver.ports import DamagedError, EngineError
from agentserver.pump.calling.invoke import told

if TYPE_CHECKING:
    from agentserver.core.messages import Done, Reply
    from agentserver.ports import Engine

logger = logging.getLogger("agentserver.pump")


async def set_aside(
    engine: Engine, conversation: str, error: Exception, at: float
) -> tuple[Reply | Done, ...]:
    """Have the engine set a conversation aside; gives what is told of its requests.

    When the engine cannot keep that, nothing is told, and the next load of the conversation meets it again.
    """
    text = "a conversation is set aside: agentserver journal aside lists it"
    logger.error(text, exc_info=error, extra={"conversation": conversation})
    reason = str(error) if isinstance(error, DamagedError) else told(error)
    try:
        return await engine.set_aside(conversation, reason, at)
    except EngineError as failure:
        logger.error("that cannot be kept, so the next start meets it again: %s", failure)  # noqa: TRY400 - the text says it all
        return ()
