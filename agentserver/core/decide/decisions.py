"""The decisions of a conversation: it receives messages, accepts deliveries and concludes what handlers did with them.

Owns every decision about messages: who is called, who is answered, what is refused, when a thread closes. Each gives
commands, which one transaction carries out.
Synchronous and pure: time and randomness are arguments, so a recorded decision can be taken again. Refuses to know
handlers, queues, clocks and storage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from agentserver.contract import Code, HandlerMetadata, TodoComplete, TodoUntil
from agentserver.core.decide import intake
from agentserver.core.decide.admission import Admission, admitting, judge, unheard
from agentserver.core.decide.commands import (
    Begin,
    Bury,
    Cancel,
    Close,
    Complete,
    Enter,
    Exhaust,
    Forget,
    Prune,
    Remember,
    Retry,
    Send,
    Store,
    Strike,
    Take,
    Watch,
)
from agentserver.core.decide.dismissal import dismissed, excerpted
from agentserver.core.decide.plain import plain, plain_request
from agentserver.core.decide.transaction import transact, transacting
from agentserver.core.drafts.routing import Route, Sender
from agentserver.core.messages import Closing, Draft, Drafts, Failed, Opening, TurnedAway
from agentserver.core.notices import notice
from agentserver.core.pieces import whole
from agentserver.core.records import causes
from agentserver.core.records.audit import Event
from agentserver.core.records.details import Ground, Repaired
from agentserver.core.refusals import Refusal, system_error
from agentserver.core.state.budget import Room, room
from agentserver.core.state.todos import nudge
from agentserver.payload.names import local

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lxml import etree

    from agentserver.core.decide.commands import Command
    from agentserver.core.drafts.routing import Proposal
    from agentserver.core.guard import Rules
    from agentserver.core.messages import Call, Cancelling, Delivery, Finished, GivenUp, Moment, Outside
    from agentserver.core.pieces import Pieces
    from agentserver.core.records.outcome import Outcome
    from agentserver.core.state.conversation import Conversation
    from agentserver.core.state.growing.logs import Logs
    from agentserver.core.state.threads import Thread
    from agentserver.core.state.todos import Todo
    from agentserver.payload.codec import Codec


class Accepted(NamedTuple):
    """A delivery that its listener may be called with.

    Args:
        codec: decodes the payload. Its class's constructor is the author's code, so the core does not call it.
        element: the payload as it stood on the wire, valid.
        shown: the payload as the listener is shown it: the same, or with references in place of values.
        metadata: what the handler is told.
        storage: the thread's stored values, encoded.
        logs: of the thread.
        todos: the thread's todos.
        room: what the result may hold.
        call: the call of its listener that it answers; None for a call.
    """

    delivery: Delivery
    codec: Codec
    element: etree._Element
    metadata: HandlerMetadata
    storage: Mapping[str, bytes]
    logs: Logs
    todos: tuple[Todo, ...]
    room: Room
    shown: etree._Element
    call: Call | None


def receive(
    conversation: Conversation,
    outside: Outside,
    rules: Rules,
    moment: Moment,
    read: Draft | Refusal | Admission | None = None,
) -> Outcome:
    """Admit a message of the principal, or answer it with a SystemError. Either way it is a request of its own.

    ``read`` is what ``intake`` made of it, if it was asked before, or the judgement, if it is on record.
    """
    if read is None:
        read = intake.read_outside(outside.data, outside.to, rules)
    quick = plain_request(conversation, outside, rules, moment, read) if isinstance(read, Draft) else None
    return receiving(conversation, outside, rules, moment, read) if quick is None else quick


def receiving(
    conversation: Conversation,
    outside: Outside,
    rules: Rules,
    moment: Moment,
    read: Draft | Refusal | Admission,
) -> Outcome:
    """Admit a message that was read, or answer it."""
    moment = moment.not_before(conversation.touched)
    principal, root = conversation.principal, conversation.tree.root
    sender = Sender(rules.blueprint.principal(principal, conversation.rights.may), root, None, moment.now)
    if isinstance(read, Refusal):
        read = unheard(read, sender, rules)
    judged = (
        read if isinstance(read, Admission) else judge((read,), sender, rules, rules.recall(conversation))
    )
    commands: list[Command] = [Begin(outside.request), *_remarked(judged, root, principal)]
    if judged.refusal is not None:
        cause = dismissed(outside, judged, rules.redact)
        commands += _turned_away(conversation, outside.request, judged.refusal, rules)
        return transact(conversation, rules, moment, cause, commands)
    for proposal in judged.proposals:
        about = {"thread": root, "sender": principal, "to": proposal.to, "root": local(proposal.root)}
        commands += (Enter(Event.RECEIVED, about), Send(proposal, outside.request, 1))
    return transact(conversation, rules, moment, outside, commands)


def turn_away(
    conversation: Conversation, outside: Outside, code: Code, rules: Rules, moment: Moment
) -> Outcome:
    """Answer an outside message with a SystemError without looking at it."""
    kept = excerpted(outside.data, rules.redact)
    cause = TurnedAway(kept, outside.request, outside.to, code, outside.key)
    refused = _turned_away(conversation, outside.request, Refusal(code), rules)
    return transact(conversation, rules, moment, cause, (Begin(outside.request), *refused))


def open_conversation(conversation: Conversation, rules: Rules, moment: Moment) -> Outcome:
    """Begin a conversation in which nothing has been said. Guards remember from here on."""
    return transact(conversation, rules, moment, Opening(), ())


def close(conversation: Conversation, rules: Rules, moment: Moment, reason: str) -> Outcome:
    """End the conversation: drop what is queued and close every thread."""
    return transact(conversation, rules, moment, Closing(reason), (Close(reason),))


def cancel(
    conversation: Conversation, cancelling: Cancelling, rules: Rules, moment: Moment
) -> Outcome | None:
    """Close the threads of a request with all that is under way on them; what it has changed elsewhere stays.

    A principal that has not wanted it is told ``denied``. None when the request is at rest or unknown, or nothing of it
    is left but a dead letter that an operator had tried again on a thread which another request has taken over.
    """
    request, by = cancelling
    found = conversation.requests.get(request)
    if found is None or not any(thread in conversation.tree.nodes for thread in found.threads):
        return None
    commands: list[Command] = []
    if by:
        told = notice(system_error(Code.DENIED), conversation.tree.root, rules)
        commands.append(Send(told, request, 0))
    commands.append(Cancel(request, f"by {by}" if by else "by its principal"))
    return transact(conversation, rules, moment, cancelling, commands)


def accept(
    conversation: Conversation, delivery: Delivery, rules: Rules, element: etree._Element | None = None
) -> Accepted | Failed | None:
    """Read a delivery for its listener. None when its turn is over: its thread closed meanwhile. Changes nothing.

    ``element`` is the payload as the step that made the delivery parsed and validated it; without it the
    message is read and validated afresh.
    """
    thread = conversation.working_on(delivery)
    if thread is None:
        return None
    codec = rules.codecs.named(delivery.root)
    if element is None and codec is not None:
        element = intake.read_own(delivery, codec, rules.bounds)
    if element is None or codec is None:
        return Failed(Code.INTERNAL, Ground.INVALID.of(delivery.root))
    shown = element
    if delivery.to in rules.viewers:
        presented = rules.presented(conversation, delivery, element)
        if isinstance(presented, Refusal):
            return Failed(presented.code, presented.detail)
        shown = presented
    todos: tuple[Todo, ...] = ()
    if conversation.todos.watchers:
        todos = conversation.todos.notice(delivery, thread.parent).of(thread.id)
    listener = rules.blueprint.listeners[delivery.to]
    usage = rules.blueprint.usage[listener.name]
    if thread.allowed is not None:
        usage = rules.narrowed(listener.name, thread.allowed).usage
    name = listener.name if listener.agent else None
    itself = delivery.sender == listener.name
    metadata = HandlerMetadata(thread.id, delivery.sender, name, itself, usage, nudge(todos) if todos else "")
    spare = room(rules.blueprint.limits, conversation, delivery.request)
    call = None if delivery.origin == thread.parent else delivery.call
    stored = thread.storage, thread.logs
    return Accepted(delivery, codec, element, metadata, *stored, todos, spare, shown, call)


def conclude(conversation: Conversation, finished: Finished, rules: Rules, moment: Moment) -> Outcome:
    """Decide what follows from an invocation, as ``concluding`` does, without a pause."""
    quick = plain(conversation, finished, rules, moment)
    return whole(concluding(conversation, finished, rules, moment)) if quick is None else quick


def concluding(
    conversation: Conversation, finished: Finished, rules: Rules, moment: Moment
) -> Pieces[Outcome]:
    """Decide what follows from an invocation; a few pieces for each message of its result."""
    finished = causes.finished(finished, rules.redact)
    commands = yield from _following(conversation, finished, rules, max(moment.now, conversation.touched))
    return (yield from transacting(conversation, rules, moment, finished, commands))


def give_up(conversation: Conversation, given_up: GivenUp, rules: Rules, moment: Moment) -> Outcome:
    """End the work of a delivery that could not be decided about, without another look at what came of it."""
    given_up = causes.given_up(given_up, rules.redact)
    delivery = given_up.delivery
    thread = conversation.working_on(delivery)
    if thread is None:
        return transact(conversation, rules, moment, given_up, (Enter(Event.DISCARDED, {}, delivery),))
    at = max(moment.now, conversation.touched)
    memory = rules.seen(conversation, delivery, given_up.element, at)
    if given_up.unseen:
        memory = rules.missed(memory)
    failed = Failed(Code.INTERNAL, given_up.detail)
    commands = (Remember(memory), *_gone(thread, delivery, failed, rules))
    return transact(conversation, rules, moment, given_up, commands)


def _following(
    conversation: Conversation, finished: Finished, rules: Rules, at: float
) -> Pieces[Sequence[Command]]:
    """The commands that follow from an invocation."""
    delivery, element, result, _ = finished
    thread = conversation.working_on(delivery)
    if thread is None:
        return (Enter(Event.DISCARDED, {}, delivery),)
    listener = rules.blueprint.listeners.get(delivery.to)
    if isinstance(result, Failed) or listener is None:  # the conversation may be older than the organism
        gone = Failed(Code.INTERNAL, Ground.GONE.of(delivery.to))
        failed = result if isinstance(result, Failed) else gone
        again = listener is not None and delivery.attempt < listener.retries and failed.code != Code.BUDGET
        if again and delivery.attempt:  # what was read is known from the first attempt on
            return (Retry(delivery, failed),)
        seen = Remember(rules.seen(conversation, delivery, element, at))
        return (seen, Retry(delivery, failed)) if again else (seen, *_gone(thread, delivery, failed, rules))
    said, effects = result
    memory = rules.seen(conversation, delivery, element, at)
    judged = yield from admitting(conversation, finished, rules, memory, at)
    deprecated = isinstance(said, Drafts) and said.deprecated
    commands: list[Command] = [Take(delivery, deprecated), Remember(judged.memory or memory)]
    if judged.over is not None:
        return (*commands, Exhaust(delivery.request, judged.over))
    if effects.closed:
        commands += [Forget(thread.id, watcher) for watcher in effects.closed]
    if effects.stored or effects.logged:
        commands.append(Store(thread.id, effects.stored, effects.logged))
    if isinstance(said, Drafts) and said.repairs:
        commands += [Enter(Event.REPAIRED, {"detail": Repaired(repair)}, delivery) for repair in said.repairs]
    if judged.remarks:
        commands += _remarked(judged, thread.id, delivery.to)
    if judged.refusal is not None:
        return commands + _refused(thread, delivery, judged.refusal, rules)
    return commands + _sent(thread, delivery, judged.proposals, rules)


def _remarked(judged: Admission, thread: str, sender: str) -> list[Enter]:
    return [
        Enter(event, {"thread": thread, "sender": sender, "to": to, "detail": detail})
        for event, to, detail in judged.remarks
    ]


def _sent(thread: Thread, delivery: Delivery, proposals: Sequence[Proposal], rules: Rules) -> list[Command]:
    """Send every proposal; it ends a row of refusals. An answer first ends the sub-tasks that were under way."""
    commands: list[Command] = [Strike(thread.id, 0)] if thread.refusals else []
    if Route.ANSWER in [proposal.route for proposal in proposals]:
        commands.append(Prune(thread.id))
    for proposal in proposals:
        if proposal.route is Route.SERVICE:
            commands.append(_served(delivery, proposal, rules))
            continue
        commands.append(Send(proposal, delivery.request, delivery.hop + 1))
    return commands


def _served(delivery: Delivery, proposal: Proposal, rules: Rules) -> Watch | Complete:
    """Read a message to ``system.todo``. The service reads nothing but what the todo schemas accept."""
    codec = rules.codecs.named(proposal.root)
    assert codec is not None
    asked = codec.decode(proposal.element)
    if isinstance(asked, TodoUntil):
        return Watch(delivery, asked, proposal.place)
    assert isinstance(asked, TodoComplete)
    return Complete(delivery, asked.watcher_id, proposal.place)


def _refused(thread: Thread, delivery: Delivery, refusal: Refusal, rules: Rules) -> list[Command]:
    """Tell the sender that its messages were not admitted; one that will not learn is given up."""
    limit = rules.blueprint.limits.refusals
    count = thread.refusals + 1
    about = {
        "thread": thread.id,
        "sender": delivery.to,
        "to": refusal.to,
        "hop": delivery.hop,
        "code": refusal.code,
        "detail": refusal.detail,
        "delivery": delivery.id,
    }
    commands: list[Command] = [Strike(thread.id, count), Enter(Event.REFUSED, about)]
    if count > limit:
        return commands + _gone(thread, delivery, Failed(Code.INTERNAL, Ground.REFUSALS.of(count)), rules)
    error = system_error(refusal.code, refusal.corrections, final=count == limit)
    told = notice(error, thread.id, rules)._replace(place=refusal.place)
    return [*commands, Send(told, delivery.request, delivery.hop + 1)]


def _gone(thread: Thread, delivery: Delivery, failed: Failed, rules: Rules) -> list[Command]:
    """End the work of a thread with a SystemError to its caller."""
    error = notice(system_error(failed.code), thread.id, rules, caller=True, about=delivery.to)
    sent = Send(error, delivery.request, delivery.hop + 1)
    return [Bury(delivery, failed), Strike(thread.id, 0), Prune(thread.id), sent]


def _turned_away(
    conversation: Conversation, request: str, refusal: Refusal, rules: Rules
) -> tuple[Enter, Send]:
    root = conversation.tree.root
    about = {
        "thread": root,
        "sender": conversation.principal,
        "to": refusal.to,
        "code": refusal.code,
        "detail": refusal.detail,
    }
    error = notice(system_error(refusal.code, refusal.corrections), root, rules)
    return Enter(Event.REFUSED, about), Send(error, request, 0)
