"""Errors of the client.

Owns the words. None of them holds a token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class ProblemError(Exception):
    """The door has answered with a problem (RFC 9457).

    ``status`` is the HTTP status; ``code`` that of a SystemError, empty where the server has given none; ``detail`` its
    sentence; ``request`` the request that it is about, or empty; ``retry`` whether the same message may be sent again;
    ``faults`` what to correct in a JSON value: of each its pointer and its rule.
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
    """The answer is none that a door gives: another server is at this address, or another version of it."""


class UnreachableError(ConnectionError):
    """The door could not be reached, or the connection was lost too often. What was asked may have been done."""


@dataclass(frozen=True, slots=True)
class WaitingMessage:
    """A message of one's own request that waits for a person, as its principal sees it.

    Args:
        approval: the id of what a person is asked.
        to: the listener.
        until: when it is denied, in seconds since the epoch.
    """

    approval: str
    to: str
    until: float


class UnansweredError(TimeoutError):
    """No answer came in time. The request goes on.

    ``key`` is the key under which it was sent: ``ask`` with the same message and this key waits for it again.
    ``request`` is its id, empty when nothing was heard of it. ``waits`` are the messages of it that waited for a person
    when the door was heard last.
    """

    def __init__(self, key: str, request: str, waits: Sequence[WaitingMessage] = ()) -> None:
        super().__init__("no answer came in time")
        self.key, self.request, self.waits = key, request, tuple(waits)
