"""A person's answer to a question about a message that waits.

Owns what becomes of the message and of its sender. Refuses to know who answered, and how long that may take.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.contract import Code
from agentserver.core.decide.commands import Permit, Remember, Send, Withdraw
from agentserver.core.decide.transaction import transact
from agentserver.core.notices import notice
from agentserver.core.records.details import Answered, Unanswered
from agentserver.core.refusals import system_error
from agentserver.core.state import principals
from agentserver.core.state.approvals import Answer, Unasked, digest

if TYPE_CHECKING:
    from agentserver.core.decide.commands import Command
    from agentserver.core.guard import Rules
    from agentserver.core.messages import Delivery, Moment
    from agentserver.core.records.details import Answering
    from agentserver.core.records.outcome import Outcome
    from agentserver.core.state.approvals import Decided
    from agentserver.core.state.conversation import Conversation


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
    if decided.answer is Answer.DENY:
        commands: list[Command] = [
            Withdraw(approval, _answered(decided)),
            *_told_withdrawn(conversation, delivery, rules),
        ]
    else:
        commands = [Permit(approval, _answered(decided))]
        if decided.answer is Answer.ALWAYS:
            commands.append(Remember(rules.permit(rules.recall(conversation), approval.questions)))
    return transact(conversation, rules, moment, decided, commands)


def _answered(decided: Decided) -> Answering:
    """The answer as it goes on record."""
    if isinstance(decided.by, Unasked):
        return Unanswered(decided.by.name.lower())
    return Answered(decided.by, "undone" if decided.undone else decided.answer)


def _told_withdrawn(conversation: Conversation, delivery: Delivery, rules: Rules) -> tuple[Send, ...]:
    """Tell the sender of a withdrawn message: as the caller of its thread, or as the one that answered it."""
    caller = conversation.tree.nodes[delivery.thread].parent == delivery.origin
    thread = delivery.thread if caller else delivery.origin
    if conversation.tree.get(thread) is None:
        return ()
    error = notice(system_error(Code.DENIED), thread, rules, caller=caller, about=delivery.to)
    return (Send(error, delivery.request, delivery.hop + 1),)
