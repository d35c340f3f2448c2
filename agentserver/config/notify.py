"""Reads ``notify:`` of an organism, and checks it against the listeners."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from agentserver.config.keys.endpoints import NotifyEntry
from agentserver.config.keys.fields import build_value
from agentserver.ports.identity import is_loopback
from agentserver.ports.notices import Notifier
from agentserver.remedies.configuration import ConfigCode

if TYPE_CHECKING:
    from collections.abc import Collection

    from agentserver.config.findings import Mistakes, SourceSpan
    from agentserver.config.validation import DeclaredEntry, ParsedDocument
    from agentserver.config.yaml.secrets import Secrets

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
    reader = _NotifierReader(known, secrets, report)
    return tuple(map(reader.read, main.list_named("notify", NotifyEntry, report)))


class _NotifierReader:
    def __init__(self, known: Collection[str], secrets: Secrets, report: Mistakes) -> None:
        self._known, self._secrets, self._report = known, secrets, report

    def read(self, declared: DeclaredEntry[NotifyEntry]) -> Notifier:
        """Read a notifier, and report its mistakes."""
        entry = declared.entry
        for at, name in enumerate(entry.listeners):
            self._report.check_listener(declared.locate("listeners", at), name, self._known)
        key = b"" if entry.secret is None else self._decode_key(declared.locate("secret"), entry.secret)
        if entry.webhook:
            self._check_address(declared.locate("webhook"), entry.webhook)
        return build_value(Notifier, entry, key=key)

    def _decode_key(self, span: SourceSpan, secret: str) -> bytes:
        """Decode the key of a webhook; empty after a finding."""
        self._report.check_secret(span, "secret", secret, self._secrets)
        try:
            key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
        except (binascii.Error, ValueError):
            key = b""
        if not SHORTEST <= len(key) <= LONGEST:
            self._report.add_error(ConfigCode.VALUE, span, _NO_KEY, _MAKE)
            return b""
        return key

    def _check_address(self, span: SourceSpan, url: str) -> None:
        """Refuse a webhook that anyone on its way could read."""
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname or "", parts.port
        except ValueError:
            host = ""
        if not host or parts.username is not None or not url.isascii() or not url.isprintable() or " " in url:
            self._report.add_error(ConfigCode.VALUE, span, "is no address", '"https://NAME/PATH"')
        elif parts.scheme != "https" and not is_loopback(host):
            self._report.add_error(ConfigCode.VALUE, span, "needs TLS", '"https://..."')
