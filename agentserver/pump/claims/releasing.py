"""Conversations at rest, which are given back so that any process may have them.

Owns the meaning of rest. Refuses to know what becomes of a conversation afterwards.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import anyio

from agentserver.ports import EngineError
from agentserver.pump.claims.copies import at_work

if TYPE_CHECKING:
    from collections.abc import Container

    from agentserver.core.state.conversation import Conversation
    from agentserver.pump.claims.copies import Copies

logger = logging.getLogger("agentserver.pump")

REST: Final = 30.0
"""Seconds without a step after which a conversation is given back."""


class Releasing:
    """Gives back conversations in which nothing waits and no step was taken for a while.

    Args:
        copies: of the conversations at work.
        busy: those of which a step is under way.
        rest: seconds without a step.
    """

    def __init__(self, copies: Copies, busy: Container[str], rest: float = REST) -> None:
        self._copies, self._busy, self.rest = copies, busy, rest
        self._seen: dict[str, int] = {}

    async def run(self) -> None:
        """Give back what rests, for ever."""
        while True:
            await anyio.sleep(self.rest)
            await self.release()

    async def release(self) -> None:
        """Give back what has not changed since the last call."""
        live, _, _ = self._copies.work
        engine, _ = self._copies.kept
        rested = [key for key, one in live.items() if self._seen.get(key) == one.version and self._rests(one)]
        self._copies.drop(rested)
        self._seen = {key: one.version for key, one in live.items()}
        if rested:
            try:
                await engine.release(rested)
            except EngineError as error:
                logger.error("conversations cannot be given back at present: %s", error)  # noqa: TRY400 - the text says it all

    def _rests(self, one: Conversation) -> bool:
        _, _, editions = self._copies.work
        if one.id in self._busy or one.id in editions.earlier or not one.version:
            return False
        return not at_work(one)
