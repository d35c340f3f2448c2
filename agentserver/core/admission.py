"""Whether what somebody wants to send may be sent: all of it or nothing.

Owns the order of the questions: who would receive it, what the guards say, how much there is already. Refuses to know
any guard, and to send.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.contract import Code, TodoUntil
from agentserver.core.messages import TODO
from agentserver.core.refusals import Refusal
from agentserver.core.routing import Route, resolve
from agentserver.core.todos import WATCHERS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agentserver.core.guard import Denied, Rules
    from agentserver.core.replies import Draft
    from agentserver.core.routing import Place, Proposal


def judge(
    drafts: Sequence[Draft], place: Place, rules: Rules, memory: Mapping[str, object], todos: int = 0
) -> tuple[Proposal, ...] | Refusal:
    """All proposals of the drafts, or the refusal of the first that may not be sent.

    Args:
        drafts: what is to be sent, in order.
        place: by whom, and where.
        rules: what to decide by.
        memory: each guard's.
        todos: how many the thread keeps already.
    """
    admitted: list[Proposal] = []
    for draft in drafts:
        allowed, denied = _ask(resolve(draft, place, rules.blueprint), rules, memory)
        target = draft.to if isinstance(draft.to, str) else ""
        # Whoever a broadcast may not reach is left out; any other denial is about the message itself.
        if denied is not None and not (draft.to is None and allowed and denied.code is Code.ROUTING):
            return Refusal(denied.code, denied.reason, target)
        if not allowed:
            return Refusal(Code.ROUTING, f"nobody takes {draft.root} here", target)
        admitted.extend(allowed)
    return _bounded(tuple(admitted), rules, todos)


def _ask(
    proposals: Sequence[Proposal], rules: Rules, memory: Mapping[str, object]
) -> tuple[list[Proposal], Denied | None]:
    """The proposals that every guard lets pass, and the weightiest denial of the others."""
    allowed: list[Proposal] = []
    worst: Denied | None = None
    for proposal in proposals:
        denied = rules.verdict(memory, proposal)
        if denied is None:
            allowed.append(proposal)
        elif worst is None or worst.code is Code.ROUTING:
            worst = denied
    return allowed, worst


def _bounded(proposals: tuple[Proposal, ...], rules: Rules, todos: int) -> tuple[Proposal, ...] | Refusal:
    """Refuse more todos than a thread may keep."""
    asked = [proposal.root for proposal in proposals if proposal.route is Route.SERVICE]
    if asked and todos + asked.count(rules.codecs.of(TodoUntil).name) > WATCHERS:
        told = f"a thread keeps at most {WATCHERS} todos: close some first"
        return Refusal(Code.VALIDATION, told, TODO, (told,))
    return proposals
