"""Reads ``hooks:``, ``inbox:`` and ``schedules:`` of an organism, and checks them against the listeners and payloads.

Each message of a schedule is made, and each due time computed, when the organism loads.
"""

from __future__ import annotations

from os.path import normpath
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from agentserver.config.findings import did_you_mean
from agentserver.config.keys.fields import build_value
from agentserver.config.keys.triggers import HookEntry, InboxEntry, ScheduleEntry
from agentserver.core.state.principals import Trust
from agentserver.extras import install_hint, is_installed
from agentserver.payload.codec import Codecs
from agentserver.payload.json.elements import convert_element
from agentserver.payload.json.values import JsonRefusal
from agentserver.ports.hooks import Hook, Inbox
from agentserver.ports.schedules import CronExpression, Interval, Schedule
from agentserver.remedies.configuration import ConfigCode
from agentserver.wire.envelope import canonical

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from agentserver.config.code.binding import Binder
    from agentserver.config.findings import Mistakes
    from agentserver.config.organism import BoundListener
    from agentserver.config.validation import DeclaredEntry, ParsedDocument
    from agentserver.config.yaml.secrets import Secrets
    from agentserver.payload.codec import Codec
    from agentserver.ports.schedules import Recurrence


def iter_hooks(
    main: ParsedDocument, payloads: PayloadFinder, secrets: Secrets, report: Mistakes
) -> Iterator[Hook]:
    """Yield the hooks of an organism; a faulty one is reported and left out."""
    if main.declares("hooks") and "http" not in main.document.data:
        span = main.document.locate(("hooks",))
        report.add_error(ConfigCode.MISSING, span, "needs a door", '"http: {}"')
    for declared in main.list_named("hooks", HookEntry, report):
        entry = declared.entry
        report.check_secret(declared.locate("secret"), "secret", entry.secret, secrets)
        codec = payloads.find_with_fields(declared)
        if codec is not None:
            yield build_value(Hook, entry, root=codec.name)


def iter_inboxes(main: ParsedDocument, payloads: PayloadFinder, report: Mistakes) -> Iterator[Inbox]:
    """Yield the inboxes of an organism; a faulty one is reported and left out.

    Two with one folder would take each other's files.
    """
    folders: dict[str, str] = {}
    for declared in main.list_named("inbox", InboxEntry, report):
        entry = declared.entry
        other = folders.setdefault(normpath(entry.folder), entry.name)
        if other != entry.name:
            span = declared.locate("folder")
            report.add_error(
                ConfigCode.NAME, span, f"is the folder of {other} too", "one folder for each inbox"
            )
        codec = payloads.find_with_fields(declared)
        if codec is not None:
            yield build_value(Inbox, entry, root=codec.name)


class PayloadFinder:
    """Finder of the payload classes of entries with a ``listener``, a ``payload`` (or None) and ``fields``.

    Args:
        bound: the listeners.
        binder: finds classes, and has the report.
    """

    def __init__(self, bound: Iterable[BoundListener], binder: Binder) -> None:
        self._known = {each.listener.name: each for each in bound}
        self._binder, self._report, self._codecs = binder, binder.report, Codecs()

    def find_with_fields(self, declared: DeclaredEntry[Any]) -> Codec | None:
        """Find the payload's codec of an entry, and report the fields that it does not have; None after a finding."""
        payload = self.find(declared)
        if payload is None:
            return None
        codec = self._codecs.of(payload)
        known = [field.name for field in codec.outline]
        for name in declared.entry.fields:
            if name not in known:
                message = f'the payload has no field "{name}"'
                span = declared.locate("fields", name)
                self._report.add_error(ConfigCode.NAME, span, message, did_you_mean(name, known))
        return codec

    def find(self, declared: DeclaredEntry[Any]) -> type | None:
        """Find the payload class of an entry; None after a finding."""
        entry, span = declared.entry, declared.locate("payload")
        self._report.check_listener(declared.locate("listener"), entry.listener, self._known)
        listener = self._known.get(entry.listener)
        if listener is None:
            return None
        accepted = listener.listener.payloads
        names = ", ".join(each.__qualname__ for each in accepted)
        if entry.payload is None:
            if len(accepted) > 1:
                place = declared.locate("payload", missing=True)
                self._report.add_error(
                    ConfigCode.MISSING, place, f"is missing: {entry.listener} accepts {names}"
                )
            return accepted[0] if len(accepted) == 1 else None
        payload = self._binder.import_payload_class(span, entry.payload)
        if payload is not None and payload not in accepted:
            message = f"{entry.listener} does not accept {payload.__qualname__}"
            self._report.add_error(ConfigCode.NAME, span, message, names)
            return None
        return payload


