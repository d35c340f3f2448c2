"""Trials of a policy on stored conversations, bounded in number and time, one at a time."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import anyio

from agentserver.characters.printing import escape_unseen
from agentserver.history.backtest import JudgedConversation, Tally
from agentserver.history.filters import list_ids, parse_filter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from agentserver.core.encoding.history import RecordedConversation
    from agentserver.history.backtest import PolicyTrial, StoppedCall
    from agentserver.ports import EngineReader

T = TypeVar("T")

POLICY: Final = 262_144
"""Bytes of a policy."""

CONVERSATIONS: Final = 500
"""Conversations of one trial."""

STEPS: Final = 50_000
"""Steps of one trial."""

SECONDS: Final = 60.0
"""Duration of one trial."""

ROWS: Final = 100
"""Rows of a table."""

WIDTH: Final = 300
"""Characters of a cell."""


class TrialRequest(NamedTuple):
    """Request for a trial.

    Args:
        policy: text of the policy file.
        mode: confirm or enforce; empty for that of the policy.
        conversation: the id of the only one to judge; empty for the last ones.
        where: filter of the conversations.
        last: number of conversations.
    """

    policy: str
    mode: str
    conversation: str
    where: str
    last: int


def read_request(body: dict[str, Any]) -> TrialRequest:
    """Read the body of a request. Raises ValueError."""
    policy, mode, conversation, condition = (
        body.get(key, "") for key in ("policy", "mode", "conversation", "where")
    )
    last = body.get("last", 1)
    if (
        not all(isinstance(each, str) for each in (policy, mode, conversation, condition))
        or type(last) is not int
    ):
        raise ValueError("it wants policy, mode, conversation and where as texts, and last as a number")
    if not policy.strip():
        raise ValueError("the policy is empty")
    if mode not in {"", "confirm", "enforce"}:
        raise ValueError("mode is confirm or enforce")
    if not 1 <= last <= CONVERSATIONS:
        raise ValueError(f"last is from 1 to {CONVERSATIONS}")
    return TrialRequest(policy, mode, conversation, condition, last)


def choose_ids(reader: EngineReader, request: TrialRequest) -> list[str]:
    """List the conversations to judge, the last opened first. Raises ValueError for a malformed filter."""
    if request.conversation:
        return [request.conversation]
    return list_ids(reader, parse_filter(request.where), request.last)


def _read_recorded(reader: EngineReader, conversation: str) -> tuple[RecordedConversation, int | None] | None:
    """Read a conversation with its first altered step; None if it has been deleted."""
    try:
        recorded = reader.recorded_conversation(conversation)
    except LookupError:
        return None
    return recorded, reader.find_altered(recorded)


@dataclass(slots=True)
class TrialRun:
    """Run of a trial over conversations, each judged in a thread.

    Args:
        trial: the policy.
        read: reads from the engine.
    """

    trial: PolicyTrial
    read: Callable[[Callable[[Any], Any]], Awaitable[Any]]
    tally: Tally = field(default_factory=Tally)
    limit: str = ""
    """The reason why it ended before all were judged; empty if it did not."""
    _cancelled: bool = False
    _steps: int = 0
    _until: float = 0.0

    def cancel(self) -> None:
        """End the run at the next step. May be called while a thread judges."""
        self._cancelled = True

    async def judge(self, ids: list[str]) -> None:
        """Judge the conversations in order, until a limit is reached."""
        self._until = time.monotonic() + SECONDS
        for key in ids:
            if self._is_over():
                self.limit = f"it ended after {SECONDS:.0f} s"
                return
            found = await self.read(partial(_read_recorded, conversation=key))
            if found is None:
                continue
            recorded, altered = found
            self._steps += len(recorded.steps)
            if self._steps > STEPS:
                self.limit = f"a trial judges at most {STEPS} steps"
                return
            self.tally.take(await anyio.to_thread.run_sync(self._judge_recorded, recorded, altered))

    def _is_over(self) -> bool:
        return self._cancelled or time.monotonic() > self._until

    def _judge_recorded(self, recorded: RecordedConversation, altered: int | None) -> JudgedConversation:
        if altered is not None:
            return JudgedConversation(recorded.beginning.id, (), unjudged=f"step {altered} was altered")
        return self.trial.judge(recorded, self._is_over)


def describe_trial(run: TrialRun, requested: int, redact: Callable[[str], str]) -> dict[str, Any]:
    """Describe the result of a trial, with the first stopped or changed calls.

    Args:
        run: the run.
        requested: number of conversations that it was to judge.
        redact: removes secrets.
    """
    from agentserver.history.backtest_report import STOPS, summarise, tabulate  # with the extra provenance

    def show(text: str) -> str:
        return escape_unseen(redact(text)[:WIDTH])

    tally = run.tally
    return {
        "mode": run.trial.mode,
        "compared": tally.compared,
        "asked": requested,
        "judged": len(tally.conversations),
        "limit": run.limit,
        "summary": [show(line) for line in summarise(tally) if not line.startswith("attacks:")][:ROWS],
        "tables": [
            {
                "title": table.title,
                "heads": table.heads,
                "rows": [[show(cell) for cell in row] for row in table.rows[:ROWS]],
                "more": table.count_more(ROWS),
            }
            for table in tabulate(tally)
            if table.title != STOPS
        ],
        "stops": [_describe_stop(one, show) for one in tally.shown],
    }


def _describe_stop(one: StoppedCall, show: Callable[[str], str]) -> dict[str, Any]:
    call = one.call
    return {
        "conversation": one.conversation,
        "step": call.step,
        "sender": show(call.sender),
        "to": show(call.listener),
        "fate": str(call.new.fate),
        "current": "" if call.current is None else str(call.current.fate),
        "causes": [show(line) for line in _describe_causes(call.new.causes)],
    }


def _describe_causes(causes: Any) -> Iterator[str]:
    for cause in causes:
        yield f"{cause.rule} at {cause.field}" if cause.field else cause.rule
