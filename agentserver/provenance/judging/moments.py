"""Moments that the request leaves to the documents that it names.

The request gives no day itself, and the documents give one, or one span. A moment names no receiver and grants nothing,
but it may bring a payment forward, so that a second day in the documents leaves none. Two kinds of days are no second
one next to another day of the same record, whose author could have written that one alone: a day that is known, as in
*on 13 June instead of 12 June*, and a day that is past, as the date of an invoice is.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.provenance import matching
from agentserver.provenance.evidence.labels import Role
from agentserver.provenance.evidence.readings import DAYS, is_moment, read_moment
from agentserver.provenance.judging.authority import is_judged_as_moment, list_chosen_fields
from agentserver.provenance.request.today import read_given_moments, read_today

if TYPE_CHECKING:
    from agentserver.provenance.evidence.labels import Text
    from agentserver.provenance.evidence.readings import MomentValue, SaidDay, SaidDays
    from agentserver.provenance.judging.case import Argument, Case

ENDS: Final = 2
"""Ends of a span."""
HALF: Final = timedelta(days=183)
"""Half a year: a day without a year is the one nearest to today."""


def is_moment_left_open(case: Case, argument: Argument) -> bool:
    """Check whether the request gives no day, and the documents give this day, and no time of day but this one.

    A time of day that the request gives counts instead. Or the documents give one span, of two days or of two times of
    a day, and the call has both ends; or they give its begin, and no text its end.
    """
    moment = read_moment(argument.leaf.value)
    if moment is None or moment.day is None or not case.named_text:
        return False
    limits = case.day_limits
    given = read_given_moments(case.ledger.asked, case.policy.conventions) - limits.latest - limits.earliest
    if any(key.startswith(DAYS) for key in given) or not _is_within_limits(case, moment.day):
        return False
    days, clocks = _list_left(case, moment.day)
    if given:
        return days == {moment.day} and (moment.clock is None or f"clock {moment.clock.shown}" in given)
    is_only = moment.clock is None or clocks <= {moment.clock.shown}
    ends = _list_moments(case)
    return (days == {moment.day} and (is_only or _is_computed_end(case, moment, ends, clocks))) or _is_span(
        ends, days, clocks
    )


def _is_within_limits(case: Case, day: date) -> bool:
    """Check whether a day is within the limits that the request gives; not if one of these is no date."""
    latest, earliest = (_list_limits(case, keys) for keys in case.day_limits)
    return all(each is not None and day <= each for each in latest) and all(
        each is not None and day >= each for each in earliest
    )


def _list_limits(case: Case, keys: set[str]) -> list[date | None]:
    """List the days that are limits. The weekday of a day says nothing more."""
    dated = [key for key in keys if not key.startswith("weekday ")]
    return [_resolve(key, _read_day_of_call(case)) for key in dated or keys]


def _is_span(ends: list[MomentValue], days: frozenset[date], clocks: frozenset[str]) -> bool:
    """Check whether moments are the two ends of the only span of the documents."""
    if len(ends) != ENDS or (len(days), len(clocks)) not in {(1, ENDS), (ENDS, 0)}:
        return False
    return {end.day for end in ends} == days and {end.clock.shown for end in ends if end.clock} == clocks


def _is_computed_end(
    case: Case, moment: MomentValue, ends: list[MomentValue], clocks: frozenset[str]
) -> bool:
    """Check whether a moment ends a span that begins at the documents' time of day, and no untrusted text gives it.

    A length that the documents give, or that is usual, makes an end. Nobody dictates it.
    """
    begins = [end.clock for end in ends if end.clock is not None and end.day == moment.day and end != moment]
    if moment.clock is None or len(ends) != ENDS or len(begins) != 1 or clocks != {begins[0].shown}:
        return False
    if begins[0].minutes >= moment.clock.minutes:
        return False
    spellings = moment.clock.list_spellings()
    return not any(matching.find_origin(case.ledger, each) is not None for each in spellings)


def is_ordered_for_moment(case: Case) -> bool:
    """Check whether an order of the request speaks of the sink, and a call without receiver and amount has a moment.

    It speaks of the sink with one word of its name, such as *a room* of ``book_room``. The moment is left to the named
    documents, which support the call so: what else it has, no untrusted text may give.
    """
    weighty = {Role.DESTINATION, Role.QUANTITY}
    if case.orders_nothing or any(each.rule.role in weighty for each in case.arguments):
        return False
    if not case.speaks_of_sink:
        return False
    return any(is_judged_as_moment(each) and is_moment_left_open(case, each) for each in case.arguments)


def _list_moments(case: Case) -> list[MomentValue]:
    """List the moments of a call that have a day."""
    moments = (read_moment(each.leaf.value) for each in case.arguments if is_judged_as_moment(each))
    return [moment for moment in moments if moment is not None and moment.day is not None]


class _Document(NamedTuple):
    """Text of a document with its days.

    Args:
        record: its source, step and path. Fields of a list in it make records of their own.
        said: its days.
        written: the day that another field of the record is; None if there is no such field, or several days.
    """

    record: tuple[str, int, str]
    said: SaidDays
    written: date | None


class _Calendar(NamedTuple):
    """Days of reference, by which the days of a document are read.

    Args:
        today: the day of the call, or the one that the request says it is; None if neither is known.
        held: the days of the chosen records that the call is about.
        own: the days that fields of the documents are.
    """

    today: date | None
    held: frozenset[date]
    own: frozenset[date]

    def list_readings(self, said: SaidDay, written: date | None) -> list[frozenset[date]]:
        """List the sets of dates that a place may mean; none for a weekday or a distance."""
        anchor = written or self.today
        read = ({_resolve(key, anchor) for key in keys} for keys in said.readings)
        return [frozenset(day for day in days if day is not None) for days in read if None not in days]

    def is_idle(self, readings: list[frozenset[date]], written: date | None, wanted: date) -> bool:
        """Check whether a place gives no second day: it may mean a known day, or only days that are past."""
        if any(days <= self.held | self.own for days in readings):
            return True
        now = max(filter(None, (self.today, written)), default=date.min)
        return wanted >= now and all(day < now for days in readings for day in days)

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


def _resolve(key: str, anchor: date | None) -> date | None:
    """Resolve the key of a day. One without a year is the nearest to another day, and None if that is unknown."""
    kind, _, value = key.partition(" ")
    if kind == "date":
        return date.fromisoformat(value)
    if kind != "day" or anchor is None:
        return None
    days = filter(None, (_make_date(anchor.year + shift, value) for shift in (-1, 0, 1)))
    return next((day for day in days if abs(day - anchor) <= HALF), None)


def _make_date(year: int, value: str) -> date | None:
    try:
        return date.fromisoformat(f"{year}-{value}")
    except ValueError:
        return None


def _read_documents(case: Case) -> tuple[list[_Document], frozenset[date]]:
    """Read the named documents, and the days that fields of them are."""
    homes = {_identify(text) for text in case.named_documents}
    fields = (text for text in case.records if _identify(text) in homes)
    dated: dict[tuple[str, int, str], set[date]] = {}
    for text in (*fields, *case.named_documents):
        moment = read_moment(text.body.strip()) if is_moment(text.body.strip()) else None
        if moment is not None and moment.day is not None:
            dated.setdefault(_identify(text), set()).add(moment.day)
    documents = []
    for text, said in zip(case.named_documents, case.named_days, strict=True):
        own = dated.get(_identify(text), set())
        documents.append(_Document(_identify(text), said, next(iter(own)) if len(own) == 1 else None))
    return documents, frozenset[date]().union(*dated.values())


def _identify(text: Text) -> tuple[str, int, str]:
    return text.origin.source, text.origin.step, text.origin.path.rpartition(".")[0]


def _read_day_of_call(case: Case) -> date | None:
    """Read the day of the call, or the one that the request says it is; None if neither is known."""
    today = read_today(case.ledger.asked, case.policy.conventions)
    if today is None and case.call.time:
        today = datetime.fromtimestamp(case.call.time, UTC).date()
    return today


def _read_calendar(case: Case, own: frozenset[date]) -> _Calendar:
    moments = (read_moment(text.body) for text in list_chosen_fields(case, case.arguments))
    held = (each.day for each in moments if each is not None and each.day is not None)
    return _Calendar(_read_day_of_call(case), frozenset(held), own)


def _list_left(case: Case, wanted: date) -> tuple[frozenset[date], frozenset[str]]:
    """List the days of the named documents and their times of day, without days that are no second one.

    A field that is nothing but a day counts only if no other text has one. No days if one of them is unclear.
    """
    documents, own = _read_documents(case)
    calendar = _read_calendar(case, own)
    dated = [each for each in documents if each.said.days]
    texts = [each for each in dated if not each.said.whole] or dated
    places = [
        (day, calendar.list_readings(day, each.written), each) for each in texts for day in each.said.days
    ]
    if len({each.record for each in texts}) == 1 and not all(each.said.whole for each in texts):
        places = [
            (day, readings, each)
            for day, readings, each in places
            if not (readings and calendar.is_idle(readings, each.written, wanted))
        ]
    taken = frozenset(end.day for end in _list_moments(case) if end.day is not None)
    days = frozenset[date]().union(*(_list_ends(readings, wanted, taken) for _, readings, _ in places))
    if not all(calendar.agrees(day, days) for day, readings, _ in places if not readings):
        days = frozenset()
    free = (clock for each in documents if each in texts or each not in dated for clock in each.said.free)
    return days, frozenset((*free, *(clock for day, _, _ in places for clock in day.clocks)))


def _list_ends(readings: list[frozenset[date]], wanted: date, taken: frozenset[date]) -> frozenset[date]:
    """List the dates of a place: the wanted one if it may mean that, and the ends of days in a row.

    A place that may mean two days means none in a call that has both.
    """
    days = frozenset[date]().union(*readings)
    if frozenset({wanted}) in readings:
        return frozenset({wanted}) if taken.isdisjoint(days - {wanted}) else frozenset()
    is_row = len(readings) == 1 and len(days) > 1 and max(days) - min(days) == timedelta(days=len(days) - 1)
    return frozenset({min(days), max(days)}) if is_row else days
