"""Moments that the request leaves to the documents that it names.

The request gives no day itself, and the documents give one, or one span. A moment names no receiver and grants nothing,
but it may bring a payment forward, so that a second day in the documents leaves none. Two kinds of days are no second
one next to another day of the same text, whose author could have written that one alone: a day that the record of the
call has already, as in *on 13 June instead of 12 June*, and a day that is past, as the date of an invoice is.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.provenance.confidentiality.origin import record_of
from agentserver.provenance.evidence.labels import Role
from agentserver.provenance.evidence.readings import read_moment
from agentserver.provenance.judging.authority import find_records, is_written_moment, list_homes
from agentserver.provenance.request.today import gives_moment, read_today

if TYPE_CHECKING:
    from agentserver.provenance.evidence.readings import MomentValue, SaidDay
    from agentserver.provenance.judging.case import Argument, Case

ENDS: Final = 2
"""Ends of a span."""
RECORDS: Final = 512
"""Maximum records among which those of the call are looked for."""
HALF: Final = timedelta(days=183)
"""Half a year: a day without a year is the one nearest to today."""


def is_moment(argument: Argument) -> bool:
    """Check whether an argument is judged as a moment."""
    return argument.rule.role is Role.TIME or is_written_moment(argument)


def is_moment_left_open(case: Case, argument: Argument) -> bool:
    """Check whether the request gives no moment, and the documents give this day, and no time of day but this one.

    Or they give one span, of two days or of two times of a day, and the call has both ends.
    """
    moment = read_moment(argument.leaf.value)
    if moment is None or moment.day is None or not case.named_text:
        return False
    if gives_moment(case.ledger.asked, case.policy.conventions):
        return False
    days, clocks = _list_left(case, moment.day)
    if days == {moment.day} and (moment.clock is None or clocks <= {moment.clock.shown}):
        return True
    ends = _list_moments(case)
    if len(ends) != ENDS or (len(days), len(clocks)) not in {(1, ENDS), (ENDS, 0)}:
        return False
    return {end.day for end in ends} == days and {end.clock.shown for end in ends if end.clock} == clocks


def _list_moments(case: Case) -> list[MomentValue]:
    """List the moments of a call that have a day."""
    moments = (read_moment(each.leaf.value) for each in case.arguments if is_moment(each))
    return [moment for moment in moments if moment is not None and moment.day is not None]


class _Calendar(NamedTuple):
    """Days of reference, by which the days of a document are read.

    Args:
        today: the day of the call, or the one that the request says it is; None if neither is known.
        held: the days of the chosen records that the call is about.
        own: the days of fields that are a day and nothing else.
    """

    today: date | None
    held: frozenset[date]
    own: frozenset[date] = frozenset()

    def list_readings(self, said: SaidDay) -> list[frozenset[date]]:
        """List the sets of dates that a place may mean; none for a weekday or a distance."""
        read = ({self._resolve(key) for key in keys} for keys in said.readings)
        return [frozenset(day for day in days if day is not None) for days in read if None not in days]

    def _resolve(self, key: str) -> date | None:
        """Resolve the key of a day. One without a year is the nearest to today, and None if that is unknown."""
        kind, _, value = key.partition(" ")
        if kind == "date":
            return date.fromisoformat(value)
        if kind != "day" or self.today is None:
            return None
        days = filter(None, (_make_date(self.today.year + shift, value) for shift in (-1, 0, 1)))
        return next((day for day in days if abs(day - self.today) <= HALF), None)

    def is_idle(self, readings: list[frozenset[date]], wanted: date) -> bool:
        """Check whether a place gives no second day: it may mean a known day, or only days that are past."""
        if any(days <= self.held | self.own for days in readings):
            return True
        today = self.today
        return today is not None and wanted >= today and all(day < today for days in readings for day in days)

    def agrees(self, said: SaidDay, days: frozenset[date]) -> bool:
        """Check whether a weekday or a distance, which may not be dated, means one of some days.

        A distance into the past, such as *yesterday*, gives none; in some language it is a common name.
        """
        return all(self._means(key, days) for keys in said.readings for key in keys)

    def _means(self, key: str, days: frozenset[date]) -> bool:
        kind, _, value = key.partition(" ")
        if kind == "weekday":
            return int(value) in {day.weekday() for day in days | self.held | self.own}
        begins = self.own | {self.today}
        return kind == "in" and (
            int(value) < 0 or any(day - timedelta(days=int(value)) in begins for day in days)
        )


def _make_date(year: int, value: str) -> date | None:
    try:
        return date.fromisoformat(f"{year}-{value}")
    except ValueError:
        return None


def _read_calendar(case: Case) -> _Calendar:
    today = read_today(case.ledger.asked, case.policy.conventions)
    if today is None and case.call.time:
        today = datetime.fromtimestamp(case.call.time, UTC).date()
    chosen = (text for each in case.arguments for text in find_records(case, each) if text.chosen)
    homes = list_homes(chosen)
    fields = (text for text in case.ledger.records.entries[:RECORDS] if record_of(text.origin) in homes)
    moments = (read_moment(text.body) for text in fields)
    held = (each.day for each in moments if each is not None and each.day is not None)
    calendar = _Calendar(today, frozenset(held))
    whole = (day for text in case.named_days if text.whole for day in text.days)
    own = (day for each in whole for days in calendar.list_readings(each) for day in days)
    return calendar._replace(own=frozenset(own))


def _list_left(case: Case, wanted: date) -> tuple[frozenset[date], frozenset[str]]:
    """List the days of the named documents and their times of day, without days that are no second one.

    A field that is nothing but a day counts only if no other text has one. No days if one of them is unclear.
    """
    calendar = _read_calendar(case)
    dated = [text for text in case.named_days if text.days]
    texts = [text for text in dated if not text.whole] or dated
    places = [(day, calendar.list_readings(day)) for text in texts for day in text.days]
    if len(texts) == 1 and not texts[0].whole:
        places = [each for each in places if not (each[1] and calendar.is_idle(each[1], wanted))]
    days = frozenset[date]().union(*(_list_ends(readings, wanted) for _, readings in places))
    if not all(calendar.agrees(day, days) for day, readings in places if not readings):
        days = frozenset()
    undated = (text for text in case.named_days if not text.days)
    free = (clock for text in (*texts, *undated) for clock in text.free)
    return days, frozenset((*free, *(clock for day, _ in places for clock in day.clocks)))


def _list_ends(readings: list[frozenset[date]], wanted: date) -> frozenset[date]:
    """List the dates of a place: the wanted one if it may mean that, and the ends of days in a row."""
    if frozenset({wanted}) in readings:
        return frozenset({wanted})
    days = frozenset[date]().union(*readings)
    is_row = len(readings) == 1 and len(days) > 1 and max(days) - min(days) == timedelta(days=len(days) - 1)
    return frozenset({min(days), max(days)}) if is_row else days
