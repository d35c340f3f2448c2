"""Admission of messages: all that a result sends, or none of it.

The rewriter comes first, then routing, the check of reserved payloads, the guards, and the limits.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.contract import Code, TodoUntil
from agentserver.core.drafts.routing import Proposal, Route, Sender, reject_reserved, resolve
from agentserver.core.guard import PASSED, Denial
from agentserver.core.messages import TIMER, TODO, HandlerReturn
from agentserver.core.pieces import run_pieces
from agentserver.core.records.audit import Event
from agentserver.core.records.details import Ground, GuardAsks, GuardQuestions
from agentserver.core.refusals import Refusal
from agentserver.core.state.approvals import WAITING
from agentserver.core.state.threads import TIMERS
from agentserver.core.state.todos import WATCHERS
from agentserver.payload.codec import SYSTEMS_OWN
from agentserver.wire.envelope import canonical

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from agentserver.core.guard import ResolvedDraft, Rules
    from agentserver.core.messages import Delivery, Draft, Drafts, FinishedInvocation
    from agentserver.core.pieces import Pieces
    from agentserver.core.records.details import Detail, NotedDetail
    from agentserver.core.state.conversation import Conversation
    from agentserver.core.state.threads import Thread

_new = tuple.__new__
"""Makes a wide tuple without the call of Python that its class would make; tests/test_tuples.py counts the fields."""


class AuditNote(NamedTuple):
    """Note about a message, recorded whether or not it is sent.

    Args:
        to: the target concerned, as the sender put it.
    """

    event: Event
    to: str
    detail: NotedDetail


class Admission(NamedTuple):
    """Admitted messages, or the reason why none may be sent, and remarks.

    ``over`` is set when the result exceeds its budget, which ends the request. ``memory`` is the guards' memory if
    admitting the messages changed it.
    """

    proposals: tuple[Proposal, ...] = ()
    refusal: Refusal | None = None
    remarks: tuple[AuditNote, ...] = ()
    over: Detail | None = None
    memory: Mapping[str, object] | None = None


class _PriorRemarks(NamedTuple):
    """Remarks about the messages before one in a result, and the bits that they reveal, by guard."""

    remarks: list[AuditNote]
    spent_bits: dict[str, float]


UNRESOLVED: Final = "a reference in it is unknown here, or what it stands for does not fit its place"
"""The only correction of a message with references, so that it reveals no value."""


def judge(
    drafts: Sequence[Draft], sender: Sender, rules: Rules, memory: Mapping[str, object], todos: int = 0
) -> Admission:
    """Admit drafts, as ``judge_in_pieces`` does, without a pause."""
    return run_pieces(judge_in_pieces(drafts, sender, rules, memory, todos))


def judge_in_pieces(
    drafts: Sequence[Draft], sender: Sender, rules: Rules, memory: Mapping[str, object], todos: int = 0
) -> Pieces[Admission]:
    """Admit all drafts, or refuse them with the first that may not be sent; one piece per draft.

    Args:
        drafts: the messages, in order.
        sender: who sends them, on which thread and when.
        rules: what to decide by.
        memory: each guard's.
        todos: how many the thread keeps already.
    """
    remarks: list[AuditNote] = []
    admitted: list[Proposal] = []
    spent_bits: dict[str, float] = {}
    first, last = memory, len(drafts) - 1
    viewed, counting = sender.listener.name in rules.viewers, rules.counting
    for place, draft in enumerate(drafts):
        remarked = len(remarks)
        if viewed and (opened := rules.resolve(memory, draft, sender)) is not None:
            before = _PriorRemarks(remarks, spent_bits)
            found, memory = _admit_resolved(opened, draft, sender, rules, before, place)
        else:
            judged = rules.suppose_spent(memory, spent_bits) if spent_bits else memory
            found = admit(draft, sender, rules, judged, remarks, place)
        if isinstance(found, Refusal):
            name, detail = sender.listener.name, found.detail
            counted = rules.count_refused(first, detail, name, sender.thread, len(drafts))
            return Admission((), replace(found, place=place), tuple(remarks), memory=counted)
        if counting and not draft.after:  # a delayed one is counted when it is released
            noted = len(remarks) > remarked
            for proposal in found:
                noted = noted or bool(proposal.questions)
            if noted:  # one is counted only with a word about it
                memory = rules.count_sent(memory, found, sender.at)
        admitted += found
        if place < last:
            rules.weigh_sent(memory, found, sender.at, spent_bits)
            yield
    overflow = None
    for proposal in admitted:
        if proposal.route is Route.SERVICE:
            overflow = _refuse_overfull(admitted, rules, todos)
            break
    changed = None if memory is first or overflow else memory
    return _new(Admission, (() if overflow else tuple(admitted), overflow, tuple(remarks), None, changed))


def _admit_resolved(
    opened: ResolvedDraft,
    draft: Draft,
    sender: Sender,
    rules: Rules,
    before: _PriorRemarks,
    place: int,
) -> tuple[Sequence[Proposal] | Refusal, Mapping[str, object]]:
    """Admit a draft whose references are replaced by values.

    Returns: the proposals or the refusal, and the guards' memory afterwards.
    """
    remarks, spent = before
    to, whole, memory = draft.to if isinstance(draft.to, str) else "", opened.draft, opened.memory
    remarks.append(AuditNote(Event.FLAGGED, to, opened.note))
    if whole is None:
        return Refusal(Code.VALIDATION, opened.note, to, (UNRESOLVED,)), memory

    def note_rewrite(after: Draft) -> Mapping[str, object]:
        nonlocal memory
        memory = rules.note_rewrite(memory, whole, after, sender)
        return rules.suppose_spent(memory, spent)

    found = admit(whole, sender, rules, rules.suppose_spent(memory, spent), remarks, place, note_rewrite)
    return found, memory


def admit_result(
    conversation: Conversation,
    thread: Thread,
    finished: FinishedInvocation,
    rules: Rules,
    memory: Mapping[str, object],
    at: float,
) -> Admission | Pieces[Admission]:
    """Admit or refuse a result as a whole, or return the pieces that admit its messages, one per message.

    Args:
        conversation: as of the listener's return.
        thread: that the listener worked on.
        finished: the invocation, which has a result.
        rules: what to decide by.
        memory: each guard's, after it saw what the listener was given.
        at: seconds since the epoch.
    """
    delivery, element, result, _ = finished
    assert isinstance(result, HandlerReturn)
    returned, effects = result
    if isinstance(returned, Refusal) or len(returned.drafts) > 1:
        overrun = _find_overrun(
            returned, conversation.room(rules.blueprint.limits, delivery.request).messages
        )
        if overrun is not None:
            return Admission(over=overrun)
    caller = conversation.tree.nodes[thread.parent or ""]
    listener = rules.blueprint.listeners[delivery.to]
    if thread.allowed is not None:
        listener = rules.narrowed(listener.name, thread.allowed).listener
    received = None
    if delivery.root == rules.failure and element is not None:
        received = canonical(element)
    sender = _new(Sender, (listener, thread.id, caller.owner, at, received))
    if isinstance(returned, Refusal):
        return reject_unread(returned, sender, rules)
    watchers = conversation.todos.list_watchers(thread.id) if conversation.todos.watchers else ()
    todos = sum([one.watcher_id not in effects.closed for one in watchers]) if watchers else 0
    pieces = judge_in_pieces(returned.drafts, sender, rules, memory, todos)
    return _review_in_pieces(pieces, conversation, thread, delivery)


def _review_in_pieces(
    pieces: Pieces[Admission], conversation: Conversation, thread: Thread, delivery: Delivery
) -> Pieces[Admission]:
    """Review an admission when its last piece is done."""
    return _review((yield from pieces), conversation, thread, delivery)


def _review(judged: Admission, conversation: Conversation, thread: Thread, delivery: Delivery) -> Admission:
    """Refuse messages that cannot wait, and name the listener of a SystemError that is passed on as an answer."""
    for one in judged.proposals:
        if one.questions or one.after or one.root.startswith(SYSTEMS_OWN):
            rooted = conversation.tree.nodes[thread.parent or ""].parent is None
            return _review_questions(judged, conversation, delivery, rooted=rooted)
    return judged


def _review_questions(
    judged: Admission, conversation: Conversation, delivery: Delivery, *, rooted: bool
) -> Admission:
    """Refuse questions that cannot wait, and name the listener of a SystemError that is passed on as an answer."""
    undelayable = _refuse_undelayable(judged.proposals, conversation, rooted=rooted)
    if undelayable is not None:
        return judged._replace(proposals=(), refusal=undelayable)
    for place, one in enumerate(judged.proposals):
        if one.questions and not one.after:
            denied = _refuse_unanswerable(judged.proposals, conversation, rooted=rooted)
            if denied is not None:
                return judged._replace(proposals=(), refusal=denied)
        if one.route is Route.ANSWER and one.root.startswith(SYSTEMS_OWN):
            before, after = judged.proposals[:place], judged.proposals[place + 1 :]
            judged = judged._replace(proposals=(*before, one._replace(about=delivery.to), *after))
    return judged


def _refuse_unanswerable(
    proposals: Sequence[Proposal], conversation: Conversation, *, rooted: bool
) -> Refusal | None:
    """Refuse questions that cannot wait, or are too many. ``rooted``: the caller is the principal."""
    guarded = [proposal for proposal in proposals if proposal.questions and not proposal.after]
    for proposal in guarded:
        if proposal.route is Route.SERVICE or (
            proposal.route is Route.ANSWER and rooted
        ):  # no thread to wait on
            question = proposal.questions[0]
            asks = GuardQuestions((GuardAsks(question.guard, question.reason),), waits=False)
            return Refusal(Code.DENIED, asks, proposal.to, place=proposal.place)
    if guarded and len(guarded) + len(conversation.approvals()) > WAITING:
        return Refusal(Code.DENIED, Ground.WAITING.of(WAITING), guarded[0].to, place=guarded[0].place)
    return None


def _refuse_undelayable(
    proposals: Sequence[Proposal], conversation: Conversation, *, rooted: bool
) -> Refusal | None:
    """Refuse delays that are too many, or of messages without a thread to wait on."""
    delayed = [one for one in proposals if one.after or (one.to == TIMER and one.route is Route.SERVICE)]
    homeless = {Route.SERVICE, Route.ANSWER} if rooted else {Route.SERVICE}
    answer = next((one for one in delayed if one.after and one.route in homeless), None)
    if answer is not None:
        correction = "set a timer of system.timer and answer when it fires"
        return Refusal(
            Code.VALIDATION, Ground.LATER_ANSWER.of(), answer.to, (correction,), place=answer.place
        )
    if delayed and len(delayed) + len(conversation.timers) > TIMERS:
        correction = f"a conversation keeps at most {TIMERS} messages that wait for their time"
        return Refusal(
            Code.VALIDATION, Ground.TIMERS.of(TIMERS), delayed[0].to, (correction,), place=delayed[0].place
        )
    return None


def reject_unread(refusal: Refusal, sender: Sender, rules: Rules) -> Admission:
    """Refuse an unreadable payload, with the rewriter's note about it."""
    note = None if rules.rewriter is None else rules.rewriter.describe_refusal(refusal, sender)
    return Admission((), refusal, () if note is None else (AuditNote(Event.ATTEMPTED, refusal.to, note),))


