"""Schedules: messages that the server sends at set times. Pure: time is an argument."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice, takewhile
from math import ceil, floor
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias
from zoneinfo import ZoneInfo

from agentserver.characters.printing import format_duration
from agentserver.core.state.principals import Principal, Trust

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Overlap: TypeAlias = Literal["skip", "queue"]
"""Fate of a due time while the message of an earlier one is in progress: it is dropped, or it waits."""

CatchUp: TypeAlias = Literal["last", "all", "none"]
"""Due times that are sent later, of those that passed while no server ran."""

OrderKind: TypeAlias = Literal["paused", "resumed", "run", "ran"]
"""``run`` asks for one message now, and ``ran`` is such an order whose message was sent."""

MOST: int = 1000
"""Due times that are looked back at, and sent at most, after a pause."""

LATE = 60.0
"""Seconds after which a due time counts as missed."""


class Recurrence(Protocol):
    """Series of due times, in seconds since the epoch."""

    def next_after(self, at: float) -> float:
        """Return the first due time after ``at``. Raises ValueError at the end of the series."""

    def back_from(self, at: float) -> Iterator[float]:
        """Yield the due times up to ``at``, the latest first."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Due times at multiples of a number of seconds, counted from the epoch, so that all servers agree on them."""

    seconds: int

    def next_after(self, at: float) -> float:
        """Return the first multiple after ``at``."""
        return float((floor(at / self.seconds) + 1) * self.seconds)

    def back_from(self, at: float) -> Iterator[float]:
        """Yield the multiples up to ``at``, the latest first."""
        latest = floor(at / self.seconds)
        return (float(number * self.seconds) for number in range(latest, -1, -1))

    def __str__(self) -> str:
        """Describe it for people."""
        return f"every {format_duration(self.seconds)}"


@dataclass(frozen=True, slots=True)
class CronExpression:
    """Due times of five cron fields in a time zone, as Debian's cron reads them.

    A time that a change of clocks skips is due right after it, and one that occurs twice is due once. Needs the extra
    ``schedules``.

    Args:
        fields: minute, hour, day of the month, month, day of the week.
        zone: name in the time zone database.
    """

    fields: str
    zone: str = "UTC"

    def next_after(self, at: float) -> float:
        """Return the first due time after ``at``. Raises ValueError for faulty fields, and at the end of the series."""
        for due in self._iter_ticks(floor(at), reverse=False):
            return due
        raise ValueError("it is never due")

    def back_from(self, at: float) -> Iterator[float]:
        """Yield the due times from the epoch to ``at``, the latest first."""
        return takewhile(lambda due: due >= 0, self._iter_ticks(floor(at) + 1, reverse=True))

    def _iter_ticks(self, at: int, *, reverse: bool) -> Iterator[float]:
        from cronsim import CronSim, CronSimError  # needs an extra

        try:
            ticks = CronSim(self.fields, datetime.fromtimestamp(at, ZoneInfo(self.zone)), reverse=reverse)
        except CronSimError as error:
            raise ValueError(str(error)) from None
        return (tick.timestamp() for tick in ticks)

    def __str__(self) -> str:
        """Describe it for people."""
        return f"{self.fields} ({self.zone})"


@dataclass(frozen=True, slots=True)
class Schedule:
    """Message that is sent at each of its due times.

    Args:
        name: part of the keys of its messages.
        listener: gets them.
        message: payload as XML.
        recurrence: its due times.
        owner: name of the principal of its messages; empty for ``schedule-NAME``.
        trust: of the message's values.
        overlap: see ``Overlap``.
        catch_up: see ``CatchUp``.
    """

    name: str
    listener: str
    message: bytes
    recurrence: Recurrence
    owner: str = ""
    trust: Trust = Trust.ORDERS
    overlap: Overlap = "skip"
    catch_up: CatchUp = "last"

    @property
    def principal(self) -> Principal:
        """The principal of its messages, who may address this listener alone."""
        return Principal(self.owner or f"schedule-{self.name}", self.trust, (self.listener,))

    def key_of(self, due: float) -> str:
        """Make the idempotency key of one due time. It is the same at each server and after a restart."""
        return f"{self.name} {datetime.fromtimestamp(due, UTC):%Y-%m-%dT%H:%M:%SZ}"

    def list_due(self, after: float, now: float) -> Sequence[float]:
        """List the due times in ``(after, now]``, oldest first; of more than MOST the latest."""
        found = []
        for due in islice(self.recurrence.back_from(now), MOST):
            if due <= after:
                break
            found.append(due)
        return found[::-1]

    def choose(self, due: Sequence[float], now: float) -> Sequence[float]:
        """Choose the due times to send, of those that have passed and were not sent.

        Args:
            due: oldest first. More than one means that the server did not run, was busy, or that the clock jumped.
            now: present time.
        """
        if self.catch_up == "all":
            return due
        latest = due[-1:]
        return latest if self.catch_up == "last" or all(now - each < LATE for each in latest) else ()


class ScheduleOrder(NamedTuple):
    """Order of an operator about a schedule. Of ``paused`` and ``resumed`` only the latest is stored.

    Args:
        schedule: its name.
        kind: see ``OrderKind``.
        by: name of the operator.
        at: seconds since the epoch. Due times up to that of ``resumed`` are not sent later.
    """

    schedule: str
    kind: OrderKind
    by: str
    at: float


class Occasion(NamedTuple):
    """Reason for one message of a schedule: a due time, or the order of an operator.

    Args:
        schedule: of the message.
        at: the due time, or the time of the order.
        by: the operator; empty for a due time.
    """

    schedule: Schedule
    at: float
    by: str = ""

    @property
    def key(self) -> str:
        """The idempotency key of the message. It is the same at each server and after a restart."""
        if not self.by:
            return self.schedule.key_of(self.at)
        return f"{self.schedule.name} run {datetime.fromtimestamp(self.at, UTC):%Y-%m-%dT%H:%M:%S.%fZ}"

    @property
    def principal(self) -> Principal:
        """The owner of its conversation: an operator owns the message of an own order."""
        mine = self.schedule.principal
        return mine._replace(name=self.by) if self.by else mine


def find_state(orders: Sequence[ScheduleOrder]) -> ScheduleOrder | None:
    """Find whether a schedule was paused or resumed last; None if neither."""
    return next((each for each in orders if each.kind in ("paused", "resumed")), None)


def drop_paused(due: Sequence[float], state: ScheduleOrder | None) -> Sequence[float]:
    """Drop the due times that a pause covers."""
    if state is None:
        return due
    return [each for each in due if each > state.at] if state.kind == "resumed" else ()


def seconds_until(due: float, now: float, maximum: float) -> float:
    """Return how long to sleep before looking at the clock again, which may jump meanwhile."""
    return min(max(ceil((due - now) * 1000) / 1000, 0.0), maximum)
