"""The way of conversations into the pump's hands, and out of them: by the shares that it gains and loses.

Owns what is taken up with a share. Refuses to know how shares are claimed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from agentserver.pump.turns.editions import at_once
from agentserver.pump.turns.schedule import Ticket

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from typing import Any

    from agentserver.core.messages import Delivery
    from agentserver.core.state.conversation import Conversation
    from agentserver.ports import Clock, Engine, Share
    from agentserver.pump.calling.suspects import Probation
    from agentserver.pump.turns.accounts import Accounts
    from agentserver.pump.turns.dispatch import Dispatcher
    from agentserver.pump.turns.shares import Shares
    from agentserver.pump.waiting import Waiting


@dataclass(slots=True)
class Taking:
    """Takes up what an engine keeps.

    Args:
        kept: the engine, and the shares of the pump.
        find: gives a conversation from the engine, if it goes on.
        bounds: what principals have in hand, and what waits for persons.
        ways: where deliveries go on, and suspects among them before.
        bury: ends a delivery whose handler ends the process.
        clock: tells how long a repetition has waited.
    """

    kept: tuple[Engine, Shares]
    find: Callable[[str], Awaitable[Conversation | None]]
    bounds: tuple[Accounts, Waiting]
    ways: tuple[Dispatcher, Probation]
    bury: Callable[[Delivery], Coroutine[Any, Any, None]]
    clock: Clock

    async def begin(self) -> None:
        """Take up what an earlier run left."""
        engine, shares = self.kept
        shares.held = await anext(engine.shares())
        for share in sorted(shares.held):
            await self.take_up(share)

    async def take_up(self, share: Share) -> None:
        """Schedule what was left in a share; everything that waits in its conversations is in hand again."""
        found = await self._left_over(share)
        dispatcher, probation = self.ways
        editions = dispatcher.editions
        bound, limits = editions.bound, editions.rules.blueprint.limits
        queued = []
        for ticket, touched in found:
            if ticket.delivery.to in bound:
                queued.append((ticket, touched))
            else:
                dispatcher.dispatch(ticket)
        since = {ticket.delivery.id: touched for ticket, touched in queued}
        calls = limits.concurrency + sum(at_once(bound).values())
        dead, others = await probation.begin(
            share, [ticket for ticket, _ in queued], limits.fatal_ends, calls
        )
        for ticket in dead:
            dispatcher.spawn(partial(self.bury, ticket.delivery))
        for ticket in others:
            dispatcher.resume(ticket, since[ticket.delivery.id], self.clock.moment().now)

    async def _left_over(self, share: Share) -> list[tuple[Ticket, float]]:
        """Count what a share has, and show what waits for a person; gives what may run, and since when it was left."""
        engine, _ = self.kept
        accounts, waiting = self.bounds
        async for key, principal in engine.open_conversations(share):
            accounts.open(key, principal)
        found: list[tuple[Ticket, float]] = []
        async for key in engine.at_work(share):
            one = await self.find(key)
            if one is not None:
                accounts.recount(one)
                waiting.add(one.approvals())
                inboxes = (thread.inbox for thread in one.tree.nodes.values() if thread.inbox)
                found += [(Ticket(one.principal, inbox[0]), one.touched) for inbox in inboxes]
        return found
