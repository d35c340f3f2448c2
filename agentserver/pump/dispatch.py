"""Dispatch of deliveries to the queues of listeners, with retry delays and the tokens of exclusive listeners."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import anyio

from agentserver.contract import Code
from agentserver.core.messages import FinishedInvocation, HandlerFailure
from agentserver.core.records.details import Ground
from agentserver.ports import EngineError
from agentserver.pump.schedule import Ticket, backoff

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, MutableMapping
    from typing import Any

    from agentserver.core.messages import Delivery
    from agentserver.ports import Engine
    from agentserver.pump.editions import Editions
    from agentserver.pump.poison_search import Probation
    from agentserver.pump.schedule import Schedule
    from agentserver.pump.steps import ClaimTable


@dataclass(slots=True)
class Dispatcher:
    """Dispatches deliveries to their listener's queue.

    Args:
        editions: have the listeners.
        schedule: queues deliveries by listener.
        probation: runs suspects before everything else; None if the engine has no marks of an earlier server.
        conclude: commits what follows from a failed delivery.
        spawn: starts a task of the pump.
        claims: of conversations at work; a retry that comes due after its claim was lost is dropped.
    """

    editions: Editions
    schedule: Schedule
    probation: Probation | None
    conclude: Callable[[FinishedInvocation], Coroutine[Any, Any, None]]
    spawn: Callable[[Callable[[], Coroutine[Any, Any, None]]], None]
    claims: ClaimTable

    def dispatch(self, ticket: Ticket) -> None:
        """Queue a delivery. It fails if its listener no longer exists."""
        if ticket.delivery.to in self.editions.bound:
            (self.schedule if self.probation is None else self.probation).put(ticket)
        else:
            self.fail(ticket.delivery)

    def dispatch_later(self, ticket: Ticket, delay: float) -> None:
        """Dispatch after some seconds."""
        self.spawn(partial(self._wait, ticket, delay))

    def resume(self, ticket: Ticket, touched: float, now: float) -> None:
        """Dispatch a delivery of an earlier server: a retry after the rest of its delay.

        The delay began at the latest when its conversation was ``touched``.
        """
        attempt = ticket.delivery.attempt
        delay = backoff(attempt) if attempt else 0.0
        rest = min(delay, touched + delay - now)
        if rest > 0:
            self.dispatch_later(ticket, rest)
        else:
            self.dispatch(ticket)

    def dispatch_again(self, ticket: Ticket) -> None:
        """Dispatch a delivery whose turn had come and that was held."""
        if ticket.delivery.to in self.editions.bound:
            self.schedule.put(ticket)
        else:
            self.fail(ticket.delivery)

    def fail(self, delivery: Delivery) -> None:
        """Fail a delivery because its listener no longer exists."""
        if self.probation is not None:
            self.probation.finish(delivery)
        removed = HandlerFailure(Code.INTERNAL, Ground.GONE.of(delivery.to))
        self.spawn(partial(self.conclude, FinishedInvocation(delivery, None, removed)))

    async def _wait(self, ticket: Ticket, delay: float) -> None:
        conversation = ticket.delivery.conversation
        claim = self.claims.get(conversation)
        await anyio.sleep(delay)
        if self.claims.get(conversation) is claim:
            self.dispatch(ticket)


logger = logging.getLogger("agentserver.pump")


class TokenHolder:
    """Tokens of this process. An exclusive listener runs one invocation at a time, in all processes together.

    Args:
        engine: grants a token to one process at a time.
        held: tokens that are here, by listener, with the event that is set when the invocation is done.
        spawn: starts a task of the pump.
        hand_on: receives a delivery that has its token.
    """

    def __init__(
        self,
        engine: Engine,
        held: MutableMapping[str, asyncio.Event],
        spawn: Callable[[Callable[[], Coroutine[Any, Any, None]]], None],
        hand_on: Callable[[Ticket], None],
    ) -> None:
        self._engine, self._tokens = engine, held
        self._spawn, self._hand_on = spawn, hand_on

    def ask(self, delivery: Delivery) -> None:
        """Pass a delivery on once its listener's token is here. It waited for its principal's turn before."""
        self._spawn(partial(self._have, Ticket("", delivery)))

    async def _have(self, ticket: Ticket) -> None:
        listener, done, failures = ticket.delivery.to, asyncio.Event(), 0
        while not done.is_set():
            try:
                async with self._engine.exclusive(listener):
                    self._tokens[listener] = done
                    self._hand_on(ticket)
                    await done.wait()
            except EngineError as error:
                logger.error("the token of %s cannot be had, or given back: %s", listener, error)  # noqa: TRY400 - the text says it all
                failures += 1
                await asyncio.sleep(backoff(failures))
