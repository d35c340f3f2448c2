"""Conversations that other programs recorded, and the verdicts of a policy on their tool calls.

They hold no rules and no state, only the user's words, the calls and the results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from agentserver.history.backtest import (
    ALLOWED,
    OTHER_RULE,
    CallOutcome,
    Cause,
    JudgedCall,
    JudgedConversation,
    PolicyVerdict,
)
from agentserver.provenance.evidence.labels import Call, Observation, strip_indices
from agentserver.provenance.evidence.leaves import leaves
from agentserver.provenance.exits import count_bits
from agentserver.provenance.judgement import judge
from agentserver.provenance.ledger import Ledger
from agentserver.provenance.policy.declarations import Effect
from agentserver.provenance.verdict import Decision

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentserver.provenance.policy.declarations import Policy
    from agentserver.provenance.verdict import Verdict


class HistoryError(ValueError):
    """Raised for a file that is no readable history. Its message names the place."""


class UserWords(NamedTuple):
    """Text of the user, who gives the orders."""

    text: str


class ToolCall(NamedTuple):
    """Call of a tool, at the time when the agent asked for it, in seconds since 1970; 0 if it is unknown."""

    tool: str
    arguments: Any
    at: float = 0.0


class ToolResult(NamedTuple):
    """Output of a tool, at the time when the agent got it, and the arguments of its call.

    The time is in seconds since 1970; 0 if it is unknown.
    """

    tool: str
    arguments: Any
    output: Any
    at: float = 0.0


ForeignEvent: TypeAlias = UserWords | ToolCall | ToolResult


class ForeignConversation(NamedTuple):
    """Conversation that another program recorded.

    Args:
        id: its id.
        events: in order of time.
        attack: whether it is known to be an attack that succeeded.
        unread: why it cannot be judged; empty if it can.
    """

    id: str
    events: tuple[ForeignEvent, ...] = ()
    attack: bool = False
    unread: str = ""


def judge_foreign(
    recorded: ForeignConversation, new: Policy, current: Policy | None, attacks: frozenset[int] | None
) -> JudgedConversation:
    """Judge the tool calls of a conversation by a policy, and by the one in force.

    A step is an event, counted from 1. ``attacks`` is as of ``JudgedConversation``.
    """
    if recorded.unread:
        return JudgedConversation(recorded.id, (), unjudged=recorded.unread)
    runs = [_Run(policy) for policy in ((new,) if current is None else (new, current))]
    calls: list[JudgedCall] = []
    for step, event in enumerate(recorded.events, 1):
        verdicts = [run.take(event, step) for run in runs]
        if isinstance(event, ToolCall):
            calls.append(
                JudgedCall(step, "", event.tool, verdicts[0], verdicts[1] if current is not None else None)
            )
    return JudgedConversation(recorded.id, tuple(calls), attacks)


class _Run:
    """Recorded conversation as one policy sees it. A call that it would have stopped counts as made."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._ledger = Ledger()

    def take(self, event: ForeignEvent, step: int) -> PolicyVerdict:
        """Take the next event. Returns the verdict on a call."""
        if isinstance(event, UserWords):
            self._ledger = self._ledger.ask(event.text)
            return ALLOWED
        if isinstance(event, ToolResult):
            arguments = leaves(event.arguments)
            seen = Observation(
                event.tool, leaves(event.output), step, event.at, arguments=arguments, unexposed=True
            )
            self._ledger = self._ledger.observe(self._policy, seen)
            return ALLOWED
        call = Call(event.tool, leaves(event.arguments), step, event.at)
        verdict = judge(self._ledger, self._policy, call)
        carried = self._ledger.carry(count_bits(self._ledger, self._policy, call))
        self._ledger = carried.count_call(call)
        return _read_verdict(verdict)


def _read_verdict(verdict: Verdict) -> PolicyVerdict:
    if verdict.decision is Decision.ALLOW:
        return ALLOWED
    needs_approval = verdict.decision is Decision.ASK
    effects: Sequence[Effect] = (Effect.BLOCK, Effect.ASK) if needs_approval else (Effect.BLOCK,)
    found = (
        Cause(one.rule.name.lower(), strip_indices(one.path))
        for one in verdict.weighed.value
        if one.effect in effects
    )
    return PolicyVerdict(
        CallOutcome.ASKED if needs_approval else CallOutcome.REFUSED,
        tuple(dict.fromkeys(found)) or (Cause(OTHER_RULE),),
    )
