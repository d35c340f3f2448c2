"""A person's answer to a question about a message that waits.

Owns what becomes of the message and of its sender. Refuses to know who answered, and how long that may take.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.contract import Code
from agentserver.core import principals
from agentserver.core.approvals import Answer, Unasked, digest
from agentserver.core.details import Answered, Unanswered
from agentserver.core.notices import notice
from agentserver.core.refusals import system_error
from agentserver.core.step import Step

if TYPE_CHECKING:
    from agentserver.core.approvals import Decided
    from agentserver.core.conversation import Conversation
    from agentserver.core.details import Answering
    from agentserver.core.guard import Rules
    from agentserver.core.messages import Delivery, Moment
    from agentserver.core.outcome import Outcome


def barred(conversation: Conversation, by: str, rules: Rules) -> str:
    """The reason why a person may not permit what waits in a conversation, if there is one; anybody may deny it."""
    if rules.blueprint.limits.approvers == "anyone":
        return ""
    if conversation.principal.partition("-")[0] in principals.NOBODY:
        return "nobody knows who asked for it, and limits.approvers wants somebody else"
    if not by or principals.same(by, conversation.principal):
        return f"{conversation.principal} asked for it, and limits.approvers wants somebody else"
    return ""


def decide(conversation: Conversation, decided: Decided, rules: Rules, moment: Moment) -> Outcome | None:
    """Let a message that waits for a person go on, or tell its sender that it does not.

    None when the answer is to nothing that waits, or to another message than the one that does: it was spent
    already, the message went with its thread, or the person was shown something else. None, too, for a permission by
    a person who is barred. A message that is not the one that was asked about any more can still be denied.
    """
    approval = next((one for one in conversation.approvals() if one.id == decided.approval), None)
    if approval is None or approval.digest != decided.digest:
        return None
    delivery = approval.delivery
    if decided.answer is not Answer.DENY and (
        approval.digest != digest(delivery) or barred(conversation, decided.by, rules)
    ):
        return None
    step = Step(conversation, rules, moment)
    step.cause = decided
    if decided.answer is Answer.DENY:
        step.withdraw(approval, _answered(decided))
        _tell_withdrawn(step, delivery)
        return step.finish()
    if decided.answer is Answer.ALWAYS:
        step.memory = rules.permit(step.memory, approval.questions)
    step.permit(approval, _answered(decided))
    return step.finish()


def _answered(decided: Decided) -> Answering:
    """The answer as it goes on record."""
    if isinstance(decided.by, Unasked):
        return Unanswered(decided.by.name.lower())
    return Answered(decided.by, decided.answer)


def _tell_withdrawn(step: Step, delivery: Delivery) -> None:
    """Tell the sender of a withdrawn message: as the caller of its thread, or as the one that answered it."""
    caller = step.tree.nodes[delivery.thread].parent == delivery.origin
    thread = delivery.thread if caller else delivery.origin
    if step.tree.get(thread) is not None:
        error = notice(system_error(Code.DENIED), thread, step.rules, caller=caller, about=delivery.to)
        step.send(error, delivery.request, delivery.hop + 1)