def admit(
    draft: Draft,
    sender: Sender,
    rules: Rules,
    memory: Mapping[str, object],
    remarks: list[AuditNote],
    place: int = 0,
    rewritten: Callable[[Draft], Mapping[str, object]] | None = None,
) -> Sequence[Proposal] | Refusal:
    """Admit one draft or refuse it; appends to ``remarks``.

    Args:
        draft: the message.
        sender: who sends it, on which thread and when.
        rules: what to decide by.
        memory: each guard's.
        remarks: of guards and of the rewriter, so far.
        place: index of the draft in the sender's result.
        rewritten: returns the memory after the rewriter changed the draft.
    """
    peers: frozenset[str] | None = None
    rewriter = rules.rewriter if draft.root in rules.rewritable else None
    attempt = None if rewriter is None else rewriter.rewrite(draft, sender)
    if attempt is not None:
        remarks.append(_new(AuditNote, (Event.ATTEMPTED, _name_target(draft), attempt.note)))
        if isinstance(attempt.result, Denial):
            return Refusal(attempt.result.code, attempt.result.detail, _name_target(draft))
        draft, peers = attempt.result, attempt.allowed
        memory = memory if rewritten is None else rewritten(draft)
    proposals = resolve(draft, sender, rules.blueprint, place)
    if draft.root.startswith(SYSTEMS_OWN):
        forged = reject_reserved(draft, proposals, sender, rules.blueprint.services)
        if forged is not None:
            return forged
    allowed: list[Proposal] = []
    worst: Denial | None = None
    for proposal in proposals:
        ruling = rules.judge(memory, proposal, sender.at)
        if ruling is PASSED:
            allowed.append(
                proposal if peers is None else _new(Proposal, (*proposal[:8], peers, *proposal[9:]))
            )
            continue
        remarks.extend([AuditNote(Event.FLAGGED, proposal.to, note) for note in ruling.notes])
        worst = _choose_worse(worst, ruling.denied)
        if ruling.denied is None:
            allowed.append(proposal._replace(questions=ruling.questions, allowed=peers))
    # A member that a broadcast may not reach is left out; any other denial is about the message itself.
    if worst is not None and not (draft.to is None and allowed and worst.code is Code.ROUTING):
        return Refusal(worst.code, worst.detail, _name_target(draft) or _find_only_receiver(proposals))
    if not allowed:
        return _refuse_unresolved(draft, rules)
    return allowed


