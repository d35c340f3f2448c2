"""The spending of a conversation: what was charged to whom, and what is reserved for work that is under way.

A reservation counts in full from the moment it is made, and settling it only corrects the count; so one that is never
settled counts without anything being done.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.spending import NOTHING_SPENT, Amount, Budget, Budgets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

OPEN: Final = 256
"""Reservations that a conversation may have open. Beyond it the work has to wait for others to be settled."""


class Reservation(NamedTuple):
    """Work that is under way.

    Args:
        id: opaque.
        thread: on which it is done.
        delivery: the delivery in whose invocation it is done.
        request: the request that it is done for.
        agent: the listener that does it.
        most: what was charged for it.
    """

    id: str
    thread: str
    delivery: str
    request: str
    agent: str
    most: Amount


class Spending(NamedTuple):
    """Everything that was charged in one conversation.

    Args:
        total: of the conversation.
        agents: of each listener that was charged, by name.
        requests: of each request that was charged; those at rest are forgotten with the next reservation.
        open: reservations that are not settled, by id; those whose delivery is over are forgotten with the next one.
    """

    total: Amount = NOTHING_SPENT
    agents: Mapping[str, Amount] = MappingProxyType({})
    requests: Mapping[str, Amount] = MappingProxyType({})
    open: Mapping[str, Reservation] = MappingProxyType({})

    def overrun(self, budgets: Budgets, request: str, agent: str, most: Amount) -> str:
        """The budget that so much more would overrun: ``request``, ``conversation`` or ``agent``; empty for none."""
        spent = (
            ("request", budgets.request, self.requests.get(request, NOTHING_SPENT)),
            ("conversation", budgets.conversation, self.total),
            ("agent", budgets.agents.get(agent, Budget()), self.agents.get(agent, NOTHING_SPENT)),
        )
        return next((name for name, budget, so_far in spent if not budget.holds(so_far + most)), "")

    def reserve(self, one: Reservation) -> Spending:
        """Charge a reservation in full."""
        requests = _correct(self.requests, one.request, NOTHING_SPENT, one.most)
        return Spending(
            self.total + one.most,
            _correct(self.agents, one.agent, NOTHING_SPENT, one.most),
            requests,
            {**self.open, one.id: one},
        )

    def settle(self, one: Reservation, cost: Amount) -> Spending:
        """Charge what the work of an open reservation has cost in place of what was reserved for it."""
        requests = self.requests
        if one.request in requests:
            requests = _correct(requests, one.request, one.most, cost)
        return Spending(
            self.total - one.most + cost,
            _correct(self.agents, one.agent, one.most, cost),
            requests,
            {key: other for key, other in self.open.items() if key != one.id},
        )

    def without(self, over: Callable[[str], bool], done: Callable[[Reservation], bool]) -> Spending:
        """The same without what nobody asks for any more; the charges stay in the rest.

        Args:
            over: True for a request that has come to rest.
            done: True for a reservation whose delivery is not worked on any more.
        """
        return self._replace(
            requests={key: amount for key, amount in self.requests.items() if not over(key)},
            open={key: one for key, one in self.open.items() if not done(one)},
        )


def _correct(amounts: Mapping[str, Amount], key: str, before: Amount, now: Amount) -> dict[str, Amount]:
    return {**amounts, key: amounts.get(key, NOTHING_SPENT) - before + now}


NO_SPENDING: Final = Spending()
