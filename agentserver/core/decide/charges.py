"""Charges of a running invocation: reserved before the work, settled after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.core.decide.step import Step
from agentserver.core.state.spending import OPEN

if TYPE_CHECKING:
    from agentserver.core.guard import Rules
    from agentserver.core.messages import Moment, ReserveRequest, SettleRequest
    from agentserver.core.records.outcome import Outcome
    from agentserver.core.state.conversation import Conversation


def find_objection(conversation: Conversation, request: ReserveRequest, rules: Rules) -> str:
    """Return why a reservation may not be made, or an empty text."""
    delivery, what, maximum = request
    if conversation.working_on(delivery) is None:
        return "the invocation has ended"
    spending = conversation.current_spending()
    if len(spending.open) >= OPEN:
        return f"{OPEN} reservations are open in the conversation"
    budgets = rules.blueprint.budgets
    exceeded = spending.find_exceeded(budgets, delivery.request, delivery.to, maximum)
    return (
        exceeded and f"{what} may cost {maximum}, which is more than is left of the budget of the {exceeded}"
    )


def reserve(
    conversation: Conversation, request: ReserveRequest, rules: Rules, moment: Moment
) -> Outcome | None:
    """Charge the greatest cost of work; None when there is an objection."""
    if find_objection(conversation, request, rules):
        return None
    step = Step(conversation, rules, moment, request, request.delivery.request)
    step.reserve(*request)
    return step.finish()


def settle(conversation: Conversation, done: SettleRequest, rules: Rules, moment: Moment) -> Outcome | None:
    """Charge the actual cost of work. None when its reservation is closed, which leaves it charged in full."""
    delivery, key, cost = done
    reservation = conversation.spending.open.get(key)
    if reservation is None or conversation.working_on(delivery) is None:
        return None
    step = Step(conversation, rules, moment, done, delivery.request)
    step.settle(delivery, reservation, cost)
    return step.finish()