def _refuse_unresolved(draft: Draft, rules: Rules) -> Refusal:
    """Refuse a draft without a receiver: its target does not exist, or takes no such payload."""
    target = _name_target(draft)
    missing = (
        target and target not in rules.blueprint.listeners and target not in rules.blueprint.services.values()
    )
    # The target is the sender's text, which a viewer may not read: the detail does not repeat it.
    ground = Ground.NO_LISTENER.of() if missing else Ground.NO_TAKER.of(draft.root)
    return Refusal(Code.ROUTING, ground, target)


def _name_target(draft: Draft) -> str:
    """Return the name that a draft is sent to; empty for its author's caller, or without one."""
    return draft.to if isinstance(draft.to, str) else ""


def _find_only_receiver(proposals: Sequence[Proposal]) -> str:
    """Find the receiver of an answer, or of a payload that one listener takes; empty if there are several."""
    return proposals[0].to if len(proposals) == 1 else ""


def _choose_worse(one: Denial | None, other: Denial | None) -> Denial | None:
    """Return the graver of two denials: one for any other reason than the route, or else the later."""
    return one if other is None or (one is not None and one.code is not Code.ROUTING) else other


def _refuse_overfull(proposals: Sequence[Proposal], rules: Rules, todos: int) -> Refusal | None:
    """Refuse more todos than a thread may keep."""
    served = [proposal for proposal in proposals if proposal.route is Route.SERVICE]
    until = rules.codecs.of(TodoUntil).name
    registered = [proposal.place for proposal in served if proposal.root == until]
    if todos + len(registered) > WATCHERS:
        correction = f"a thread keeps at most {WATCHERS} todos: close some first"
        first = registered[max(WATCHERS - todos, 0)]
        return Refusal(Code.VALIDATION, Ground.TODOS.of(WATCHERS), TODO, (correction,), place=first)
    return None


def _find_overrun(returned: Drafts | Refusal, remaining: int) -> Detail | None:
    """Return how a result exceeds the rest of its request's budget, or None.

    Other invocations of the request may have used messages since the result was read.
    """
    if isinstance(returned, Refusal):
        return returned.detail if returned.code is Code.BUDGET else None
    many = len(returned.drafts)
    return Ground.RESULT.of(many, remaining) if many > max(1, remaining) else None
