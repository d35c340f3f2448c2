"""The decisions of a conversation: it receives messages, accepts deliveries and concludes what handlers did with them.

Owns every decision about messages: who is called, who is answered, what is refused, when a thread closes.
Synchronous and pure: time and randomness are arguments, so a recorded decision can be taken again. Refuses to know
handlers, queues, clocks and storage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from agentserver.contract import (
    Code,
    HandlerMetadata,
    SystemError,
    TodoClosed,
    TodoComplete,
    TodoRegistered,
    TodoUntil,
)
from agentserver.core import causes, intake
from agentserver.core.admission import Judged, judge, judging, unheard
from agentserver.core.approvals import WAITING
from agentserver.core.audit import Event
from agentserver.core.budget import Room, overrun, room
from agentserver.core.canonical import canonical
from agentserver.core.details import Ended, Ground, GuardAsks, GuardQuestions, Repaired
from agentserver.core.dismissal import dismissed, excerpted
from agentserver.core.messages import TODO, Closing, Failed, TurnedAway
from agentserver.core.minutes import local
from agentserver.core.notices import notice
from agentserver.core.payload.codec import of_system
from agentserver.core.pieces import whole
from agentserver.core.plain import plain
from agentserver.core.refusals import Refusal, system_error
from agentserver.core.routing import Place, Route
from agentserver.core.step import Step
from agentserver.core.todos import nudge

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lxml import etree

    from agentserver.core.conversation import Conversation
    from agentserver.core.guard import Rules
    from agentserver.core.messages import Delivery, Draft, Drafts, Effects, Finished, GivenUp, Moment, Outside
    from agentserver.core.outcome import Outcome
    from agentserver.core.payload.codec import Codec
    from agentserver.core.pieces import Pieces
    from agentserver.core.routing import Proposal
    from agentserver.core.todos import Watcher


class Accepted(NamedTuple):
    """A delivery that its listener may be called with.

    Args:
        codec: decodes the payload. Its class's constructor is the author's code, so the core does not call it.
        element: the payload as it stood on the wire, valid.
        metadata: what the handler is told.
        storage: the thread's stored values, encoded.
        todos: the thread's todos.
        room: what the result may hold.
    """

    delivery: Delivery
    codec: Codec
    element: etree._Element
    metadata: HandlerMetadata
    storage: Mapping[str, bytes]
    todos: tuple[Watcher, ...]
    room: Room


def receive(
    conversation: Conversation,
    outside: Outside,
    rules: Rules,
    moment: Moment,
    read: Draft | Refusal | Judged | None = None,
) -> Outcome:
    """Admit a message of the principal, or answer it with a SystemError. Either way it is a request of its own.

    ``read`` is what ``intake`` made of it, if it was asked before, or the judgement, if it is on record.
    """
    step = Step(conversation, rules, moment)
    step.cause = outside
    request = outside.request
    step.requests.begin(request)
    if read is None:
        read = intake.read_outside(outside.data, outside.to, rules)
    place = Place(
        rules.blueprint.principal(conversation.principal), conversation.tree.root, None, step.moment.now
    )
    if isinstance(read, Refusal):
        read = unheard(read, place, rules)
    judged = read if isinstance(read, Judged) else judge((read,), place, rules, step.memory)
    _remark(step, judged, conversation.tree.root, conversation.principal)
    if judged.refusal is not None:
        step.cause = dismissed(outside, judged, rules.redact)
        return _turn_away(step, request, judged.refusal)
    for proposal in judged.proposals:
        step.minutes.note(
            Event.RECEIVED,
            thread=conversation.tree.root,
            sender=conversation.principal,
            to=proposal.to,
            root=local(proposal.root),
        )
        step.send(proposal, request, 1)
    return step.finish()


def turn_away(
    conversation: Conversation, outside: Outside, code: Code, rules: Rules, moment: Moment
) -> Outcome:
    """Answer an outside message with a SystemError without looking at it."""
    step = Step(conversation, rules, moment)
    kept = excerpted(outside.data, rules.redact)
    step.cause = TurnedAway(kept, outside.request, outside.to, code, outside.key)
    step.requests.begin(outside.request)
    return _turn_away(step, outside.request, Refusal(code))


def close(conversation: Conversation, rules: Rules, moment: Moment, reason: str) -> Outcome:
    """End the conversation: drop what is queued and close every thread."""
    step = Step(conversation, rules, moment)
    step.cause = Closing(reason)
    step.end()
    step.minutes.note(
        Event.CLOSED, thread=conversation.tree.root, to=conversation.principal, detail=Ended(reason)
    )
    return step.finish(closed=True)


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
    todos = conversation.todos.notice(delivery).of(thread.id) if conversation.todos.watchers else ()
    listener = rules.blueprint.listeners[delivery.to]
    usage = rules.blueprint.usage[listener.name]
    if thread.allowed is not None:
        usage = rules.narrowed(listener.name, thread.allowed).usage
    name = listener.name if listener.agent else None
    itself = delivery.sender == listener.name
    metadata = HandlerMetadata(thread.id, delivery.sender, name, itself, usage, nudge(todos))
    spare = room(rules.blueprint.limits, conversation, delivery.request)
    return Accepted(delivery, codec, element, metadata, thread.storage, todos, spare)


def conclude(conversation: Conversation, finished: Finished, rules: Rules, moment: Moment) -> Outcome:
    """Decide what follows from an invocation, as ``concluding`` does, without a pause."""
    quick = plain(conversation, finished, rules, moment)
    return whole(concluding(conversation, finished, rules, moment)) if quick is None else quick


def concluding(
    conversation: Conversation, finished: Finished, rules: Rules, moment: Moment
) -> Pieces[Outcome]:
    """Decide what follows from an invocation; a few pieces for each message of its result."""
    step = Step(conversation, rules, moment)
    step.cause = finished = causes.finished(finished, rules.redact)
    delivery, result = finished.delivery, finished.result
    thread = conversation.working_on(delivery)
    if thread is None:
        step.minutes.record(Event.DISCARDED, delivery)
        return step.finish()
    listener = rules.blueprint.listeners.get(delivery.to)
    if isinstance(result, Failed) or listener is None:  # the conversation may be older than the organism
        gone = Failed(Code.INTERNAL, Ground.GONE.of(delivery.to))
        retries = 0 if listener is None else listener.retries
        failed = result if isinstance(result, Failed) else gone
        if delivery.attempt < retries:
            return _again(step, finished, failed)
        step.take(delivery)
        _observe(step, finished)
        return _give_up(step, delivery, failed)
    step.take(delivery)
    step.minutes.record(Event.HANDLED, delivery)
    step.todos = step.todos.notice(delivery)
    _observe(step, finished)
    over = overrun(result.said, step.left(delivery.request))
    if over:
        step.exhaust(delivery.request, over)
        return step.finish()
    _apply(step, delivery.thread, result.effects)
    judged = yield from _judged(step, finished, result.said)
    _remark(step, judged, delivery.thread, delivery.to)
    if judged.refusal is not None:
        return _refuse(step, delivery, judged.refusal)
    return (yield from _send(step, delivery, judged.proposals))


def give_up(conversation: Conversation, given_up: GivenUp, rules: Rules, moment: Moment) -> Outcome:
    """End the work of a delivery that could not be decided about, without another look at what came of it."""
    step = Step(conversation, rules, moment)
    step.cause = given_up = causes.given_up(given_up, rules.redact)
    delivery = given_up.delivery
    if conversation.working_on(delivery) is None:
        step.minutes.record(Event.DISCARDED, delivery)
        return step.finish()
    step.take(delivery)
    _observe(step, given_up)
    if given_up.unseen:
        step.memory = rules.missed(step.memory)
    return _give_up(step, delivery, Failed(Code.INTERNAL, given_up.detail))


def _judged(step: Step, finished: Finished, said: Drafts | Refusal) -> Pieces[Judged]:
    """Admit the messages of a result: all of them, or none with the reason."""
    delivery = finished.delivery
    thread = step.tree.nodes[delivery.thread]
    caller = step.tree.caller(thread)
    listener = step.rules.blueprint.listeners[delivery.to]
    if thread.allowed is not None:
        listener = step.rules.narrowed(listener.name, thread.allowed).listener
    given = _given(step, finished)
    place = Place(listener, thread.id, caller.owner, step.moment.now, given)
    if isinstance(said, Refusal):
        return unheard(said, place, step.rules)
    step.deprecated = said.deprecated
    for repair in said.repairs:
        step.minutes.record(Event.REPAIRED, delivery, detail=Repaired(repair))
    judged = yield from judging(said.drafts, place, step.rules, step.memory, len(step.todos.of(thread.id)))
    unasked = {Route.SERVICE, Route.ANSWER} if caller.parent is None else {Route.SERVICE}
    for proposal in judged.proposals:
        if proposal.questions and proposal.route in unasked:  # there is no thread on which it could wait
            question = proposal.questions[0]
            asks = GuardQuestions((GuardAsks(question.guard, question.why),), waits=False)
            return judged._replace(proposals=(), refusal=Refusal(Code.DENIED, asks, proposal.to))
    asked = [proposal for proposal in judged.proposals if proposal.questions]
    if asked and len(asked) + len(step.before.approvals()) > WAITING:
        full = Ground.WAITING.of(WAITING)
        return judged._replace(proposals=(), refusal=Refusal(Code.DENIED, full, asked[0].to))
    return judged


def _given(step: Step, finished: Finished) -> bytes | None:
    """The SystemError that a listener was called with, in canonical form."""
    element = finished.element
    if element is None or finished.delivery.root != step.rules.codecs.of(SystemError).name:
        return None
    return canonical(element)


def _remark(step: Step, judged: Judged, thread: str, sender: str) -> None:
    for event, to, detail in judged.remarks:
        step.minutes.note(event, thread=thread, sender=sender, to=to, detail=detail)


def _apply(step: Step, thread: str, effects: Effects) -> None:
    for watcher in effects.closed:
        step.close_todo(thread, watcher)
    if effects.stored:
        node = step.tree.nodes[thread]
        merged = {**node.storage, **effects.stored}
        kept = {name: value for name, value in merged.items() if value is not None}
        step.change.put(node._replace(storage=kept))


def _send(step: Step, delivery: Delivery, proposals: tuple[Proposal, ...]) -> Pieces[Outcome]:
    """Admit every proposal. An answer first ends the sub-tasks that were under way."""
    thread = step.tree.nodes[delivery.thread]
    _forgive(step, delivery.thread)
    if any(proposal.route is Route.ANSWER for proposal in proposals):
        step.prune(thread.id)
    for proposal in proposals:
        if proposal.route is Route.SERVICE:
            _serve(step, proposal, delivery)
        else:
            # Nothing else of the system's is ever admitted as an answer than a SystemError that is passed on.
            passed_on = proposal.route is Route.ANSWER and of_system(proposal.root)
            sent = proposal._replace(about=delivery.to) if passed_on else proposal
            step.send(sent, delivery.request, delivery.hop + 1)
        yield
    return step.finish()


def _serve(step: Step, proposal: Proposal, delivery: Delivery) -> None:
    """Answer a message to ``system.todo``. The service reads nothing but what the todo schemas accept."""
    codecs = step.rules.codecs
    codec = codecs.named(proposal.root)
    assert codec is not None
    asked = codec.decode(proposal.element)
    answer: TodoRegistered | TodoClosed
    if isinstance(asked, TodoUntil):
        watcher = next(step.ids)
        step.todos = step.todos.watch(delivery.thread, asked, watcher)
        answer = TodoRegistered(watcher)
    else:
        assert isinstance(asked, TodoComplete)
        answer = TodoClosed(asked.watcher_id, step.close_todo(delivery.thread, asked.watcher_id))
    reply = notice(answer, delivery.thread, step.rules, sender=TODO)
    step.send(reply, delivery.request, delivery.hop + 1)


def _refuse(step: Step, delivery: Delivery, refusal: Refusal) -> Outcome:
    """Tell the sender that its messages were not admitted; one that will not learn is given up."""
    limit = step.rules.blueprint.limits.refusals
    thread = step.tree.nodes[delivery.thread]
    count = thread.refusals + 1
    step.change.put(thread._replace(refusals=count))
    step.minutes.note(
        Event.REFUSED,
        thread=thread.id,
        sender=delivery.to,
        to=refusal.to,
        hop=delivery.hop,
        code=refusal.code,
        detail=refusal.detail,
        delivery=delivery.id,
    )
    if count > limit:
        return _give_up(step, delivery, Failed(Code.INTERNAL, Ground.REFUSALS.of(count)))
    error = system_error(refusal.code, refusal.corrections, final=count == limit)
    step.send(notice(error, thread.id, step.rules), delivery.request, delivery.hop + 1)
    return step.finish()


def _forgive(step: Step, thread_id: str) -> None:
    """End a row of refusals: the next one counts from the start."""
    thread = step.tree.nodes[thread_id]
    if thread.refusals:
        step.change.put(thread._replace(refusals=0))


def _observe(step: Step, finished: Finished | GivenUp) -> None:
    """Let the guards see what a listener was given. One that failed has read it all the same."""
    if finished.element is not None:
        step.memory = step.rules.observe(step.memory, finished.delivery, finished.element, step.moment.now)


def _again(step: Step, finished: Finished, failed: Failed) -> Outcome:
    """Let a crash or a missed deadline be tried again. What was read is known from the first attempt on."""
    delivery = finished.delivery
    if not delivery.attempt:
        _observe(step, finished)
    step.again(delivery)
    step.minutes.record(Event.RETRIED, delivery, code=failed.code, detail=failed.detail)
    return step.finish()


def _give_up(step: Step, delivery: Delivery, failed: Failed) -> Outcome:
    """End the work of a thread with a SystemError to its caller."""
    step.minutes.record(Event.FAILED, delivery, code=failed.code, detail=failed.detail)
    _forgive(step, delivery.thread)
    step.prune(delivery.thread)
    told = system_error(failed.code)
    error = notice(told, delivery.thread, step.rules, caller=True, about=delivery.to)
    step.send(error, delivery.request, delivery.hop + 1)
    return step.finish()


def _turn_away(step: Step, request: str, refusal: Refusal) -> Outcome:
    root = step.before.tree.root
    step.minutes.note(
        Event.REFUSED,
        thread=root,
        sender=step.before.principal,
        to=refusal.to,
        code=refusal.code,
        detail=refusal.detail,
    )
    step.send(notice(system_error(refusal.code, refusal.corrections), root, step.rules), request, 0)
    return step.finish()