CRON_FIELDS: Final = 5
"""Minute, hour, day of the month, month, day of the week. A sixth would be seconds."""


def iter_schedules(main: ParsedDocument, payloads: PayloadFinder, report: Mistakes) -> Iterator[Schedule]:
    """Yield the schedules of an organism; a faulty one is reported and left out."""
    for declared in main.list_named("schedules", ScheduleEntry, report):
        entry, recurrence = declared.entry, _find_recurrence(declared, report)
        message = _make_message(declared, payloads, report)
        if recurrence is not None and message is not None:
            known = {"message": message, "recurrence": recurrence, "trust": Trust(entry.trust)}
            yield build_value(Schedule, entry, owner=entry.principal or "", **known)


def _make_message(
    declared: DeclaredEntry[ScheduleEntry], payloads: PayloadFinder, report: Mistakes
) -> bytes | None:
    """Make the message of a schedule; None after a finding."""
    codec, fields = payloads.find_with_fields(declared), declared.entry.fields
    if codec is None or not fields.keys() <= {field.name for field in codec.outline}:
        return None
    element = convert_element(codec, dict(fields))
    if not isinstance(element, JsonRefusal):
        return canonical(element)
    for fault in element.faults:
        field = fault.pointer.strip("/").partition("/")[0]
        span = declared.locate("fields", *([field] if field in fields else []))
        report.add_error(ConfigCode.VALUE, span, fault.rule)
    return None


def _find_recurrence(declared: DeclaredEntry[ScheduleEntry], report: Mistakes) -> Recurrence | None:
    """Read the due times of a schedule; None after a finding."""
    entry, code = declared.entry, ConfigCode.VALUE
    if entry.cron is None and entry.every is None:
        report.add_error(ConfigCode.MISSING, declared.locate(), "needs every or cron", "every: 1h")
    elif entry.cron is not None and entry.every is not None:
        report.add_error(code, declared.locate("every"), "cannot be given with cron")
    elif entry.cron is not None and not is_installed("schedules"):
        hint = install_hint("schedules")
        report.add_error(code, declared.locate("cron"), "needs the extra schedules", hint)
    elif entry.cron is not None:
        return _find_cron(declared, entry.cron, report)
    elif entry.zone is not None:
        report.add_error(code, declared.locate("zone"), "means nothing without cron")
    elif entry.every is not None and entry.every >= 1 and entry.every % 1 == 0:
        return Interval(int(entry.every))
    else:
        report.add_error(code, declared.locate("every"), "is a whole number of seconds, at least 1")
    return None


def _find_cron(
    declared: DeclaredEntry[ScheduleEntry], fields: str, report: Mistakes
) -> CronExpression | None:
    zone = declared.entry.zone or "UTC"
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        hint = did_you_mean(zone, available_timezones())
        report.add_error(ConfigCode.VALUE, declared.locate("zone"), f'unknown time zone "{zone}"', hint)
        return None
    found = CronExpression(fields, zone)
    message = "" if len(fields.split()) == CRON_FIELDS else "has five fields"  # the library reads a sixth
    try:
        if not message:
            found.next_after(0)
    except ValueError as error:
        message = f"has no due time: {str(error).lower()}"
    if message:
        hint = "such as 0 7 * * 1-5, at seven on weekdays"
        report.add_error(ConfigCode.VALUE, declared.locate("cron"), message, hint)
    return None if message else found
