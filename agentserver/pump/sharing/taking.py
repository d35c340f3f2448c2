"""The way of conversations into the pump's hands: by the shares that it gains, at its start and while it runs.

Owns what is taken up with a share, and that nothing of it is at work before. Refuses to know how shares are claimed.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import anyio

from agentserver.ports import DamagedError, EngineError, FencedError
from agentserver.pump.turns.editions import at_once
from agentserver.pump.turns.schedule import Ticket, backoff

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
    from typing import Any

    from agentserver.core.messages import Delivery
    from agentserver.core.state.conversation import Conversation
    from agentserver.ports import Clock, Share
    from agentserver.pump.calling.suspects import Probation
    from agentserver.pump.sharing.leaving import Leaving
    from agentserver.pump.turns.dispatch import Dispatcher

    Along: TypeAlias = Callable[[Share], Coroutine[Any, Any, None]]

logger = logging.getLogger("agentserver.pump")


@dataclass(slots=True)
class Taking:
    """Takes up what an engine keeps, share by share, and has let go what is lost.

    Args:
        leaving: lets go, and has what is kept of conversations.
        set_aside: lets a conversation go on no more that cannot be read.
        ways: where deliveries go on, suspects among them before, and the end of a delivery that ends the process.
        clock: tells how long a repetition has waited.

    ``elsewhere`` has the gateways of this process see what has left a share so far, and deals with what other processes
    hand in for it.
    """

    leaving: Leaving
    set_aside: Callable[[str, Exception], Awaitable[None]]
    ways: tuple[Dispatcher, Probation, Callable[[Delivery], Coroutine[Any, Any, None]]]
    clock: Clock
    elsewhere: tuple[Along, Along] = field(init=False)
    _changes: AsyncIterator[frozenset[Share]] | None = None
    _lost: set[Share] = field(default_factory=set)

    async def begin(self) -> None:
        """Take up what an earlier run left. Raises EngineError."""
        engine, _ = self.leaving.kept
        self._changes = engine.shares()
        for share in sorted(await anext(self._changes)):
            try:
                await self.take_up(share)
            except FencedError:
                self.let_go(share)

    async def follow(self) -> None:
        """Let go what is lost from now on, and take up what is gained, for ever."""
        assert self._changes is not None  # it has begun
        _, shares = self.leaving.kept
        async for held in self._changes:
            self._lost &= held
            lost = shares.held - held
            if lost:
                self.leaving.let_go(lost)
            for share in sorted(held - shares.held - self._lost):
                await self._gain(share)

    def let_go(self, share: Share) -> None:
        """Let go a share of which a commit has shown that it is lost."""
        self._lost.add(share)
        self.leaving.let_go({share})

    async def _gain(self, share: Share) -> None:
        """Take a share up, however often the engine has to be asked."""
        failures = 0
        while True:
            try:
                await self.take_up(share)
            except FencedError:
                self.let_go(share)
                return
            except EngineError as error:
                self.leaving.let_go({share})
                failures += 1
                logger.error("a share waits until it can be taken up: %s", error)  # noqa: TRY400 - the text says it all
                await anyio.sleep(backoff(failures))
            else:
                return

    async def take_up(self, share: Share) -> None:
        """Schedule what was left in a share; everything that waits in its conversations is in hand again.

        Other conversations of the share come to work only after it: what is dispatched meanwhile is dispatched here.
        Raises FencedError when the share is lost by then, and EngineError.
        """
        _, shares = self.leaving.kept
        dispatcher, probation, bury = self.ways
        gained, arrivals = self.elsewhere
        await gained(share)  # before anything leaves its conversations here
        editions = dispatcher.editions
        bound, limits = editions.bound, editions.rules.blueprint.limits
        queued: dict[str, tuple[Ticket, float]] = {}
        for ticket, touched in await self._left_over(share):
            if ticket.delivery.to in bound:
                queued[ticket.delivery.id] = ticket, touched
            else:
                dispatcher.dispatch(ticket)
        calls = limits.concurrency + sum(at_once(bound).values())
        verdict = await probation.look(share, queued, limits.fatal_ends, calls)
        if share in self._lost:
            raise FencedError("the share was lost while it was taken up")
        shares.held |= {share}
        dead, others = probation.begin(verdict, [ticket for ticket, _ in queued.values()])
        dispatcher.spawn(partial(arrivals, share))
        for ticket in dead:
            dispatcher.spawn(partial(bury, ticket.delivery))
        for ticket in others:
            dispatcher.resume(ticket, queued[ticket.delivery.id][1], self.clock.moment().now)

    async def _left_over(self, share: Share) -> list[tuple[Ticket, float]]:
        """Count what a share has, and show what waits for a person; gives what may run, and since when it was left."""
        engine, _ = self.leaving.kept
        accounts, _ = self.leaving.bounds
        async for key, principal in engine.open_conversations(share):
            accounts.open(key, principal)
        found: list[tuple[Ticket, float]] = []
        async for key in engine.at_work(share):
            try:
                one = await engine.load(key)
            except DamagedError as error:
                await self.set_aside(key, error)
                continue
            if one is not None:
                found += self._take(share, one)
        return found

    def _take(self, share: Share, one: Conversation) -> list[tuple[Ticket, float]]:
        """Have a conversation at work, in one piece with what is found in it to run."""
        _, shares = self.leaving.kept
        live, _, _ = self.leaving.work
        accounts, waiting = self.leaving.bounds
        shares[one.id], live[one.id] = share, one
        accounts.recount(one)
        waiting.add(one.approvals())
        inboxes = (thread.inbox for thread in one.tree.nodes.values() if thread.inbox)
        return [(Ticket(one.principal, inbox[0]), one.touched) for inbox in inboxes]
