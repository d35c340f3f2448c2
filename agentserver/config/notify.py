"""Reads ``notify:`` of an organism, and checks it against the listeners."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from agentserver.config.findings import did_you_mean, index_by_name
from agentserver.config.keys.endpoints import NotifyEntry
from agentserver.ports.identity import is_loopback
from agentserver.ports.notices import Notifier
from agentserver.remedies.configuration import ConfigCode

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from agentserver.config.findings import Mistakes
    from agentserver.config.validation import ParsedDocument
    from agentserver.config.yaml.document import Document
    from agentserver.config.yaml.secrets import Secrets

KEY: Final = "notify"

SHORTEST, LONGEST = 24, 64
"""Bytes of a key, as Standard Webhooks recommends them."""

_NO_KEY: Final = "is no secret of Standard Webhooks: whsec_ and Base64 of 24 to 64 bytes"
_MAKE: Final = "echo whsec_$(openssl rand -base64 32)"


def read_notifiers(
    main: ParsedDocument, known: Collection[str], secrets: Secrets, report: Mistakes
) -> tuple[Notifier, ...]:
    """Read the notifiers of an organism; a faulty one is reported and left out.

    Args:
        main: the main file.
        known: names of the listeners.
        secrets: those of the organism.
        report: gets the mistakes.
    """
    if KEY not in main.document.data.keys() - main.faulty:
        return ()
    return tuple(_NotifierReader(main.document, known, secrets, report).read())


class _NotifierReader:
    def __init__(
        self, document: Document, known: Collection[str], secrets: Secrets, report: Mistakes
    ) -> None:
        self._document, self._known, self._secrets, self._report = document, known, secrets, report

    def read(self) -> Iterator[Notifier]:
        """Yield the sound notifiers."""
        entries = [NotifyEntry.model_validate(each) for each in self._document.data[KEY]]
        by_name = index_by_name(entries, lambda at: self._document.locate((KEY, at, "name")), self._report)
        for number, entry in by_name.values():
            for at, name in enumerate(entry.listeners):
                if name not in self._known:
                    span = self._document.locate((KEY, number, "listeners", at))
                    message = f'unknown listener "{name}"'
                    self._report.error(ConfigCode.NAME, span, message, did_you_mean(name, self._known))
            key = b"" if entry.secret is None else self._key(number, entry.secret)
            self._check_address(number, entry.webhook or "")
            yield Notifier(
                entry.name,
                tuple(entry.command or ()),
                tuple(entry.env),
                entry.webhook or "",
                key,
                tuple(entry.listeners),
                entry.after,
            )

    def _key(self, number: int, secret: str) -> bytes:
        """Decode the key of a webhook; empty after a finding."""
        span = self._document.locate((KEY, number, "secret"))
        self._report.check_secret(span, "secret", secret, self._secrets)
        try:
            key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
        except (binascii.Error, ValueError):
            key = b""
        if not SHORTEST <= len(key) <= LONGEST:
            self._report.error(ConfigCode.VALUE, span, _NO_KEY, _MAKE)
            return b""
        return key

    def _check_address(self, number: int, url: str) -> None:
        """Refuse a webhook that anyone on its way could read."""
        if not url:
            return
        span = self._document.locate((KEY, number, "webhook"))
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname or "", parts.port
        except ValueError:
            host = ""
        if not host or parts.username is not None or not url.isascii() or not url.isprintable() or " " in url:
            self._report.error(ConfigCode.VALUE, span, "is no address", '"https://NAME/PATH"')
        elif parts.scheme != "https" and not is_loopback(host):
            self._report.error(ConfigCode.VALUE, span, "needs TLS", '"https://..."')
