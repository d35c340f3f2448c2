"""Moves conversations from one edition to the next, each while no step and no handler of it runs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from agentserver.core.encoding.snapshot import add_new_guards
from agentserver.core.state import principals
from agentserver.pump.editions import at_once
from agentserver.pump.schedule import Ticket

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, MutableMapping
    from typing import Any

    from agentserver.core.messages import Delivery
    from agentserver.core.state.conversation import Conversation
    from agentserver.pump.accounts import Accounts
    from agentserver.pump.approvals import PendingApprovals
    from agentserver.pump.dispatch import Dispatcher
    from agentserver.pump.editions import Edition, Editions
    from agentserver.pump.parsing import ParsedPayloads
    from agentserver.pump.schedule import KeyedLock, Schedule


@dataclass(slots=True)
class Reloads:
    """Moves conversations to another edition.

    Args:
        editions: of each conversation.
        work: conversations as last committed, the lock of their steps, and their parsed payloads.
        bounds: quotas of principals, approvals, and queues of listeners.
        dispatcher: receives held deliveries.
        spawn: starts a task of the pump.
    """

    editions: Editions
    work: tuple[MutableMapping[str, Conversation], KeyedLock, ParsedPayloads]
    bounds: tuple[Accounts, PendingApprovals, Schedule]
    dispatcher: Dispatcher
    spawn: Callable[[Callable[[], Coroutine[Any, Any, None]]], None]

    def unfit(self, edition: Edition) -> tuple[str, ...]:
        """Return the principals with an open conversation whose name is a listener in another edition."""
        taken = principals.reserved_looks(edition.bound)
        return tuple(sorted(name for name in self.bounds[0].principals if principals.unfit(name, taken)))

    def swap(self, edition: Edition) -> int:
        """Make an edition current. Returns how many conversations are busy; each moves as soon as it can."""
        editions, before = self.editions, at_once(self.editions.bound)
        live, alone, parsed = self.work
        accounts, waiting, schedule = self.bounds
        editions.swap(edition, alone.inside)
        accounts.limit(edition.rules.blueprint.limits)
        waiting.limit(edition.rules.blueprint.approval_time)
        parsed.clear()
        for key in live.keys() - editions.earlier.keys():
            live[key] = add_new_guards(live[key], edition.rules.guards)
        for ticket in schedule.resize(before, at_once(edition.bound)):
            self.dispatcher.fail(ticket.delivery)
        for key in editions.earlier:
            self.spawn(partial(self._move, key))
        return len(editions.earlier)

    async def wait_moved(self) -> None:
        """Wait until every conversation uses the current edition."""
        while self.editions.earlier:
            await self.editions.rest()

    def put_off(self, delivery: Delivery) -> None:
        """Hold a delivery that cannot run after a reload, or fail it if its listener is gone."""
        if delivery.conversation in self.editions.earlier:
            self.editions.hold(delivery)
        else:
            self.dispatcher.fail(delivery)

    async def _move(self, conversation: str) -> None:
        """Move a conversation once it has no work in an earlier edition."""
        _, alone, _ = self.work
        while conversation in self.editions.earlier:
            await alone.enter(conversation)
            try:
                moved = self._try_move(conversation)
            finally:
                alone.leave(conversation)
            if not moved:
                await self.editions.rest()

    def _try_move(self, conversation: str) -> bool:
        """Move a locked conversation. Returns whether it has moved."""
        live, _, parsed = self.work
        held, now = self.editions.move(conversation), live.get(conversation)
        if held is None or now is None:
            return held is not None
        live[conversation] = add_new_guards(now, self.editions.rules.guards)
        for thread in now.tree.nodes.values():
            parsed.forget(thread.list_waiting())
        for delivery in held:
            self.dispatcher.dispatch_again(Ticket(now.principal, delivery))
        return True
