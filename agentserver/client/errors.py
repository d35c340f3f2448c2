"""Errors of the client. None of them contains the token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class ProblemError(Exception):
    """Problem that the door has answered with (RFC 9457).

    ``status`` is the HTTP status; ``code`` the code of a SystemError, or empty; ``detail`` its sentence;
    ``request`` the request concerned, or empty; ``retry`` whether the same message may be sent again;
    ``faults`` the mistakes in a JSON value, each with its pointer and its rule.
    """

    def __init__(
        self,
        status: int,
        detail: str = "",
        *,
        code: str = "",
        request: str = "",
        retry: bool = False,
        faults: Sequence[Mapping[str, str]] = (),
    ) -> None:
        super().__init__(f"{status}: {detail}" if detail else str(status))
        self.status, self.detail, self.code, self.request = status, detail, code, request
        self.retry, self.faults = retry, tuple(faults)


class ProtocolError(Exception):
    """Answer that no door of this version gives: another server may be at this address."""


class UnreachableError(ConnectionError):
    """Failure to reach the door, or repeated loss of the connection. The request may have been executed."""


@dataclass(frozen=True, slots=True)
class WaitingMessage:
    """Message of the principal's own request that waits for a person.

    Args:
        approval: id of the approval.
        to: the listener.
        until: when it is denied, in seconds since the epoch.
    """

    approval: str
    to: str
    until: float


class UnansweredError(TimeoutError):
    """Timeout of the wait for an answer. The request is still being handled.

    ``key`` is its idempotency key: ``ask`` with the same message and key waits again. ``request`` is its id, or
    empty if the door never responded. ``waits`` are its messages that waited for a person at the last response.
    """

    def __init__(self, key: str, request: str, waits: Sequence[WaitingMessage] = ()) -> None:
        super().__init__("no answer came in time")
        self.key, self.request, self.waits = key, request, tuple(waits)
