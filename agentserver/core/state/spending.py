"""Spending of a conversation: charges, and reservations for running work.

A reservation is charged in full at once, and settling it corrects the charge; one that is never settled stays charged.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.spending import NOTHING_SPENT, Amount, Budget, Budgets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

OPEN: Final = 256
"""Open reservations of a conversation; further work waits until some are settled."""


class Reservation(NamedTuple):
    """Charge for running work.

    Args:
        id: opaque.
        thread: of the work.
        delivery: whose invocation does it.
        request: the cause of the work.
        agent: the listener that does it.
        amount: the amount charged.
    """

    id: str
    thread: str
    delivery: str
    request: str
    agent: str
    amount: Amount


class Spending(NamedTuple):
    """Charges of one conversation.

    Args:
        total: of the conversation.
        agents: of each listener that was charged, by name.
        requests: of each charged request; ended ones are dropped with the next reservation.
        open: unsettled reservations, by id; those of ended invocations are dropped with the next one.
    """

    total: Amount = NOTHING_SPENT
    agents: Mapping[str, Amount] = MappingProxyType({})
    requests: Mapping[str, Amount] = MappingProxyType({})
    open: Mapping[str, Reservation] = MappingProxyType({})

    def find_exceeded(self, budgets: Budgets, request: str, agent: str, maximum: Amount) -> str:
        """Name the budget that ``maximum`` would exceed: ``request``, ``conversation`` or ``agent``; else empty."""
        spent = (
            ("request", budgets.request, self.requests.get(request, NOTHING_SPENT)),
            ("conversation", budgets.conversation, self.total),
            ("agent", budgets.agents.get(agent, Budget()), self.agents.get(agent, NOTHING_SPENT)),
        )
        return next((name for name, budget, so_far in spent if not budget.holds(so_far + maximum)), "")

    def reserve(self, one: Reservation) -> Spending:
        """Charge a reservation in full."""
        requests = _correct(self.requests, one.request, NOTHING_SPENT, one.amount)
        return Spending(
            self.total + one.amount,
            _correct(self.agents, one.agent, NOTHING_SPENT, one.amount),
            requests,
            {**self.open, one.id: one},
        )

    def settle(self, one: Reservation, cost: Amount) -> Spending:
        """Replace an open reservation by the actual cost."""
        requests = self.requests
        if one.request in requests:
            requests = _correct(requests, one.request, one.amount, cost)
        return Spending(
            self.total - one.amount + cost,
            _correct(self.agents, one.agent, one.amount, cost),
            requests,
            {key: other for key, other in self.open.items() if key != one.id},
        )

    def drop_finished(
        self, has_ended: Callable[[str], bool], done: Callable[[Reservation], bool]
    ) -> Spending:
        """Drop ended requests and reservations; the totals keep their charges.

        Args:
            has_ended: True for an ended request.
            done: True for a reservation of an ended invocation.
        """
        return self._replace(
            requests={key: amount for key, amount in self.requests.items() if not has_ended(key)},
            open={key: one for key, one in self.open.items() if not done(one)},
        )


def _correct(amounts: Mapping[str, Amount], key: str, before: Amount, now: Amount) -> dict[str, Amount]:
    return {**amounts, key: amounts.get(key, NOTHING_SPENT) - before + now}


NO_SPENDING: Final = Spending()
