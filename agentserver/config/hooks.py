"""Reads ``hooks:`` and ``inbox:`` of an organism, and checks them against the listeners and their payloads."""

from __future__ import annotations

from os.path import normpath
from typing import TYPE_CHECKING, Final, Protocol

from agentserver.config.findings import did_you_mean, index_by_name
from agentserver.config.keys.hooks import HookEntry, InboxEntry
from agentserver.payload.codec import Codecs
from agentserver.ports.hooks import Hook, Inbox
from agentserver.remedies.configuration import ConfigCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from agentserver.config.code.binding import Binder
    from agentserver.config.findings import Mistakes
    from agentserver.config.organism import BoundListener
    from agentserver.config.validation import ParsedDocument
    from agentserver.config.yaml.document import Document
    from agentserver.config.yaml.secrets import Secrets

INBOX: Final = "inbox"


def read_hooks(
    main: ParsedDocument, bound: Sequence[BoundListener], secrets: Secrets, binder: Binder
) -> tuple[Hook, ...]:
    """Read the hooks of an organism; a faulty one is reported and left out."""
    if "hooks" not in main.document.data.keys() - main.faulty:
        return ()
    if "http" not in main.document.data:
        where = main.document.locate(("hooks",))
        binder.report.error(ConfigCode.MISSING, where, "needs a door", '"http: {}"')
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
    named = index_by_name(entries, lambda at: document.locate((INBOX, at, "name")), report)
    folders: dict[str, str] = {}
    codecs = Codecs()
    for number, entry in named.values():
        other = folders.setdefault(normpath(entry.folder), entry.name)
        if other != entry.name:
            where = document.locate((INBOX, number, "folder"))
            report.error(ConfigCode.NAME, where, f"is the folder of {other} too", "one folder for each inbox")
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
        named = index_by_name(entries, lambda at: self._document.locate(("hooks", at, "name")), report)
        for number, entry in named.values():
            where = self._document.locate(("hooks", number, "secret"))
            report.check_secret(where, "secret", entry.secret, self._secrets)
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
            told = f'unknown listener "{entry.listener}"'
            self._refuse(ConfigCode.NAME, number, "listener", told, did_you_mean(entry.listener, self._known))
            return None
        accepted = listener.listener.payloads
        names = ", ".join(each.__qualname__ for each in accepted)
        if entry.payload is None:
            if len(accepted) > 1:
                self._refuse(
                    ConfigCode.MISSING, number, "payload", f"is missing: {entry.listener} accepts {names}"
                )
            return accepted[0] if len(accepted) == 1 else None
        where = self._document.locate((self._key, number, "payload"))
        payload = self._binder.payload_class(where, entry.payload)
        if payload is not None and payload not in accepted:
            told = f"{entry.listener} does not accept {payload.__qualname__}"
            self._refuse(ConfigCode.NAME, number, "payload", told, names)
            return None
        return payload

    def check_fields(self, number: int, fields: Iterable[str], known: Sequence[str]) -> None:
        """Report the fields that a payload does not have."""
        for name in fields:
            if name not in known:
                where = self._document.locate((self._key, number, "fields", name))
                told = f'the payload has no field "{name}"'
                self._binder.report.error(ConfigCode.NAME, where, told, did_you_mean(name, known))

    def _refuse(self, code: ConfigCode, number: int, key: str, message: str, suggestion: str = "") -> None:
        where = self._document.locate((self._key, number, key), missing=code is ConfigCode.MISSING)
        self._binder.report.error(code, where, message, suggestion)
