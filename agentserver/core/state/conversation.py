"""The state of a conversation, as one frozen value."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from agentserver.core.state.ledger import NO_LEDGER
from agentserver.core.state.principals import FULL, Principal
from agentserver.core.state.requests import ResultLimits
from agentserver.core.state.spending import NO_SPENDING, Spending
from agentserver.core.state.threads import ThreadTree
from agentserver.core.state.todos import NO_TODOS, TodoBook

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentserver.core.blueprint import Limits
    from agentserver.core.messages import Delivery, Moment
    from agentserver.core.state.approvals import Approval
    from agentserver.core.state.ledger import LedgerEffect
    from agentserver.core.state.principals import Rights
    from agentserver.core.state.requests import OpenRequest
    from agentserver.core.state.spending import Reservation
    from agentserver.core.state.threads import Thread, Timer

__all__ = ["Conversation"]

_new = tuple.__new__


def is_at_work(conversation: Conversation) -> bool:
    """Return whether a delivery of the conversation is queued, held, or waits for a person."""
    nodes = conversation.tree.nodes.values()
    return any(node.inbox or node.held_deliveries or node.approvals for node in nodes)


class Conversation(NamedTuple):
    """State of one conversation. Every change makes a new value.

    Args:
        id: opaque.
        principal: who opened it; no other may address, watch or cancel it.
        tree: its threads.
        todos: its watchers.
        requests: open requests, by id.
        messages: deliveries made so far.
        memory: each guard's memory by the guard's name.
        version: number of steps committed.
        touched: when the last step was taken, in seconds since the epoch.
        closed: whether it has ended.
        rights: of the principal, from the opening on.
        spending: the charges.
        timers: of the delayed deliveries, the earliest first. They follow from the threads.
        ledger: the external effects, by id.
    """

    id: str
    principal: str
    tree: ThreadTree
    todos: TodoBook = NO_TODOS
    requests: Mapping[str, OpenRequest] = MappingProxyType({})
    messages: int = 0
    memory: Mapping[str, object] = MappingProxyType({})
    version: int = 0
    touched: float = 0.0
    closed: bool = False
    rights: Rights = FULL
    spending: Spending = NO_SPENDING
    timers: tuple[Timer, ...] = ()
    ledger: Mapping[str, LedgerEffect] = NO_LEDGER

    @classmethod
    def begin(cls, principal: Principal | str, moment: Moment) -> Conversation:
        """Make a conversation before its first step. Raises ValueError for an unknown trust."""
        ids, owner = moment.ids(), Principal.of(principal)
        key, tree = next(ids), ThreadTree.plant(next(ids), owner.name)
        return cls(key, owner.name, tree, touched=moment.now, rights=owner.rights)

    @property
    def opener(self) -> Principal:
        """The principal with its rights."""
        return Principal(self.principal, *self.rights)

    def approvals(self) -> tuple[Approval, ...]:
        """List the messages that wait for a person, those of older threads first."""
        return tuple([one for thread in self.tree.nodes.values() for one in thread.approvals])

    @property
    def sleeps_until(self) -> float | None:
        """The time until which it sleeps, in seconds since the epoch; None if anything else is under way."""
        if not self.timers:
            return None
        pending = sum(request.pending for request in self.requests.values())
        return self.timers[0].due_at if pending == len(self.timers) else None

    def current_spending(self) -> Spending:
        """Return its spending without ended requests and without reservations of ended invocations."""

        def has_ended(one: Reservation) -> bool:
            thread = self.tree.nodes.get(one.thread)
            return thread is None or not thread.inbox or thread.inbox[0].id != one.delivery

        return self.spending.drop_finished(lambda request: request not in self.requests, has_ended)

    def room(self, limits: Limits, request: str) -> ResultLimits:
        """Return the permitted size of a result of a request that is concluded now."""
        entry = self.requests.get(request)
        remaining = limits.messages if entry is None else limits.messages - entry.messages
        remaining = min(remaining, limits.conversation_messages - self.messages)
        return _new(ResultLimits, (max(1, remaining), limits.principal_bytes))

    def working_on(self, delivery: Delivery) -> Thread | None:
        """Return the thread whose first delivery this is, or None."""
        thread = self.tree.nodes.get(delivery.thread)
        return thread if thread is not None and thread.inbox and thread.inbox[0].id == delivery.id else None
