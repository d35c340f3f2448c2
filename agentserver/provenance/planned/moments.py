"""Dates, moments and times of day, and what lies between them.

Owns reading them strictly from scalars, moving them, and the two spellings of a duration. Refuses to guess: a text is
one in ISO's form, or as a date whose month is a word and whose year is said; months have no length.
"""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

from agentserver.provenance.evidence.leaves import spoken_date

if TYPE_CHECKING:
    from agentserver.provenance.evidence.labels import Scalar

Moment: TypeAlias = date | datetime | time

LONGEST: Final = 40
"""Characters of a moment."""

_TIME: Final = re.compile(r"\d{1,2}:\d{2}(?::\d{2})?")
_DATED: Final = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]|$)")
_ISO: Final = re.compile(
    r"(?P<sign>-)?P(?:(?P<weeks>\d{1,4})W)?(?:(?P<days>\d{1,5})D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d{1,5})H)?(?:(?P<minutes>\d{1,6})M)?(?:(?P<seconds>\d{1,7})S)?)?"
)
_SPOKEN: Final = re.compile(r"(\d{1,6})\s*(week|day|hour|minute|second)s?")
_UNITS: Final = ("weeks", "days", "hours", "minutes", "seconds")
_DAY: Final = datetime(2000, 1, 3)  # noqa: DTZ001  any day: a time of day is moved within one


def duration(text: str) -> timedelta | None:
    """The length that a text names: ``P1DT2H``, ``2 days``, ``-1 hour 30 minutes``; None for any other."""
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


def spoken(length: timedelta) -> str:
    """A length in words: ``1 day 2 hours``; whatever ``duration`` reads back."""
    seconds = int(abs(length).total_seconds())
    parts = []
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1)):
        count, seconds = divmod(seconds, size)
        parts += [f"{count} {unit}{'s' * (count != 1)}"] if count else []
    return ("-" if length < timedelta() else "") + (" ".join(parts) or "0 seconds")


def moment(value: Scalar) -> Moment | None:
    """The date, moment or time of day that a scalar is; a moment has a date and a time of day."""
    if isinstance(value, date | time):
        return value
    body = value.strip() if isinstance(value, str) else ""
    try:
        if _TIME.fullmatch(body):
            return time.fromisoformat(body.zfill(len(body) + (body[1] == ":")))
        if len(body) > LONGEST:
            return None
        if not _DATED.match(body):
            return spoken_date(body)
        return date.fromisoformat(body) if len(body) == len("2000-01-03") else datetime.fromisoformat(body)
    except ValueError:
        return None


def earlier(value: Moment, by: timedelta) -> Moment | None:
    """The moment so much earlier, of the same form; None where that form cannot say it."""
    try:
        if isinstance(value, datetime):
            return value - by
        if isinstance(value, date):
            return None if by % timedelta(days=1) else value - by
        moved = datetime.combine(_DAY, value) - by
    except OverflowError:
        return None
    return moved.timetz() if moved.date() == _DAY.date() else None


def simultaneous(one: Moment, other: Moment) -> bool:
    """True for the same moment. A date alone is its midnight, and no other time of that day."""
    if isinstance(one, time) or isinstance(other, time):
        return one == other
    return _dated(one) == _dated(other)


def _dated(value: date) -> datetime:
    return value if isinstance(value, datetime) else datetime.combine(value, time())
