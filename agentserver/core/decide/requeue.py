"""Decisions that retry a dead letter, in its thread or as a request of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from agentserver.core.decide import intake
from agentserver.core.decide.admission import judge
from agentserver.core.decide.step import Step
from agentserver.core.drafts.routing import Proposal, Route, Sender
from agentserver.core.messages import SYSTEM_NAMES, Draft
from agentserver.core.records.audit import Event
from agentserver.core.records.details import RedrivenFrom
from agentserver.core.records.wording import WORDING
from agentserver.core.state.principals import Trust
from agentserver.payload.names import local
from agentserver.wire.envelope import canonical

if TYPE_CHECKING:
    from lxml import etree

    from agentserver.core.guard import Rules
    from agentserver.core.messages import Delivery, Moment, RedrivenLetter, RequeuedLetter
    from agentserver.core.records.details import Detail, NotedDetail
    from agentserver.core.records.outcome import Outcome
    from agentserver.core.state.conversation import Conversation


REDRIVEN_HOP = 2
"""The hop of a redriven letter that a listener wrote. The first is for what the principal says."""


def lives(conversation: Conversation | None, delivery: Delivery) -> bool:
    """Return whether a dead letter can be retried on its own thread."""
    thread = None if conversation is None or conversation.closed else conversation.tree.get(delivery.thread)
    return thread is not None and thread.parent is not None


def requeue(conversation: Conversation, requeued: RequeuedLetter, rules: Rules, moment: Moment) -> Outcome:
    """Queue a delivery again on its thread, under its own id and with all its attempts.

    This reopens its request; its answer goes where the first one went. Raises LookupError when its thread is closed
    or the delivery is already waiting.
    """
    delivery = requeued.delivery
    if not lives(conversation, delivery):
        raise LookupError("its thread is closed: no listener waits for the result")
    thread = conversation.tree.nodes[delivery.thread]
    if any(waiting.id == delivery.id for waiting in thread.list_waiting()):
        raise LookupError("it waits already")
    top = thread
    while top.parent is not None and top.parent != conversation.tree.root:
        top = conversation.tree.nodes[top.parent]
    step = Step(conversation, rules, moment, requeued, delivery.request)
    if delivery.request not in conversation.requests:
        step.begin(delivery.request)
    step.records.note(
        Event.REDRIVEN,
        thread=delivery.thread,
        sender=delivery.sender,
        to=delivery.to,
        root=local(delivery.root),
        detail=RedrivenFrom(delivery.id, delivery.conversation, requeued.by),
    )
    step.requeue(delivery._replace(attempt=0), top.id if top.resting else None)
    return step.finish()


def redrive(conversation: Conversation, redriven: RedrivenLetter, rules: Rules, moment: Moment) -> Outcome:
    """Retry a dead letter as a request of the principal whose conversation it is from.

    A letter that the principal wrote as orders is judged like a new message. Any other was written by a listener
    from sources that are unknown here: guards note that they missed it, so lineage objects to every sink.

    Args:
        conversation: a new one of that principal.
        redriven: the letter and the operator.
        rules: the present ones, also for the letter.
        moment: when.

    Raises LookupError when the letter cannot or may not be a request, with the lines of the reason.
    """
    letter, principal, root = redriven.delivery, conversation.principal, conversation.tree.root
    element = _read_payload(letter, rules)
    draft = Draft(letter.to, letter.root, canonical(element).decode(), element)
    moment = moment.not_before(conversation.touched)
    is_own = _is_own(letter, conversation, rules)
    judged = (_judge_own if is_own else _judge_foreign)(conversation, letter, draft, rules, moment)
    step = Step(conversation, rules, moment, redriven, redriven.request)
    step.begin(redriven.request)
    if not is_own:
        step.memory = rules.note_missed(rules.recall(conversation))
    for note in judged.notes:
        step.records.note(Event.FLAGGED, thread=root, sender=principal, to=letter.to, detail=note)
    origin, name = RedrivenFrom(letter.id, letter.conversation, redriven.by), local(letter.root)
    step.records.note(Event.REDRIVEN, thread=root, sender=principal, to=letter.to, root=name, detail=origin)
    for one in judged.proposals:
        step.send(one, redriven.request, 1 if is_own else REDRIVEN_HOP)
    return step.finish()


class _JudgedLetter(NamedTuple):
    """Proposals of a retried letter, and the notes of guards."""

    proposals: tuple[Proposal, ...]
    notes: tuple[NotedDetail, ...]


def _is_own(letter: Delivery, conversation: Conversation, rules: Rules) -> bool:
    """Return whether the principal itself wrote a letter, with the trust of orders."""
    first = letter.hop == 1 and letter.sender == conversation.principal
    orders = conversation.rights.trust is Trust.ORDERS
    return first and orders and letter.sender not in rules.blueprint.listeners


def _judge_own(
    conversation: Conversation, letter: Delivery, draft: Draft, rules: Rules, moment: Moment
) -> _JudgedLetter:
    """Judge a letter as its principal's. Raises LookupError."""
    principal = rules.blueprint.make_principal(conversation.principal, conversation.rights.may)
    sender = Sender(principal, conversation.tree.root, None, moment.now)
    judged = judge((draft,), sender, rules, rules.recall(conversation))
    if judged.refusal is not None:
        raise _make_refusal_error(f"{letter.sender} may no longer send it", judged.refusal.detail)
    notes = [note.detail for note in judged.remarks]
    return _JudgedLetter(judged.proposals, tuple(notes))


def _judge_foreign(
    conversation: Conversation, letter: Delivery, draft: Draft, rules: Rules, moment: Moment
) -> _JudgedLetter:
    """Judge a letter whose origins are unknown. Raises LookupError."""
    principal, root = conversation.principal, conversation.tree.root
    sender = rules.blueprint.make_principal(principal)
    proposal = Proposal(sender, root, letter.to, Route.REDRIVEN, letter.root, draft.markup, draft.element)
    memory = rules.recall(conversation)
    ruling = rules.judge(rules.note_missed(memory), proposal, moment.now)
    if ruling.denied is not None:
        anyway = rules.judge(memory, proposal._replace(route=Route.PEER), moment.now).denied
        if anyway is not None:  # regardless of the author
            raise _make_refusal_error("it may not be a request of its own", anyway.detail)
        raise LookupError(
            f"it may not be a request of its own: {letter.sender} wrote it, and the sources of {letter.sender} are not"
            f" known outside its conversation, which has ended. Send the message that led to it again"
        )
    return _JudgedLetter((proposal._replace(questions=ruling.questions),), ruling.notes)


def _make_refusal_error(reason: str, detail: Detail | None) -> LookupError:
    """Make the error for a letter that the rules refuse, with the lines of the reason."""
    return LookupError(f"{reason}:", *WORDING.describe_lines(detail))


def _read_payload(letter: Delivery, rules: Rules) -> etree._Element:
    """Read the payload of a dead letter. Raises LookupError when its listener does not accept it as a request."""
    name = local(letter.root)
    if letter.sender in SYSTEM_NAMES:
        raise LookupError(f"its {name} is the system's, about work that has ended")
    if not rules.blueprint.accepts(letter.to, letter.root):
        raise LookupError(f"{letter.to} takes no {name} that it has not asked for")
    codec = rules.codecs.for_root(letter.root)
    element = None if codec is None else intake.read_own(letter, codec, rules.bounds)
    if element is None:
        raise LookupError(f"its {name} does not satisfy its present schema")
    return element
