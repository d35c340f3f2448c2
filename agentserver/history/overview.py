"""Overview of the stored conversations: counts, refusals, charges and durations of a period."""

from __future__ import annotations

from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from agentserver.core.encoding.history import (
    ActivitySum,
    Condition,
    ConversationFilter,
    UnrecordedError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from agentserver.core.encoding.history import RecordedConversation
    from agentserver.ports import EngineReader
    from agentserver.ports.servers import ServerState, WorkerState


class Period(NamedTuple):
    """Time that an overview covers, and the number of its intervals."""

    seconds: int
    parts: int


PERIODS: Final[Mapping[str, Period]] = MappingProxyType(
    {
        "hour": Period(3_600, 12),
        "day": Period(86_400, 24),
        "week": Period(7 * 86_400, 14),
        "month": Period(30 * 86_400, 30),
        "year": Period(365 * 86_400, 26),
    }
)
"""Periods by name, shortest first."""


TIMED_STEPS: Final = 1_000
"""Steps of the last conversations from which the durations of handlers are taken."""

TIMED_CONVERSATIONS: Final = 50


class HandlerTime(NamedTuple):
    """Time that a handler ran, summed up over its calls.

    Args:
        calls: how many ended.
        seconds: of all.
        longest: seconds of the longest one.
    """

    calls: int = 0
    seconds: float = 0.0
    longest: float = 0.0

    def add(self, took: float) -> HandlerTime:
        """Add a call."""
        return HandlerTime(self.calls + 1, self.seconds + took, max(self.longest, took))


def measure_handlers(reader: EngineReader, since: float) -> dict[str, HandlerTime]:
    """Measure the handlers of listeners in the last conversations since a time, a bounded number of steps.

    The time in which a flow waits for an answer does not count. An engine that records no steps has
    no times.
    """
    found: dict[str, HandlerTime] = {}
    for one in _read_last(reader, since):
        for record in one.records():
            if record.took is not None:
                found[record.to] = found.get(record.to, HandlerTime()).add(record.took)
    return found


def _read_last(reader: EngineReader, since: float) -> Iterator[RecordedConversation]:
    chosen = ConversationFilter((Condition("opened", ">=", Decimal(since)),))
    steps = 0
    for row in reader.list_conversations(chosen, "", TIMED_CONVERSATIONS).rows:
        steps += row.summary.steps
        if steps > TIMED_STEPS:
            return
        try:
            yield reader.recorded_conversation(row.summary.id)
        except (UnrecordedError, LookupError):  # removed since the list was read
            continue


def choose_period(reader: EngineReader, now: float) -> str:
    """Choose the shortest period, from a day on, in which a conversation was opened; a day without any."""
    rows = reader.list_conversations(limit=1).rows
    age = now - rows[0].summary.opened if rows else 0.0
    longer = (name for name in list(PERIODS)[1:] if age < PERIODS[name].seconds)
    return next(longer, "year")


def describe_servers(
    servers: Sequence[ServerState], show: Callable[[str], str] = str
) -> list[dict[str, Any]]:
    """Describe servers with their workers, and which of them are late, for people and programs.

    Args:
        servers: as of their last heartbeats.
        show: makes a name fit to print.
    """
    return [
        {
            "number": one.number,
            "name": show(one.name),
            "state": one.state,
            "since": one.since,
            "seen": one.seen,
            "conversations": one.report.conversations,
            "running": one.report.running,
            "queued": one.report.queued,
            "workers": [_describe_worker(each, one, show) for each in one.report.workers],
        }
        for one in servers
    ]


def _describe_worker(one: WorkerState, server: ServerState, show: Callable[[str], str]) -> dict[str, Any]:
    """Describe a worker. Of a server that is late or ended, nothing better is known."""
    late = server.seen - one.seen > one.patience
    return {
        "listener": show(one.listener),
        "name": show(one.name),
        "state": "late" if late and server.state == "alive" else server.state,
        "since": one.since,
        "seen": one.seen,
        "calls": one.calls,
    }


def describe_activity(
    reader: EngineReader, name: str, now: float, show: Callable[[str], str] = str
) -> dict[str, Any]:
    """Sum up the conversations of a period that ends now, for people and programs.

    Args:
        reader: of the engine.
        name: a key of PERIODS; empty for the shortest one with a conversation.
        now: seconds since the epoch.
        show: makes the name of a principal or listener fit to print.

    Raises KeyError for an unknown period.
    """
    name = name or choose_period(reader, now)
    period = PERIODS[name]
    handlers = measure_handlers(reader, now - period.seconds)
    sums = reader.list_activity(now - period.seconds, now, period.parts)
    times = [one for one in sums if one.kind == "time"]
    return {
        "period": name,
        "since": now - period.seconds,
        "until": now,
        "total": _describe_sum(_add_up(times), show),
        "times": [_describe_sum(one, show) for one in times],
        "principals": [_describe_sum(one, show) for one in sums if one.kind == "principal"],
        "listeners": [
            {**_describe_sum(one, show), **_describe_handler(handlers.get(one.name, HandlerTime()))}
            for one in sums
            if one.kind == "listener"
        ],
    }


def _describe_handler(one: HandlerTime) -> dict[str, Any]:
    mean = one.seconds / one.calls if one.calls else None
    return {"calls": one.calls, "call_mean": mean, "call_longest": one.longest if one.calls else None}


def _add_up(sums: Sequence[ActivitySum]) -> ActivitySum:
    return ActivitySum(
        "time",
        "",
        sums[0].start,
        sum(one.conversations for one in sums),
        sum(one.refused for one in sums),
        sum(one.failed for one in sums),
        sum(one.tokens for one in sums),
        sum(one.money for one in sums),
        sum(one.seconds for one in sums),
        max(one.longest for one in sums),
    )


def _describe_sum(one: ActivitySum, show: Callable[[str], str]) -> dict[str, Any]:
    """Describe a sum with the mean duration of its conversations in seconds, and money in millionths of a dollar."""
    return {
        "name": show(one.name),
        "start": one.start,
        "conversations": one.conversations,
        "refused": one.refused,
        "failed": one.failed,
        "tokens": one.tokens,
        "money": one.money,
        "mean": one.seconds / one.conversations if one.conversations else 0.0,
        "longest": one.longest,
    }
