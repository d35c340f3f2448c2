"""Admission: all that a listener wants to send may be sent, or nothing of it.

Owns the order of the questions: what the rewriter makes of it, who would receive it, whether it is the system's to
say, what the guards say, how much there is already. Refuses to know any guard, and to send.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from agentserver.contract import Code, TodoUntil
from agentserver.core.audit import Event
from agentserver.core.details import Ground
from agentserver.core.guard import PASSED, Denial
from agentserver.core.messages import TODO
from agentserver.core.pieces import whole
from agentserver.core.refusals import Refusal
from agentserver.core.reserved import overstepped
from agentserver.core.routing import Route, resolve
from agentserver.core.todos import WATCHERS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agentserver.core.details import Detail
    from agentserver.core.guard import Rules
    from agentserver.core.messages import Draft
    from agentserver.core.pieces import Pieces
    from agentserver.core.routing import Place, Proposal


class Remark(NamedTuple):
    """Something about what was to be sent that goes on record, whether or not it is sent.

    Args:
        to: the target concerned, as the sender put it.
    """

    event: Event
    to: str
    detail: Detail


class Judged(NamedTuple):
    """The messages that may be sent, or the reason why none may, and remarks."""

    proposals: tuple[Proposal, ...] = ()
    refusal: Refusal | None = None
    remarks: tuple[Remark, ...] = ()


def judge(
    drafts: Sequence[Draft], place: Place, rules: Rules, memory: Mapping[str, object], todos: int = 0
) -> Judged:
    """All proposals of the drafts, as ``judging`` gives them, without a pause."""
    return whole(judging(drafts, place, rules, memory, todos))


def judging(
    drafts: Sequence[Draft], place: Place, rules: Rules, memory: Mapping[str, object], todos: int = 0
) -> Pieces[Judged]:
    """All proposals of the drafts, or the refusal of the first that may not be sent; a piece for each draft.

    Args:
        drafts: what is to be sent, in order.
        place: by whom, where and when.
        rules: what to decide by.
        memory: each guard's.
        todos: how many the thread keeps already.
    """
    remarks: list[Remark] = []
    admitted: list[Proposal] = []
    for draft in drafts:
        found = hear(draft, place, rules, memory, remarks)
        if isinstance(found, Refusal):
            return Judged((), found, tuple(remarks))
        admitted.extend(found)
        yield
    over = _overfull(admitted, rules, todos)
    return Judged(() if over else tuple(admitted), over, tuple(remarks))


def unheard(refusal: Refusal, place: Place, rules: Rules) -> Judged:
    """The refusal of what could not even be read, with what the rewriter wants on record of it."""
    note = None if rules.rewriter is None else rules.rewriter.refused(refusal, place)
    return Judged((), refusal, () if note is None else (Remark(Event.ATTEMPTED, refusal.to, note),))


def hear(
    draft: Draft, place: Place, rules: Rules, memory: Mapping[str, object], remarks: list[Remark]
) -> Sequence[Proposal] | Refusal:
    """The proposals of one draft, or why it may not be sent; appends to ``remarks`` on the way."""
    target = draft.to if isinstance(draft.to, str) else ""
    peers: frozenset[str] | None = None
    attempt = None if rules.rewriter is None else rules.rewriter.rewrite(draft, place)
    if attempt is not None:
        remarks.append(Remark(Event.ATTEMPTED, target, attempt.note))
        if isinstance(attempt.result, Denial):
            return Refusal(attempt.result.code, attempt.result.detail, target)
        draft, peers = attempt.result, attempt.allowed
    proposals = resolve(draft, place, rules.blueprint)
    forged = overstepped(draft, proposals, place, rules.blueprint.services)
    if forged is not None:
        return forged
    allowed, denied = _asked(proposals, peers, place.at, rules, memory, remarks)
    # A member that a broadcast may not reach is left out; any other denial is about the message itself.
    if denied is not None and not (draft.to is None and allowed and denied.code is Code.ROUTING):
        return Refusal(denied.code, denied.detail, target)
    if not allowed:
        return Refusal(Code.ROUTING, Ground.NO_TAKER.of(draft.root), target)
    return allowed


def _asked(
    proposals: Sequence[Proposal],
    peers: frozenset[str] | None,
    at: float,
    rules: Rules,
    memory: Mapping[str, object],
    remarks: list[Remark],
) -> tuple[list[Proposal], Denial | None]:
    """The proposals that every guard lets pass or wants permitted, and the weightiest denial of the others."""
    allowed: list[Proposal] = []
    worst: Denial | None = None
    for proposal in proposals:
        ruling = rules.ruling(memory, proposal, at)
        if ruling is PASSED and peers is None:
            allowed.append(proposal)
            continue
        remarks.extend(Remark(Event.FLAGGED, proposal.to, note) for note in ruling.notes)
        denied = ruling.denied
        if denied is None:
            allowed.append(proposal._replace(questions=ruling.questions, allowed=peers))
        elif worst is None or worst.code is Code.ROUTING:
            worst = denied
    return allowed, worst


def _overfull(proposals: Sequence[Proposal], rules: Rules, todos: int) -> Refusal | None:
    """Refuse more todos than a thread may keep."""
    asked = [proposal.root for proposal in proposals if proposal.route is Route.SERVICE]
    if asked and todos + asked.count(rules.codecs.of(TodoUntil).name) > WATCHERS:
        told = f"a thread keeps at most {WATCHERS} todos: close some first"
        return Refusal(Code.VALIDATION, Ground.TODOS.of(WATCHERS), TODO, (told,))
    return None
