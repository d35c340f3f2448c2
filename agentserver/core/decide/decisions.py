"""Decisions of a conversation: receive a message, accept a delivery, conclude an invocation, cancel, close.

Each reads a conversation, admits messages, and changes the next one in a ``Step``. Time and randomness are arguments,
so that a recorded decision can be repeated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from agentserver.contract import CancelTimer, Code, HandlerMetadata, SetTimer, TodoComplete, TodoUntil
from agentserver.core.decide import dismissal, intake
from agentserver.core.decide.admission import Admission, admit_result, judge, reject_unread
from agentserver.core.decide.dismissal import dismiss, make_excerpt
from agentserver.core.decide.step import Step
from agentserver.core.drafts.replies import make_notice
from agentserver.core.drafts.routing import Route, Sender
from agentserver.core.messages import (
    NO_EFFECTS,
    ConversationClosing,
    ConversationOpening,
    Drafts,
    HandlerFailure,
    HandlerReturn,
    RejectedMessage,
)
from agentserver.core.pieces import run_pieces
from agentserver.core.records.audit import Event
from agentserver.core.records.details import Ground, Grounds, RepairNote
from agentserver.core.refusals import Refusal, make_system_error
from agentserver.core.state.todos import nudge
from agentserver.payload.names import local

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lxml import etree

    from agentserver.core.blueprint import Limits, Listener
    from agentserver.core.drafts.routing import Proposal
    from agentserver.core.guard import Rules
    from agentserver.core.messages import (
        AbandonedDelivery,
        Call,
        Cancellation,
        Delivery,
        Draft,
        FinishedInvocation,
        Moment,
        OutsideMessage,
    )
    from agentserver.core.pieces import Pieces
    from agentserver.core.records.outcome import Outcome
    from agentserver.core.state.conversation import Conversation
    from agentserver.core.state.logs import Logs
    from agentserver.core.state.requests import ResultLimits
    from agentserver.core.state.threads import Thread
    from agentserver.core.state.todos import Todo
    from agentserver.notes import MessageLineage
    from agentserver.payload.codec import Codec


_new = tuple.__new__
"""Makes a wide tuple without the call of Python that its class would make; tests/test_tuples.py counts the fields."""


class AcceptedDelivery(NamedTuple):
    """Delivery that is ready for its listener.

    Args:
        codec: decodes the payload. Its class's constructor is the author's code, so the core does not call it.
        element: the payload as received, valid.
        shown: the payload that the listener gets: the same, or with references in place of values.
        metadata: passed to the handler.
        storage: the thread's stored values, encoded.
        logs: of the thread.
        todos: the thread's todos.
        conversation: as of the delivery.
        limits: those in force.
        call: the call that it answers; None when it is itself a call.
        lineage: the origin of the message, for a listener that keeps notes; None for any other.
    """

    delivery: Delivery
    codec: Codec
    element: etree._Element
    metadata: HandlerMetadata
    storage: Mapping[str, bytes]
    logs: Logs
    todos: tuple[Todo, ...]
    conversation: Conversation
    limits: Limits
    shown: etree._Element
    call: Call | None
    lineage: MessageLineage | None

    @property
    def room(self) -> ResultLimits:
        """The permitted size of the result."""
        return self.conversation.room(self.limits, self.delivery.request)


def receive(
    conversation: Conversation,
    outside: OutsideMessage,
    rules: Rules,
    moment: Moment,
    read: Draft | Refusal | Admission | None = None,
) -> Outcome:
    """Admit a message of the principal or answer it with a SystemError; either way it opens a request.

    ``read`` is the result of ``intake``, if known already, or a recorded judgement.
    """
    if read is None:
        read = intake.read_outside(outside.data, outside.to, rules)
    at = max(moment.now, conversation.touched)
    principal, root = conversation.principal, conversation.tree.root
    if isinstance(read, Admission):
        judged = read
    else:
        speaker = rules.speaker(principal, conversation.rights.may)
        sender = _new(Sender, (speaker, root, None, at, None))
        if isinstance(read, Refusal):
            judged = reject_unread(read, sender, rules)
        else:
            judged = judge((read,), sender, rules, rules.recall(conversation))
    cause = outside if judged.refusal is None else dismiss(outside, judged, rules.redact)
    step = Step(conversation, rules, moment, cause, outside.request)
    step.begin(outside.request)
    if judged.remarks:
        _record_remark(step, judged, root, principal)
    if judged.refusal is not None:
        _turn_away(step, outside.request, judged.refusal)
    for proposal in judged.proposals:
        name = local(proposal.root)
        step.records.note(Event.RECEIVED, thread=root, sender=principal, to=proposal.to, root=name)
        step.send(proposal, outside.request, 1)
    return step.finish()


def turn_away(
    conversation: Conversation, outside: OutsideMessage, code: Code, rules: Rules, moment: Moment
) -> Outcome:
    """Answer an outside message with a SystemError without looking at it."""
    excerpt = make_excerpt(outside.data, rules.redact)
    cause = RejectedMessage(excerpt, outside.request, outside.to, code, outside.key)
    step = Step(conversation, rules, moment, cause, outside.request)
    step.begin(outside.request)
    _turn_away(step, outside.request, Refusal(code))
    return step.finish()


def open_conversation(conversation: Conversation, rules: Rules, moment: Moment) -> Outcome:
    """Begin a conversation before its first message. Guards remember from here on."""
    return Step(conversation, rules, moment, ConversationOpening()).finish()


def close(conversation: Conversation, rules: Rules, moment: Moment, reason: str) -> Outcome:
    """End the conversation: drop queued messages and close every thread."""
    step = Step(conversation, rules, moment, ConversationClosing(reason))
    step.close(reason)
    return step.finish()


def cancel(
    conversation: Conversation, cancelling: Cancellation, rules: Rules, moment: Moment
) -> Outcome | None:
    """Close the threads of a request and drop their deliveries; its effects on other threads stay.

    When an operator cancels, the principal gets ``denied``. None when the request has ended or is unknown, or when
    all its threads now belong to other requests.
    """
    request, by = cancelling
    found = conversation.requests.get(request)
    if found is None or not any(thread in conversation.tree.nodes for thread in found.threads):
        return None
    step = Step(conversation, rules, moment, cancelling, request)
    if by:
        step.send(make_notice(make_system_error(Code.DENIED), conversation.tree.root, rules), request, 0)
    step.cancel(request, f"by {by}" if by else "by its principal")
    return step.finish()


def accept(
    conversation: Conversation, delivery: Delivery, rules: Rules, element: etree._Element | None = None
) -> AcceptedDelivery | HandlerFailure | None:
    """Read a delivery for its listener; None when its thread has closed. Changes nothing.

    ``element`` is the validated payload from the step that made the delivery; without it the message is parsed and
    validated again.
    """
    thread = conversation.working_on(delivery)
    if thread is None:
        return None
    if delivery.to in (conversation.rights.dry or ()):
        return HandlerFailure(Code.DENIED, Ground.DRY.of(delivery.to))
    codec = rules.codecs.for_root(delivery.root)
    if element is None and codec is not None:
        element = intake.read_own(delivery, codec, rules.bounds)
    if element is None or codec is None:
        return HandlerFailure(Code.INTERNAL, Ground.INVALID.of(delivery.root))
    own_name, usage, views, keeps = rules.receptions[delivery.to]
    shown = rules.present(conversation, delivery, element) if views else element
    if isinstance(shown, Refusal):
        return HandlerFailure(shown.code, shown.detail)
    todos: tuple[Todo, ...] = ()
    if conversation.todos.watchers:
        todos = conversation.todos.count_notice(delivery, thread.parent).list_watchers(thread.id)
    if thread.allowed is not None:
        usage = rules.narrowed(delivery.to, thread.allowed).usage
    sender, reminder = delivery.sender, nudge(todos) if todos else ""
    metadata = HandlerMetadata(thread.id, sender, own_name, sender == delivery.to, usage, reminder)
    call = None if delivery.origin == thread.parent else delivery.call
    lineage = rules.describe_lineage(conversation, delivery, element) if keeps else None
    held, limits, kept, logs = conversation, rules.blueprint.limits, thread.storage, thread.logs
    return _new(
        AcceptedDelivery,
        (delivery, codec, element, metadata, kept, logs, todos, held, limits, shown, call, lineage),
    )


def conclude(
    conversation: Conversation, finished: FinishedInvocation, rules: Rules, moment: Moment
) -> Outcome:
    """Decide on the result of an invocation, as ``conclude_in_pieces`` does, without a pause."""
    return run_pieces(conclude_in_pieces(conversation, finished, rules, moment))


def conclude_in_pieces(
    conversation: Conversation, finished: FinishedInvocation, rules: Rules, moment: Moment
) -> Pieces[Outcome]:
    """Decide on the result of an invocation; two pieces per message except the last."""
    delivery, element, result, took = finished
    if isinstance(result, HandlerFailure) or isinstance(result.result, Refusal):
        finished = dismissal.redact_invocation(finished, rules.redact)
        result = finished.result
    failed = result if isinstance(result, HandlerFailure) else None
    step = Step(conversation, rules, moment, finished, delivery.request, delivery, took)
    thread = conversation.working_on(delivery)
    if thread is None:
        step.records.record(Event.DISCARDED, delivery)
        return step.finish()
    listener = rules.blueprint.listeners.get(delivery.to)
    if listener is None or failed is not None:
        _fail(step, finished, thread, failed, listener)
        return step.finish()
    at = step.moment.now
    memory = rules.note_seen(conversation, delivery, element, at)
    judged = admit_result(conversation, thread, finished, rules, memory, at)
    if not isinstance(judged, Admission):
        judged = yield from judged
    _take(step, finished, thread, judged, memory)
    if judged.over is not None:
        step.exhaust(delivery.request, judged.over)
    elif judged.refusal is not None:
        _refuse(step, thread, delivery, judged.refusal)
    else:
        _make_room(step, thread, judged.proposals)
        for place, proposal in enumerate(judged.proposals):
            if place:
                yield
            if proposal.route is Route.SERVICE:
                _serve(step, delivery, proposal)
            else:
                step.send(proposal, delivery.request, delivery.hop + 1)
    return step.finish()


def give_up(conversation: Conversation, given_up: AbandonedDelivery, rules: Rules, moment: Moment) -> Outcome:
    """End a delivery on which no decision was possible, without looking at its result."""
    given_up = dismissal.redact_given_up(given_up, rules.redact)
    delivery = given_up.delivery
    step = Step(conversation, rules, moment, given_up, delivery.request, delivery)
    thread = conversation.working_on(delivery)
    if thread is None:
        step.records.record(Event.DISCARDED, delivery)
        return step.finish()
    memory = rules.note_seen(conversation, delivery, given_up.element, step.moment.now)
    step.memory = rules.note_missed(memory) if given_up.unseen else memory
    _end_work(step, thread, delivery, HandlerFailure(Code.INTERNAL, given_up.detail))
    return step.finish()


def _fail(
    step: Step,
    finished: FinishedInvocation,
    thread: Thread,
    failed: HandlerFailure | None,
    listener: Listener | None,
) -> None:
    """Retry a failed invocation, or end the work of its thread.

    Without a listener any invocation has failed: the conversation may be older than the organism.
    """
    delivery = finished.delivery
    failed = failed or HandlerFailure(Code.INTERNAL, Ground.GONE.of(delivery.to))
    retries = 0 if listener is None else listener.retries
    retry = delivery.attempt < retries and failed.code != Code.BUDGET and not _fails_again(failed)
    if not (retry and delivery.attempt):  # guards observe only the first attempt
        step.memory = step.rules.note_seen(step.before, delivery, finished.element, step.moment.now)
    if retry:
        step.retry(delivery, failed)
    else:
        _end_work(step, thread, delivery, failed)


def _fails_again(failed: HandlerFailure) -> bool:
    """Check whether another attempt fails too: an effect has an unknown outcome, or the run is dry."""
    return isinstance(failed.detail, Grounds) and failed.detail.ground in {Ground.EFFECT, Ground.DRY}


def _take(
    step: Step, finished: FinishedInvocation, thread: Thread, judged: Admission, memory: Mapping[str, object]
) -> None:
    """Consume the delivery of an invocation and apply its effects and the guards' memory."""
    delivery, _, result, _ = finished
    assert isinstance(result, HandlerReturn)
    returned, effects = result
    step.take(delivery, deprecated=isinstance(returned, Drafts) and returned.deprecated)
    step.memory = judged.memory or memory
    if judged.over is not None:
        return
    if effects is not NO_EFFECTS:
        for watcher in effects.closed:
            step.forget(thread.id, watcher)
        if effects.stored or effects.logged:
            step.store(thread.id, effects.stored, effects.logged)
    if isinstance(returned, Drafts) and returned.repairs:
        for repair in returned.repairs:
            step.records.record(Event.REPAIRED, delivery, detail=RepairNote(repair))
    if judged.remarks:
        _record_remark(step, judged, thread.id, delivery.to)


