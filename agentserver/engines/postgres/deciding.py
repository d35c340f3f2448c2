"""One decision of an operator in a database that servers share, under a lease of the command's own.

Owns the claim on the conversation. Must not decide: it is given an outcome.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from agentserver.engines.postgres.engine import PostgresEngine
from agentserver.ports import EngineError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentserver.core.guard import CoreGuard
    from agentserver.core.records.outcome import Outcome
    from agentserver.engines.postgres.options import PostgresOptions


def commit(options: PostgresOptions, guards: Sequence[CoreGuard], outcome: Outcome) -> EngineError | None:
    """Claim the conversation of an outcome and keep the outcome; its servers take up what is queued by it.

    Returns the reason where it cannot be kept: a server that works on the conversation is one.
    """
    try:
        asyncio.run(_commit(options, guards, outcome))
    except EngineError as error:
        return error
    return None


async def _commit(options: PostgresOptions, guards: Sequence[CoreGuard], outcome: Outcome) -> None:
    conversation = outcome.conversation.id
    async with PostgresEngine(options, guards) as engine:
        claim = await engine.claim(conversation) if outcome.before else engine.begin_claim(conversation)
        if claim is None:
            raise EngineError(
                f"a server has conversation {conversation}: decide in its live view, or when the conversation has"
                " rested for half a minute"
            )
        await engine.commit(claim, outcome)
        engine.marks.end()
