"""Decisions about delayed messages whose time has come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.contract import Code, Target
from agentserver.core.decide import intake
from agentserver.core.decide.answers import report_to_sender
from agentserver.core.decide.step import Step
from agentserver.core.drafts.routing import Sender, resolve
from agentserver.core.guard import Denial
from agentserver.core.messages import Draft
from agentserver.core.records.audit import Event
from agentserver.core.records.details import Ground
from agentserver.wire.envelope import canonical

if TYPE_CHECKING:
    from agentserver.core.drafts.routing import Proposal
    from agentserver.core.guard import GuardRuling, Rules
    from agentserver.core.messages import Delivery, DueDelivery, Moment
    from agentserver.core.records.outcome import Outcome
    from agentserver.core.state.conversation import Conversation


def wake(conversation: Conversation, due: DueDelivery, rules: Rules, moment: Moment) -> Outcome | None:
    """Deliver a delayed message if the rules still admit it, or answer its sender.

    Returns: None when the message no longer waits.
    """
    timer = next((one for one in conversation.timers if one.delivery == due.delivery), None)
    if timer is None:
        return None
    delivery = conversation.tree.nodes[timer.thread].delayed[timer.place].delivery
    step = Step(conversation, rules, moment, due, delivery.request)
    if delivery.origin == delivery.thread:  # a timer of the thread itself
        step.wake(delivery)
        return step.finish()
    proposal = _propose(conversation, delivery, rules, step.moment.now)
    if proposal is None:
        _refuse(step, delivery, Denial(Code.ROUTING, Ground.NO_TAKER.of(delivery.root)))
        return step.finish()
    memory = rules.recall(conversation)
    ruling = rules.judge(memory, proposal, step.moment.now)
    for note in ruling.notes:
        thread, sender = delivery.origin, delivery.sender
        step.records.note(Event.FLAGGED, thread=thread, sender=sender, to=delivery.to, detail=note)
    if ruling.denied is not None:
        _refuse(step, delivery, ruling.denied)
        return step.finish()
    _count(step, proposal, ruling)
    step.wake(delivery, ruling.questions)
    return step.finish()


def _propose(conversation: Conversation, delivery: Delivery, rules: Rules, at: float) -> Proposal | None:
    """Resolve a delayed message again; None if its sender or its receiver is gone or its payload is no longer valid."""
    nodes = conversation.tree.nodes
    origin = nodes.get(delivery.origin)
    codec = rules.codecs.for_root(delivery.root)
    if origin is None or codec is None or origin.owner not in rules.blueprint.listeners:
        return None
    element = intake.read_own(delivery, codec, rules.bounds)
    if element is None:
        return None
    listener = rules.blueprint.listeners[origin.owner]
    if origin.allowed is not None:
        listener = rules.narrowed(listener.name, origin.allowed).listener
    answers = origin.parent == delivery.thread
    to = Target.CALLER if answers else delivery.to
    sender = Sender(listener, origin.id, nodes[origin.parent or ""].owner, at)
    draft = Draft(to, delivery.root, canonical(element).decode(), element)
    return next(iter(resolve(draft, sender, rules.blueprint)), None)


def _count(step: Step, proposal: Proposal, ruling: GuardRuling) -> None:
    """Let guards count a message that they have said something about."""
    rules = step.rules
    if rules.counting and (ruling.notes or ruling.questions):
        sent = (proposal._replace(questions=ruling.questions),)
        step.memory = rules.count_sent(rules.recall(step.before), sent, step.moment.now)


def _refuse(step: Step, delivery: Delivery, denied: Denial) -> None:
    """Drop a delayed message that the rules no longer admit, and report that to its sender."""
    step.records.note(
        Event.REFUSED,
        thread=delivery.origin,
        sender=delivery.sender,
        to=delivery.to,
        hop=delivery.hop,
        code=denied.code,
        detail=denied.detail,
        delivery=delivery.id,
    )
    before = step.rules.recall(step.before)
    counted = step.rules.count_refused(before, denied.detail, delivery.sender, delivery.origin)
    if counted is not None:
        step.memory = counted
    step.drop_delayed(delivery)
    report_to_sender(step, delivery, denied.code)