def _make_room(step: Step, thread: Thread, proposals: Sequence[Proposal]) -> None:
    """Reset the count of refusals, and end running sub-tasks before an answer."""
    if thread.refusals:
        step.count_refusals(thread.id, 0)
    for proposal in proposals:
        if proposal.route is Route.ANSWER:
            step.prune(thread.id)
            break


def _record_remark(step: Step, judged: Admission, thread: str, sender: str) -> None:
    """Record the remarks of guards and of the rewriter."""
    for event, to, detail in judged.remarks:
        step.records.note(event, thread=thread, sender=sender, to=to, detail=detail)


def _serve(step: Step, delivery: Delivery, proposal: Proposal) -> None:
    """Read a message to a service. The services read nothing but what their schemas accept."""
    codec = step.rules.codecs.for_root(proposal.root)
    assert codec is not None
    payload = codec.decode(proposal.element)
    match payload:
        case TodoUntil():
            step.watch(delivery, payload, proposal.place)
        case TodoComplete():
            step.complete(delivery, payload.watcher_id, proposal.place)
        case SetTimer():
            step.set_timer(delivery, payload.seconds, proposal.place)
        case CancelTimer():
            step.cancel_timer(delivery.thread, payload.key, payload.place)


def _refuse(step: Step, thread: Thread, delivery: Delivery, refusal: Refusal) -> None:
    """Report a refusal to the sender; end its work after too many refusals in a row."""
    limit = step.rules.blueprint.limits.refusals
    count = thread.refusals + 1
    step.count_refusals(thread.id, count)
    step.records.note(
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
        _end_work(step, thread, delivery, HandlerFailure(Code.INTERNAL, Ground.REFUSALS.of(count)))
        return
    error = make_system_error(refusal.code, refusal.corrections, final=count == limit)
    refused = make_notice(error, thread.id, step.rules)._replace(place=refusal.place)
    step.send(refused, delivery.request, delivery.hop + 1)


def _end_work(step: Step, thread: Thread, delivery: Delivery, failed: HandlerFailure) -> None:
    """End the work of a thread with a SystemError to its caller."""
    error = make_system_error(failed.code)
    answer = make_notice(error, thread.id, step.rules, caller=True, about=delivery.to)
    step.bury(delivery, failed)
    step.count_refusals(thread.id, 0)
    step.prune(thread.id)
    step.send(answer, delivery.request, delivery.hop + 1)


def _turn_away(step: Step, request: str, refusal: Refusal) -> None:
    """Refuse a message from outside."""
    root = step.before.tree.root
    step.records.note(
        Event.REFUSED,
        thread=root,
        sender=step.before.principal,
        to=refusal.to,
        code=refusal.code,
        detail=refusal.detail,
    )
    step.send(make_notice(make_system_error(refusal.code, refusal.corrections), root, step.rules), request, 0)
