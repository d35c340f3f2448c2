"""Charges of a running invocation: reserved before the work, settled after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.core.decide.step import Step
from agentserver.core.state.growing.spending import OPEN

if TYPE_CHECKING:
    from agentserver.core.guard import Rules
    from agentserver.core.messages import Moment, ReserveRequest, SettleRequest
    from agentserver.core.records.outcome import Outcome
    from agentserver.core.state.conversation import Conversation


def objection(conversation: Conversation, asked: ReserveRequest, rules: Rules) -> str:
    """The reason why a reservation may not be made; empty when it may."""
    delivery, what, most = asked
    if conversation.working_on(delivery) is None:
        return "the invocation is over"
    spending = conversation.charged()
    if len(spending.open) >= OPEN:
        return f"{OPEN} reservations are open in the conversation"
    budgets = rules.blueprint.budgets
    over = spending.overrun(budgets, delivery.request, delivery.to, most)
    return over and f"{what} may cost {most}, which is more than is left of the budget of the {over}"


def reserve(
    conversation: Conversation, asked: ReserveRequest, rules: Rules, moment: Moment
) -> Outcome | None:
    """Charge the most that some work may cost; None when there is an objection to it."""
    if objection(conversation, asked, rules):
        return None
    step = Step(conversation, rules, moment, asked, asked.delivery.request)
    step.reserve(*asked)
    return step.finish()


def settle(conversation: Conversation, done: SettleRequest, rules: Rules, moment: Moment) -> Outcome | None:
    """Charge what some work has cost. None when nothing is open for it any more: then it was charged in full."""
    delivery, key, cost = done
    reservation = conversation.spending.open.get(key)
    if reservation is None or conversation.working_on(delivery) is None:
        return None
    step = Step(conversation, rules, moment, done, delivery.request)
    step.settle(delivery, reservation, cost)
    return step.finish()
