"""Reads ``hooks:`` of an organism, and checks it against the listeners and their payloads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.config.findings import did_you_mean, index_by_name
from agentserver.config.keys.hooks import HookEntry
from agentserver.payload.codec import Codecs
from agentserver.ports.hooks import Hook
from agentserver.remedies.configuration import ConfigCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agentserver.config.code.binding import Binder
    from agentserver.config.organism import BoundListener
    from agentserver.config.validation import ParsedDocument
    from agentserver.config.yaml.secrets import Secrets


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


class _HookReader:
    def __init__(
        self, main: ParsedDocument, known: dict[str, BoundListener], secrets: Secrets, binder: Binder
    ) -> None:
        self._document, self._known, self._secrets, self._binder = main.document, known, secrets, binder
        self._codecs = Codecs()

    def read(self, entries: Sequence[HookEntry]) -> Iterator[Hook]:
        """Yield the sound hooks."""
        report = self._binder.report
        named = index_by_name(entries, lambda at: self._document.locate(("hooks", at, "name")), report)
        for number, entry in named.values():
            where = self._document.locate(("hooks", number, "secret"))
            report.check_secret(where, "secret", entry.secret, self._secrets)
            payload = self._payload(number, entry)
            if payload is None:
                continue
            codec = self._codecs.of(payload)
            self._check_fields(number, entry, [field.name for field in codec.outline])
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

    def _payload(self, number: int, entry: HookEntry) -> type | None:
        """Find the payload class of a hook's events; None after a finding."""
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
        where = self._document.locate(("hooks", number, "payload"))
        payload = self._binder.payload_class(where, entry.payload)
        if payload is not None and payload not in accepted:
            told = f"{entry.listener} does not accept {payload.__qualname__}"
            self._refuse(ConfigCode.NAME, number, "payload", told, names)
            return None
        return payload

    def _check_fields(self, number: int, entry: HookEntry, known: Sequence[str]) -> None:
        for name in entry.fields:
            if name not in known:
                where = self._document.locate(("hooks", number, "fields", name))
                told = f'the payload has no field "{name}"'
                self._binder.report.error(ConfigCode.NAME, where, told, did_you_mean(name, known))

    def _refuse(self, code: ConfigCode, number: int, key: str, message: str, suggestion: str = "") -> None:
        where = self._document.locate(("hooks", number, key), missing=code is ConfigCode.MISSING)
        self._binder.report.error(code, where, message, suggestion)
