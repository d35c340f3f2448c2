"""Reads ``hooks:``, ``inbox:`` and ``schedules:`` of an organism, and checks them against the listeners and payloads.

Each message of a schedule is made, and each due time computed, when the organism loads.
"""

from __future__ import annotations

from os.path import normpath
from typing import TYPE_CHECKING, Final, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from agentserver.config.findings import did_you_mean, index_by_name
from agentserver.config.keys.triggers import HookEntry, InboxEntry, ScheduleEntry
from agentserver.core.state.principals import Trust
from agentserver.extras import install_hint, is_installed
from agentserver.payload.codec import Codecs
from agentserver.payload.json.elements import element_of
from agentserver.payload.json.values import JsonRefusal
from agentserver.ports.hooks import Hook, Inbox
from agentserver.ports.schedules import CronExpression, Interval, Schedule
from agentserver.remedies.configuration import ConfigCode
from agentserver.wire.envelope import canonical

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from agentserver.config.code.binding import Binder
    from agentserver.config.findings import Mistakes
    from agentserver.config.organism import BoundListener
    from agentserver.config.validation import ParsedDocument
    from agentserver.config.yaml.document import Document
    from agentserver.config.yaml.secrets import Secrets
    from agentserver.ports.schedules import Recurrence

INBOX: Final = "inbox"


def read_hooks(
    main: ParsedDocument, bound: Sequence[BoundListener], secrets: Secrets, binder: Binder
) -> tuple[Hook, ...]:
    """Read the hooks of an organism; a faulty one is reported and left out."""
    if "hooks" not in main.document.data.keys() - main.faulty:
        return ()
    if "http" not in main.document.data:
        span = main.document.locate(("hooks",))
        binder.report.error(ConfigCode.MISSING, span, "needs a door", '"http: {}"')
    known = {each.listener.name: each for each in bound}
    reader = _HookReader(main, known, secrets, binder)
    entries = [HookEntry.model_validate(each) for each in main.document.data["hooks"]]
    return tuple(reader.read(entries))


def read_inboxes(main: ParsedDocument, bound: Sequence[BoundListener], binder: Binder) -> tuple[Inbox, ...]:
    """Read the inboxes of an organism; a faulty one is reported and left out."""
    if INBOX not in main.document.data.keys() - main.faulty:
        return ()
    known = {each.listener.name: each for each in bound}
    payloads = PayloadFinder(INBOX, main.document, known, binder)
    entries = [InboxEntry.model_validate(each) for each in main.document.data[INBOX]]
    return tuple(_find_inboxes(main.document, entries, payloads, binder.report))


def _find_inboxes(
    document: Document, entries: Sequence[InboxEntry], payloads: PayloadFinder, report: Mistakes
) -> Iterator[Inbox]:
    """Yield the sound inboxes. Two with one folder would take each other's files."""
    by_name = index_by_name(entries, lambda at: document.locate((INBOX, at, "name")), report)
    folders: dict[str, str] = {}
    codecs = Codecs()
    for number, entry in by_name.values():
        other = folders.setdefault(normpath(entry.folder), entry.name)
        if other != entry.name:
            span = document.locate((INBOX, number, "folder"))
            report.error(ConfigCode.NAME, span, f"is the folder of {other} too", "one folder for each inbox")
        payload = payloads.find(number, entry)
        if payload is None:
            continue
        codec = codecs.of(payload)
        payloads.check_fields(number, entry.fields, [field.name for field in codec.outline])
        yield Inbox(root=codec.name, **entry.model_dump(exclude={"payload"}))


class _HookReader:
    def __init__(
        self, main: ParsedDocument, known: dict[str, BoundListener], secrets: Secrets, binder: Binder
    ) -> None:
        self._document, self._secrets, self._report = main.document, secrets, binder.report
        self._payloads = PayloadFinder("hooks", main.document, known, binder)
        self._codecs = Codecs()

    def read(self, entries: Sequence[HookEntry]) -> Iterator[Hook]:
        """Yield the sound hooks."""
        report = self._report
        by_name = index_by_name(entries, lambda at: self._document.locate(("hooks", at, "name")), report)
        for number, entry in by_name.values():
            span = self._document.locate(("hooks", number, "secret"))
            report.check_secret(span, "secret", entry.secret, self._secrets)
            payload = self._payloads.find(number, entry)
            if payload is None:
                continue
            codec = self._codecs.of(payload)
            self._payloads.check_fields(number, entry.fields, [field.name for field in codec.outline])
            yield Hook(
                entry.name,
                entry.listener,
                codec.name,
                entry.signature,
                entry.secret,
                entry.fields,
                entry.only,
                entry.tolerance,
            )


