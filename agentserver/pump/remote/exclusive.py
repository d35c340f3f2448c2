"""Listeners of which one invocation runs at a time in the whole organism, in all its processes together.

Owns which delivery of this process has its listener's token. Refuses to know how processes agree on one.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from agentserver.ports import EngineError
from agentserver.pump.schedule import Ticket, backoff

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, MutableMapping
    from typing import Any

    from agentserver.core.messages import Delivery
    from agentserver.ports import Engine

logger = logging.getLogger("agentserver.pump")


class TokenHolder:
    """The tokens of this process. Its listeners have room for one invocation, so one delivery waits for each.

    Args:
        engine: lets one process at a time have a token.
        held: those that are here, by listener, until what is set says that an invocation is done.
        spawn: starts a task of the pump's.
        hand_on: takes what has its token.
    """

    def __init__(
        self,
        engine: Engine,
        held: MutableMapping[str, asyncio.Event],
        spawn: Callable[[Callable[[], Coroutine[Any, Any, None]]], None],
        hand_on: Callable[[Ticket], None],
    ) -> None:
        self._engine, self._held = engine, held
        self._spawn, self._hand_on = spawn, hand_on

    def ask(self, delivery: Delivery) -> None:
        """Hand a delivery on once its listener's token is here. It has waited for its principal's turn before."""
        self._spawn(partial(self._have, Ticket("", delivery)))

    async def _have(self, ticket: Ticket) -> None:
        listener, done, failures = ticket.delivery.to, asyncio.Event(), 0
        while not done.is_set():
            try:
                async with self._engine.exclusive(listener):
                    self._held[listener] = done
                    self._hand_on(ticket)
                    await done.wait()
            except EngineError as error:
                logger.error("the token of %s cannot be had, or given back: %s", listener, error)  # noqa: TRY400 - the text says it all
                failures += 1
                await asyncio.sleep(backoff(failures))
