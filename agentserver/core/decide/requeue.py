"""A dead letter on its way again.

Owns when that is possible, and as what: where it was while its thread lives, because only then a caller waits for what
comes of it, else as a new request of its principal. Refuses to know where dead letters are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.core.decide import intake
from agentserver.core.decide.commands import Begin, Enter, Remember, Requeue, Send
from agentserver.core.decide.transaction import transact
from agentserver.core.drafts.routing import Proposal, Route
from agentserver.core.messages import SYSTEM, TODO, Requeued
from agentserver.core.records.audit import Event
from agentserver.core.records.details import RedrivenFrom
from agentserver.core.records.wording import WORDING
from agentserver.payload.names import local
from agentserver.wire.canonical import canonical

if TYPE_CHECKING:
    from lxml import etree

    from agentserver.core.decide.commands import Command
    from agentserver.core.guard import Rules
    from agentserver.core.messages import Delivery, Moment, Redriven
    from agentserver.core.records.outcome import Outcome
    from agentserver.core.state.conversation import Conversation


REDRIVEN_HOP = 2
"""The hop of a redriven letter. The first is for what the principal says."""


def lives(conversation: Conversation | None, delivery: Delivery) -> bool:
    """True when a dead letter can be tried again where it was."""
    thread = None if conversation is None or conversation.closed else conversation.tree.get(delivery.thread)
    return thread is not None and thread.parent is not None


def requeue(conversation: Conversation, delivery: Delivery, rules: Rules, moment: Moment) -> Outcome:
    """Queue a delivery once more on its thread, under its own id and with all its attempts before it.

    The request it belongs to is open again; its answer goes where the first one went. Raises LookupError when its
    thread is closed or the delivery waits already.
    """
    if not lives(conversation, delivery):
        raise LookupError("its thread is closed: nobody waits for what would come of it")
    thread = conversation.tree.nodes[delivery.thread]
    if any(waiting.id == delivery.id for waiting in thread.waiting()):
        raise LookupError("it waits already")
    top = thread
    while top.parent is not None and top.parent != conversation.tree.root:
        top = conversation.tree.nodes[top.parent]
    again = Requeue(delivery._replace(attempt=0), top.id if top.resting else None)
    begin = () if delivery.request in conversation.requests else (Begin(delivery.request),)
    return transact(conversation, rules, moment, Requeued(delivery), (*begin, again))


def redrive(conversation: Conversation, redriven: Redriven, rules: Rules, moment: Moment) -> Outcome:
    """Give a dead letter to its listener once more, as a request of the principal whose conversation it is from.

    Its words are not taken for the principal's: a listener may have written them, out of what strangers said, and
    nothing of that is known here. Guards are told that they missed it, so that lineage objects to every sink.

    Args:
        conversation: a new one of that principal.
        redriven: the letter, and who wants it.
        rules: what to decide by, for the letter as well: those it was admitted under may be others.
        moment: when.

    Raises LookupError when the letter cannot be a request, or may not be one.
    """
    letter, principal, root = redriven.delivery, conversation.principal, conversation.tree.root
    element = _payload(letter, rules)
    markup = canonical(element).decode()
    moment = moment.not_before(conversation.touched)
    memory = rules.missed(rules.recall(conversation))
    sender = rules.blueprint.principal(principal)
    proposal = Proposal(sender, root, letter.to, Route.REDRIVEN, letter.root, markup, element)
    ruling = rules.ruling(memory, proposal, moment.now)
    if ruling.denied is not None:
        raise LookupError(f"it may not be a request of its own: {WORDING.whole(ruling.denied.detail)}")
    about = {"thread": root, "sender": principal, "to": letter.to}
    told = RedrivenFrom(letter.id, letter.conversation, redriven.by)
    commands: list[Command] = [
        Begin(redriven.request),
        Remember(memory),
        *(Enter(Event.FLAGGED, {**about, "detail": note}) for note in ruling.notes),
        Enter(Event.REDRIVEN, {**about, "root": local(letter.root), "detail": told}),
        Send(proposal._replace(questions=ruling.questions), redriven.request, REDRIVEN_HOP),
    ]
    return transact(conversation, rules, moment, redriven, commands)


def _payload(letter: Delivery, rules: Rules) -> etree._Element:
    """The payload of a dead letter. Raises LookupError when its listener takes no such thing unasked."""
    name = local(letter.root)
    if letter.sender in {SYSTEM, TODO}:
        raise LookupError(f"its {name} is the system's, about something that is over")
    if not rules.blueprint.accepts(letter.to, letter.root):
        raise LookupError(f"{letter.to} takes no {name} that it has not asked for")
    codec = rules.codecs.named(letter.root)
    element = None if codec is None else intake.read_own(letter, codec, rules.bounds)
    if element is None:
        raise LookupError(f"its {name} does not satisfy its present schema")
    return element