class PayloadEntry(Protocol):
    """Entry of the YAML that sends a payload to a listener."""

    @property
    def listener(self) -> str:
        """Name of the listener."""

    @property
    def payload(self) -> str | None:
        """Dotted path of the payload class; None for the only one that the listener takes."""


class PayloadFinder:
    """Finder of the payload classes of a list of entries.

    Args:
        key: of the list in the YAML.
        document: has the places of its entries.
        known: the listeners by name.
        binder: finds classes, and has the report.
    """

    def __init__(
        self, key: str, document: Document, known: Mapping[str, BoundListener], binder: Binder
    ) -> None:
        self._key, self._document, self._known, self._binder = key, document, known, binder

    def find(self, number: int, entry: PayloadEntry) -> type | None:
        """Find the payload class of an entry; None after a finding."""
        listener = self._known.get(entry.listener)
        if listener is None:
            message = f'unknown listener "{entry.listener}"'
            self._refuse(
                ConfigCode.NAME, number, "listener", message, did_you_mean(entry.listener, self._known)
            )
            return None
        accepted = listener.listener.payloads
        names = ", ".join(each.__qualname__ for each in accepted)
        if entry.payload is None:
            if len(accepted) > 1:
                self._refuse(
                    ConfigCode.MISSING, number, "payload", f"is missing: {entry.listener} accepts {names}"
                )
            return accepted[0] if len(accepted) == 1 else None
        span = self._document.locate((self._key, number, "payload"))
        payload = self._binder.payload_class(span, entry.payload)
        if payload is not None and payload not in accepted:
            message = f"{entry.listener} does not accept {payload.__qualname__}"
            self._refuse(ConfigCode.NAME, number, "payload", message, names)
            return None
        return payload

    def check_fields(self, number: int, fields: Iterable[str], known: Sequence[str]) -> None:
        """Report the fields that a payload does not have."""
        for name in fields:
            if name not in known:
                span = self._document.locate((self._key, number, "fields", name))
                message = f'the payload has no field "{name}"'
                self._binder.report.error(ConfigCode.NAME, span, message, did_you_mean(name, known))

    def _refuse(self, code: ConfigCode, number: int, key: str, message: str, suggestion: str = "") -> None:
        span = self._document.locate((self._key, number, key), missing=code is ConfigCode.MISSING)
        self._binder.report.error(code, span, message, suggestion)


SCHEDULES: Final = "schedules"

CRON_FIELDS: Final = 5
"""Minute, hour, day of the month, month, day of the week. A sixth would be seconds."""


def read_schedules(
    main: ParsedDocument, bound: Sequence[BoundListener], binder: Binder
) -> tuple[Schedule, ...]:
    """Read the schedules of an organism; a faulty one is reported and left out."""
    if SCHEDULES not in main.document.data.keys() - main.faulty:
        return ()
    reader = _ScheduleReader(main, {each.listener.name: each for each in bound}, binder)
    return tuple(reader.read([ScheduleEntry.model_validate(each) for each in main.document.data[SCHEDULES]]))


class _ScheduleReader:
    def __init__(self, main: ParsedDocument, known: dict[str, BoundListener], binder: Binder) -> None:
        self._document, self._report = main.document, binder.report
        self._payloads, self._codecs = PayloadFinder(SCHEDULES, main.document, known, binder), Codecs()

    def read(self, entries: Sequence[ScheduleEntry]) -> Iterator[Schedule]:
        """Yield the sound schedules."""
        by_name = index_by_name(
            entries, lambda at: self._document.locate((SCHEDULES, at, "name")), self._report
        )
        for number, entry in by_name.values():
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
            path = (
                (SCHEDULES, number, "fields", field)
                if field in entry.fields
                else (SCHEDULES, number, "fields")
            )
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
            span = self._document.locate((SCHEDULES, number))
            self._report.error(ConfigCode.MISSING, span, "needs every or cron", "every: 1h")
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
        message = "" if len(fields.split()) == CRON_FIELDS else "has five fields"  # the library reads a sixth
        try:
            if not message:
                found.next_after(0)
        except ValueError as error:
            message = f"has no due time: {str(error).lower()}"
        if message:
            self._refuse(number, "cron", message, "such as 0 7 * * 1-5, at seven on weekdays")
        return None if message else found

    def _refuse(self, number: int, key: str, message: str, suggestion: str = "") -> None:
        self._report.error(
            ConfigCode.VALUE, self._document.locate((SCHEDULES, number, key)), message, suggestion
        )
