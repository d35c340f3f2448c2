"""Sources of foreign JSON: hooks, which other services send events to, and inboxes, which are folders."""

from __future__ import annotations

import hmac
from base64 import b64encode
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

WHOLE: Final = "$"
"""The path of a whole JSON value."""

_NOWHERE: Final = object()

HookSignature: TypeAlias = Literal["github", "slack", "standard", "stripe"]
"""Ways in which senders sign an event; all are HMAC-SHA256 with a shared secret."""


@dataclass(frozen=True, slots=True)
class Hook:
    """Source of events.

    Args:
        name: the last part of its path; its principal is ``hook-NAME``.
        listener: gets the events.
        root: root element of the payload.
        signature: of the sender.
        secret: shared with the sender.
        fields: for a field of the payload, the path of its value in the body; its own name by default.
        only: headers and values of the events to take.
        tolerance: seconds that the sender's time may be off.
    """

    name: str
    listener: str
    root: str
    signature: HookSignature
    secret: str = field(repr=False)
    fields: Mapping[str, str] = field(default_factory=dict)
    only: Mapping[str, str] = field(default_factory=dict)
    tolerance: float = 300.0

    @property
    def principal(self) -> str:
        """The name of its principal."""
        return f"hook-{self.name}"


InboxFormat: TypeAlias = Literal["json", "text"]
"""Form of a file: JSON, or ``{"name": ..., "text": ...}`` of its name and its content in UTF-8."""


@dataclass(frozen=True, slots=True)
class Inbox:
    """Folder whose files are messages.

    Args:
        name: of its principal, ``inbox-NAME``.
        folder: relative to the project, or absolute.
        listener: gets the files.
        root: root element of the payload.
        format: of the files.
        fields: for a field of the payload, the path of its value in the file; its own name by default.
        match: pattern of the names of files to take.
        largest: bytes of a file.
        settle: seconds for which a file must not have changed before it is read.
    """

    name: str
    folder: str
    listener: str
    root: str
    format: InboxFormat = "json"
    fields: Mapping[str, str] = field(default_factory=dict)
    match: str = "*"
    largest: int = 1_000_000
    settle: float = 2.0

    @property
    def principal(self) -> str:
        """The name of its principal."""
        return f"inbox-{self.name}"


def map_fields(paths: Mapping[str, str], value: Any, members: Iterable[str]) -> dict[str, Any]:
    """Map a JSON value to the fields of a payload; a field whose path leads nowhere is left out."""
    found = {name: _follow(value, paths.get(name, name)) for name in members}
    return {name: each for name, each in found.items() if each is not _NOWHERE}


def _follow(value: Any, path: str) -> Any:
    """Return the value at a path of keys; _NOWHERE without one."""
    for key in path.split(".") if path != WHOLE else ():
        if not isinstance(value, dict) or key not in value:
            return _NOWHERE
        value = value[key]
    return value


def sign_standard(key: bytes, event: str, at: str, body: bytes) -> str:
    """Sign an event as Standard Webhooks 1.0 does (https://www.standardwebhooks.com), in Base64."""
    return b64encode(hmac.digest(key, f"{event}.{at}.".encode() + body, "sha256")).decode()
