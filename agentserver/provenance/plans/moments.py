"""Dates, moments and times of day, and the durations between them.

Parsing is strict: a text counts in ISO form, or as a date with the month's name and the year. Months are no
durations.
"""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

from agentserver.provenance.evidence.leaves import parse_spoken_date

if TYPE_CHECKING:
    from agentserver.provenance.evidence.labels import Scalar

Moment: TypeAlias = date | datetime | time

LONGEST: Final = 40
"""Characters of a moment at most."""

_TIME: Final = re.compile(r"\d{1,2}:\d{2}(?::\d{2})?")
_DATED: Final = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]|$)")
_ISO: Final = re.compile(
    r"(?P<sign>-)?P(?:(?P<weeks>\d{1,4})W)?(?:(?P<days>\d{1,5})D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d{1,5})H)?(?:(?P<minutes>\d{1,6})M)?(?:(?P<seconds>\d{1,7})S)?)?"
)
_SPOKEN: Final = re.compile(r"(\d{1,6})\s*(week|day|hour|minute|second)s?")
_UNITS: Final = ("weeks", "days", "hours", "minutes", "seconds")
_DAY: Final = datetime(2000, 1, 3)  # noqa: DTZ001  any day: a time of day is moved within one


def parse_duration(text: str) -> timedelta | None:
    """Parse a duration such as ``P1DT2H``, ``2 days`` or ``-1 hour 30 minutes``; None for other texts."""
    body = text.strip()
    found = _ISO.fullmatch(body)
    if found is not None and any(found[unit] for unit in _UNITS):
        length = timedelta(**{unit: int(found[unit] or 0) for unit in _UNITS})
        return -length if found["sign"] else length
    words = body.lower().removeprefix("-").strip()
    pieces = _SPOKEN.findall(words)
    if not pieces or re.sub(r"[\s,]+|\band\b", "", _SPOKEN.sub("", words)):
        return None
    length = sum((timedelta(**{f"{unit}s": int(count)}) for count, unit in pieces), timedelta())
    return -length if body.startswith("-") else length


def format_duration(length: timedelta) -> str:
    """Format a duration as ``1 day 2 hours``, which ``parse_duration`` reads back."""
    seconds = int(abs(length).total_seconds())
    parts = []
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1)):
        count, seconds = divmod(seconds, size)
        parts += [f"{count} {unit}{'s' * (count != 1)}"] if count else []
    return ("-" if length < timedelta() else "") + (" ".join(parts) or "0 seconds")


def parse_moment(value: Scalar) -> Moment | None:
    """Parse a scalar as a date, a time of day, or a moment, which has both; None for other values."""
    if isinstance(value, date | time):
        return value
    body = value.strip() if isinstance(value, str) else ""
    try:
        if _TIME.fullmatch(body):
            return time.fromisoformat(body.zfill(len(body) + (body[1] == ":")))
        if len(body) > LONGEST:
            return None
        if not _DATED.match(body):
            return parse_spoken_date(body)
        return date.fromisoformat(body) if len(body) == len("2000-01-03") else datetime.fromisoformat(body)
    except ValueError:
        return None


def subtract(value: Moment, by: timedelta) -> Moment | None:
    """Subtract a duration and keep the form; None if that form cannot express the result."""
    try:
        if isinstance(value, datetime):
            return value - by
        if isinstance(value, date):
            return None if by % timedelta(days=1) else value - by
        moved = datetime.combine(_DAY, value) - by
    except OverflowError:
        return None
    return moved.timetz() if moved.date() == _DAY.date() else None


def is_same_moment(one: Moment, other: Moment) -> bool:
    """Compare two moments. A date alone means its midnight and no other time of that day."""
    if isinstance(one, time) or isinstance(other, time):
        return one == other
    return _as_datetime(one) == _as_datetime(other)


def _as_datetime(value: date) -> datetime:
    return value if isinstance(value, datetime) else datetime.combine(value, time())
