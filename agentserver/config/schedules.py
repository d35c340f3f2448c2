"""Reads ``schedules:`` of an organism: each message is made, and each due time computed, when it loads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from agentserver.config.findings import did_you_mean, index_by_name
from agentserver.config.hooks import PayloadFinder
from agentserver.config.keys.schedules import ScheduleEntry
from agentserver.core.state.principals import Trust
from agentserver.extras import install_hint, is_installed
from agentserver.payload.codec import Codecs
from agentserver.payload.json.elements import element_of
from agentserver.payload.json.values import JsonRefusal
from agentserver.ports.schedules import CronExpression, Interval, Schedule
from agentserver.remedies.configuration import ConfigCode
from agentserver.wire.envelope import canonical

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agentserver.config.code.binding import Binder
    from agentserver.config.organism import BoundListener
    from agentserver.config.validation import ParsedDocument
    from agentserver.ports.schedules import Recurrence

KEY: Final = "schedules"

CRON_FIELDS: Final = 5
"""Minute, hour, day of the month, month, day of the week. A sixth would be seconds."""


def read_schedules(
    main: ParsedDocument, bound: Sequence[BoundListener], binder: Binder
) -> tuple[Schedule, ...]:
    """Read the schedules of an organism; a faulty one is reported and left out."""
    if KEY not in main.document.data.keys() - main.faulty:
        return ()
    reader = _ScheduleReader(main, {each.listener.name: each for each in bound}, binder)
    return tuple(reader.read([ScheduleEntry.model_validate(each) for each in main.document.data[KEY]]))


class _ScheduleReader:
    def __init__(self, main: ParsedDocument, known: dict[str, BoundListener], binder: Binder) -> None:
        self._document, self._report = main.document, binder.report
        self._payloads, self._codecs = PayloadFinder(KEY, main.document, known, binder), Codecs()

    def read(self, entries: Sequence[ScheduleEntry]) -> Iterator[Schedule]:
        """Yield the sound schedules."""
        named = index_by_name(entries, lambda at: self._document.locate((KEY, at, "name")), self._report)
        for number, entry in named.values():
            recurrence, message = self._recurrence(number, entry), self._message(number, entry)
            if recurrence is not None and message is not None:
                yield Schedule(
                    entry.name,
                    entry.listener,
                    message,
                    recurrence,
                    entry.principal or "",
                    Trust(entry.trust),
                    entry.overlap,
                    entry.catch_up,
                )

    def _message(self, number: int, entry: ScheduleEntry) -> bytes | None:
        """Make the message of a schedule; None after a finding."""
        payload = self._payloads.find(number, entry)
        if payload is None:
            return None
        codec = self._codecs.of(payload)
        known = [field.name for field in codec.outline]
        self._payloads.check_fields(number, entry.fields, known)
        if not entry.fields.keys() <= set(known):
            return None
        element = element_of(codec, dict(entry.fields))
        if not isinstance(element, JsonRefusal):
            return canonical(element)
        for fault in element.faults:
            field = fault.pointer.strip("/").partition("/")[0]
            path = (KEY, number, "fields", field) if field in entry.fields else (KEY, number, "fields")
            self._report.error(ConfigCode.VALUE, self._document.locate(path), fault.rule)
        return None

    def _recurrence(self, number: int, entry: ScheduleEntry) -> Recurrence | None:
        """Read the due times of a schedule; None after a finding."""
        if entry.cron is None:
            return self._interval(number, entry)
        if entry.every is not None:
            self._refuse(number, "every", "cannot be given with cron")
        elif not is_installed("schedules"):
            self._refuse(number, "cron", "needs the extra schedules", install_hint("schedules"))
        else:
            return self._cron(number, entry.cron, entry.zone or "UTC")
        return None

    def _interval(self, number: int, entry: ScheduleEntry) -> Interval | None:
        if entry.every is None:
            where = self._document.locate((KEY, number))
            self._report.error(ConfigCode.MISSING, where, "needs every or cron", "every: 1h")
        elif entry.zone is not None:
            self._refuse(number, "zone", "means nothing without cron")
        elif entry.every < 1 or entry.every % 1:
            self._refuse(number, "every", "is a whole number of seconds, at least 1")
        else:
            return Interval(int(entry.every))
        return None

    def _cron(self, number: int, fields: str, zone: str) -> CronExpression | None:
        try:
            ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            self._refuse(
                number, "zone", f'unknown time zone "{zone}"', did_you_mean(zone, available_timezones())
            )
            return None
        found = CronExpression(fields, zone)
        try:
            found.next_after(0)
            told = "" if len(fields.split()) == CRON_FIELDS else "has five fields"
        except ValueError as error:
            told = str(error)
        if told:
            self._refuse(number, "cron", told, "such as 0 7 * * 1-5, at seven on weekdays")
        return None if told else found

    def _refuse(self, number: int, key: str, message: str, suggestion: str = "") -> None:
        self._report.error(ConfigCode.VALUE, self._document.locate((KEY, number, key)), message, suggestion)
