"""Moves conversations from one edition to the next, each while no step and no handler of it runs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from agentserver.core.encoding.snapshot import with_later
from agentserver.core.state import principals
from agentserver.pump.editions import at_once
from agentserver.pump.schedule import Ticket

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, MutableMapping
    from typing import Any

    from agentserver.core.messages import Delivery
    from agentserver.core.state.conversation import Conversation
    from agentserver.pump.accounts import Accounts
    from agentserver.pump.approvals import Waiting
    from agentserver.pump.dispatch import Dispatcher
    from agentserver.pump.editions import Edition, Editions
    from agentserver.pump.parsing import ParsedPayloads
    from agentserver.pump.schedule import Alone, Schedule


@dataclass(slots=True)
class Reloads:
    """Lets conversations go by another edition.

    Args:
        editions: of each conversation.
        work: conversations as last committed, who takes a step of one, and payloads that were read by its rules.
        bounds: what principals have in hand, what waits for persons, and the turns of listeners.
        dispatcher: where deliveries go on.
        spawn: starts a task of the pump's.
    """

    editions: Editions
    work: tuple[MutableMapping[str, Conversation], Alone, ParsedPayloads]
    bounds: tuple[Accounts, Waiting, Schedule]
    dispatcher: Dispatcher
    spawn: Callable[[Callable[[], Coroutine[Any, Any, None]]], None]

    def unfit(self, edition: Edition) -> tuple[str, ...]:
        """The principals with something open whose name another edition has for a listener."""
        taken = principals.taken(edition.bound)
        return tuple(sorted(name for name in self.bounds[0].principals if principals.unfit(name, taken)))

    def swap(self, edition: Edition) -> int:
        """Let all conversations go on by another edition; gives how many are at work, and do so as soon as they may."""
        editions, before = self.editions, at_once(self.editions.bound)
        live, alone, parsed = self.work
        accounts, waiting, schedule = self.bounds
        editions.swap(edition, alone.inside)
        accounts.limit(edition.rules.blueprint.limits)
        waiting.limit(edition.rules.blueprint.limits.approval)
        parsed.clear()
        for key in live.keys() - editions.earlier.keys():
            live[key] = with_later(live[key], edition.rules.guards)
        for ticket in schedule.resize(before, at_once(edition.bound)):
            self.dispatcher.fail(ticket.delivery)
        for key in editions.earlier:
            self.spawn(partial(self._move, key))
        return len(editions.earlier)

    async def moved(self) -> None:
        """Wait until every conversation goes by the present edition."""
        while self.editions.earlier:
            await self.editions.rest()

    def put_off(self, delivery: Delivery) -> None:
        """Deal with a delivery whose turn has come after a reload: it waits for its conversation, or fails."""
        if delivery.conversation in self.editions.earlier:
            self.editions.hold(delivery)
        else:
            self.dispatcher.fail(delivery)

    async def _move(self, conversation: str) -> None:
        """Let a conversation go on by the present edition once nothing of it is at work by an earlier one."""
        _, alone, _ = self.work
        while conversation in self.editions.earlier:
            await alone.enter(conversation)
            try:
                moved = self._moved(conversation)
            finally:
                alone.leave(conversation)
            if not moved:
                await self.editions.rest()

    def _moved(self, conversation: str) -> bool:
        """True when the conversation, which is alone, has moved."""
        live, _, parsed = self.work
        held, now = self.editions.move(conversation), live.get(conversation)
        if held is None or now is None:
            return held is not None
        live[conversation] = with_later(now, self.editions.rules.guards)
        for thread in now.tree.nodes.values():
            parsed.forget(thread.waiting())
        for delivery in held:
            self.dispatcher.again(Ticket(now.principal, delivery))
        return True
