"""Decisions about the answers of approvers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.contract import Code
from agentserver.core.decide.step import Step
from agentserver.core.drafts.replies import make_notice
from agentserver.core.records.audit import Event
from agentserver.core.records.details import ApprovalGiven, NoAnswer
from agentserver.core.refusals import make_system_error
from agentserver.core.state import principals
from agentserver.core.state.approvals import Answer, NoAnswerReason, digest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentserver.core.guard import Rules
    from agentserver.core.messages import Delivery, Moment
    from agentserver.core.records.details import Answering
    from agentserver.core.records.outcome import Outcome
    from agentserver.core.state.approvals import Approval, ApprovalAnswer
    from agentserver.core.state.conversation import Conversation


def bar_approver(conversation: Conversation, by: str, rules: Rules, to: str) -> str:
    """Return why a person may not approve a message to a listener, or an empty text. Any person may deny it."""
    if not rules.blueprint.others_approve(to):
        return ""
    if conversation.principal.partition("-")[0] in principals.NOBODY:
        return "its principal is unknown, and approvers: others wants another one"
    if not by or principals.is_same_name(by, conversation.principal):
        return f"{conversation.principal} asked for it, and approvers: others wants another one"
    return ""


def decide(
    conversation: Conversation, answered: ApprovalAnswer, rules: Rules, moment: Moment
) -> Outcome | None:
    """Deliver an approved message, answer the sender of a denied one, or revoke an approval that covers later messages.

    Returns: None when the answer does not match a waiting message (it was answered already, its thread closed, or
    the person saw another message), and for an approval by a person who may not approve. A denial is valid even if
    the message has changed.
    """
    approval = next((one for one in conversation.approvals() if one.id == answered.approval), None)
    if approval is None and answered.answer is Answer.DENY:
        return _revoke(conversation, answered, rules, moment)
    if approval is None or approval.digest != answered.digest:
        return None
    delivery = approval.delivery
    if answered.answer is not Answer.DENY and (
        approval.digest != digest(delivery) or bar_approver(conversation, answered.by, rules, delivery.to)
    ):
        return None
    step = Step(conversation, rules, moment, answered)
    if answered.answer is Answer.DENY:
        step.deny(approval, _describe_answer(answered))
        report_to_sender(step, delivery, Code.DENIED)
    else:
        step.approve(approval, _describe_answer(answered))
        if answered.answer is Answer.ALWAYS:
            memory = rules.approve(rules.recall(conversation), approval.questions)
            step.memory = _approve_settled(step, answered, approval, memory)
    return step.finish()


def _revoke(
    conversation: Conversation, answered: ApprovalAnswer, rules: Rules, moment: Moment
) -> Outcome | None:
    """Revoke an approval that covers later messages. Returns None if there is no such one."""
    lasting = rules.list_lasting(conversation)
    one = next((each for each in lasting if each.name_in(conversation.id) == answered.approval), None)
    if one is None or one.id != answered.digest:
        return None
    step = Step(conversation, rules, moment, answered)
    step.memory = rules.revoke(rules.recall(conversation), one.id)
    about = _describe_answer(answered)
    step.records.note(Event.WITHDRAWN, thread=conversation.tree.root, to=one.to, detail=about)
    return step.finish()


def _approve_settled(
    step: Step, answered: ApprovalAnswer, approval: Approval, memory: Mapping[str, object]
) -> Mapping[str, object]:
    """Approve the other waiting messages whose questions this approval answers; returns each guard's memory."""
    before, rules = step.before, step.rules
    for other in before.approvals():
        barred = other.digest != digest(other.delivery) or bar_approver(
            before, answered.by, rules, other.delivery.to
        )
        if other.id == approval.id or barred:
            continue
        settled = rules.settle(memory, other.questions, step.moment.now)
        if settled is not None:
            memory = settled
            step.approve(other, _describe_answer(answered))
    return memory


def _describe_answer(answered: ApprovalAnswer) -> Answering:
    """Convert an answer to the detail of its record."""
    if isinstance(answered.by, NoAnswerReason):
        return NoAnswer(answered.by.name.lower())
    return ApprovalGiven(answered.by, "undone" if answered.undone else answered.answer)


def report_to_sender(step: Step, delivery: Delivery, code: Code) -> None:
    """Send an error to the sender of a message that waited, who is its thread's caller or answered it."""
    nodes = step.before.tree.nodes
    caller = nodes[delivery.thread].parent == delivery.origin
    thread = delivery.thread if caller else delivery.origin
    if thread in nodes:
        error = make_notice(make_system_error(code), thread, step.rules, caller=caller, about=delivery.to)
        step.send(error, delivery.request, delivery.hop + 1)
