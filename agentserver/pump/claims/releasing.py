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

REST: Final = 20.0
"""Seconds without a step after which a conversation is given back.

With LOOK it is less than the 30 seconds after which another process may take it, of which this one would learn late.
"""

LOOK: Final = 5.0
"""Seconds between two looks for such conversations."""


class Releasing:
    """Gives back conversations in which nothing waits and no step was taken for a while.

    Args:
        copies: of the conversations at work.
        busy: those of which a step is under way.
        rest: seconds without a step.
        look: seconds between two looks.
    """

    def __init__(self, copies: Copies, busy: Container[str], rest: float = REST, look: float = LOOK) -> None:
        self._copies, self._busy = copies, busy
        self.rest, self._look = rest, look
        self._seen: dict[str, tuple[int, float]] = {}  # the version of each, and since when it was seen

    async def run(self) -> None:
        """Give back what rests, for ever."""
        while True:
            await anyio.sleep(self._look)
            await self.release()

    async def release(self) -> None:
        """Give back what has not changed since an earlier look that is long enough ago."""
        live, _, _ = self._copies.work
        engine, _ = self._copies.kept
        now, before = anyio.current_time(), self._seen
        self._seen = {}
        rested = []
        for key, one in live.items():
            version, since = before.get(key, (0, now))
            if version == one.version and now - since >= self.rest and self._rests(one):
                rested.append(key)
            else:
                self._seen[key] = one.version, since if version == one.version else now
        self._copies.drop(rested)
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
