"""The way of conversations in which something waits into the pump's hands, at its start and while it runs.

Owns what is taken up, and that none of it runs before. Refuses to know how conversations are claimed.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import anyio

from agentserver.ports import DamagedError, EngineError, FencedError, Gained
from agentserver.pump.editions import at_once
from agentserver.pump.schedule import Ticket, backoff

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Mapping
    from typing import Any

    from agentserver.core.messages import Delivery
    from agentserver.core.state.conversation import Conversation
    from agentserver.ports import Claim, Clock, Lost
    from agentserver.pump.claims.copies import Copies
    from agentserver.pump.dispatch import Dispatcher
    from agentserver.pump.poison_search import Probation

logger = logging.getLogger("agentserver.pump")


@dataclass(slots=True)
class Taking:
    """Takes up conversations that this process gained, and drops those that it lost.

    Args:
        copies: of the conversations at work.
        set_aside: stops a conversation for good that cannot be read.
        gained: shows gateways what has left conversations, before anything leaves them here.
        ways: where deliveries go on, suspects among them before, and the end of a delivery that ends the process.
        clock: tells how long a repetition has waited.
    """

    copies: Copies
    set_aside: Callable[[str, Exception], Awaitable[None]]
    gained: Callable[[Collection[str]], Awaitable[None]]
    ways: tuple[Dispatcher, Probation, Callable[[Delivery], Coroutine[Any, Any, None]]]
    clock: Clock
    _changes: AsyncIterator[Gained | Lost] | None = None
    _begun: bool = field(default=False)

    async def begin(self) -> None:
        """Take up what an earlier run left. Raises EngineError."""
        engine, _ = self.copies.kept
        accounts, _ = self.copies.bounds
        async for key, principal in engine.open_conversations():
            accounts.open(key, principal)
        self._changes = engine.changes()
        first = await anext(self._changes)
        if isinstance(first, Gained):
            await self.take_up(first)

    async def follow(self) -> None:
        """Take up and drop conversations from now on. Raises EngineError when this process may work no more."""
        assert self._changes is not None  # it has begun
        async for change in self._changes:
            if isinstance(change, Gained):
                await self._take_up(change)
            else:
                self.copies.lose_outdated(change.conversations)

    async def _take_up(self, gained: Gained) -> None:
        """Take conversations up, however often the engine has to be asked."""
        failures = 0
        while True:
            try:
                await self.take_up(gained)
            except FencedError:
                return
            except EngineError as error:
                failures += 1
                logger.error("conversations wait until they can be taken up: %s", error)  # noqa: TRY400 - the text says it all
                await anyio.sleep(backoff(failures))
            else:
                return

    async def take_up(self, gained: Gained) -> None:
        """Schedule what is queued in conversations, and show what waits for a person.

        None of them is at work before: a conversation in which something waits is found only once it is taken up.
        Raises EngineError, and then none is.
        """
        dispatcher, probation, bury = self.ways
        editions = dispatcher.editions
        bound, limits = editions.bound, editions.rules.blueprint.limits
        found = await self._load(gained.claims)
        queued = [each.delivery.id for one in found for each in _tickets(one) if each.delivery.to in bound]
        calls = limits.concurrency + sum(at_once(bound).values())
        verdict = await probation.look(
            gained.previous, queued, limits.fatal_ends, calls, anew=not self._begun
        )
        self._begun = True
        tickets: dict[str, tuple[Ticket, float]] = {}
        for one in found:
            if self._outdated(one.id, gained.claims[one.id]):
                continue
            self.copies.keep(one, gained.claims[one.id])
            for ticket in _tickets(one):
                if ticket.delivery.to in bound:
                    tickets[ticket.delivery.id] = ticket, one.touched
                else:
                    dispatcher.dispatch(ticket)
        dead, others = probation.begin(verdict, [ticket for ticket, _ in tickets.values()])
        for ticket in dead:
            dispatcher.spawn(partial(bury, ticket.delivery))
        for ticket in others:
            dispatcher.resume(ticket, tickets[ticket.delivery.id][1], self.clock.moment().now)

    async def _load(self, claims: Mapping[str, Claim]) -> list[Conversation]:
        """Read conversations that are gained still."""
        engine, _ = self.copies.kept
        self.copies.lose_outdated(claims)
        there = [key for key, claim in claims.items() if not self._outdated(key, claim)]
        if engine.shared:
            await self.gained(there)
        found: list[Conversation] = []
        for key in there:
            try:
                one = await engine.load(key)
            except DamagedError as error:
                await self.set_aside(key, error)
                continue
            if one is not None:
                found.append(one)
        return found

    def _outdated(self, conversation: str, claim: Claim) -> bool:
        """True for a conversation that was lost since it was gained, or is at work already."""
        engine, claims = self.copies.kept
        return engine.held(conversation) != claim or claims.get(conversation) == claim


def _tickets(conversation: Conversation) -> list[Ticket]:
    """The deliveries of a conversation that may run."""
    inboxes = (thread.inbox for thread in conversation.tree.nodes.values() if thread.inbox)
    return [Ticket(conversation.principal, inbox[0]) for inbox in inboxes]
