"""Requests to the door, with retries, and with problems as errors.

Lost connections and a door that is busy or stopping are retried for a while.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import anyio
import httpx

from agentserver.client.errors import ProblemError, ProtocolError, UnreachableError
from agentserver.client.values import read_object

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

_TEMPORARY: Final = (429, 502, 503, 504)
"""Statuses of a temporary failure of the door or of a proxy."""

_FIRST, _LAST = 0.1, 5.0
_LONGEST: Final = 60.0
"""Seconds between two attempts: first, last, and the most that a door may ask for."""


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """Request to the door.

    Args:
        method: of HTTP.
        path: below the door's address.
        params: of the query.
        headers: added to those of the client.
        content: the body.
        wait: seconds that the answer may take.
        resend: whether to retry when it is unknown whether the request arrived.
    """

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None
    wait: float = 30.0
    resend: bool = True


class RetryPolicy:
    """Schedule of retries until a deadline, with growing pauses.

    Args:
        patience: seconds within which to retry.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self.renew()

    def renew(self) -> None:
        """Restart the deadline and the pauses after a success."""
        self._until = anyio.current_time() + self._patience
        self._pause = _FIRST

    @property
    def remaining(self) -> float:
        """Seconds until the deadline."""
        return max(0.0, self._until - anyio.current_time())

    async def await_pause(self, retry_after: str | None = None) -> bool:
        """Wait before the next attempt, at least as long as the door asks. Returns False if no time is left."""
        wanted = (
            min(float(retry_after), _LONGEST)
            if retry_after is not None and retry_after.isascii() and retry_after.isdigit()
            else 0.0
        )
        pause, self._pause = max(wanted, self._pause), min(self._pause * 2, _LAST)
        if pause > self.remaining:
            return False
        await anyio.sleep(pause)
        return True


async def fetch(http: httpx.AsyncClient, pending: PendingRequest, retries: RetryPolicy) -> httpx.Response:
    """Send a request and return the answer. Raises ProblemError, UnreachableError."""
    while True:
        try:
            response = await http.request(
                pending.method, pending.path, params=pending.params, headers=pending.headers, content=pending.content,
                timeout=httpx.Timeout(10.0, read=pending.wait + 10.0),
            )  # fmt: skip
        except httpx.TransportError as error:
            unsent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
            if not (pending.resend or unsent) or not await retries.await_pause():
                raise UnreachableError(_describe_loss(error)) from None
            continue
        if response.is_success:
            return response
        found = read_problem(response)
        if not is_temporary(found) or not await retries.await_pause(response.headers.get("retry-after")):
            raise found


@asynccontextmanager
async def open_stream(http: httpx.AsyncClient, pending: PendingRequest) -> AsyncIterator[httpx.Response]:
    """Open a request whose answer is a stream. Raises ProblemError, httpx.TransportError."""
    timeout = httpx.Timeout(10.0, read=pending.wait)
    async with http.stream(
        pending.method, pending.path, params=pending.params, headers=pending.headers, timeout=timeout
    ) as response:
        if not response.is_success:
            await response.aread()
            raise read_problem(response)
        yield response


def is_temporary(found: ProblemError) -> bool:
    """Tell whether the door was unavailable, and did not reject the request itself."""
    return found.status in _TEMPORARY and not found.code


def read_problem(response: httpx.Response) -> ProblemError:
    """Read a problem from an answer, which may come from a proxy and have another form."""
    try:
        fields = read_object(response.content)
    except ProtocolError:
        fields = {}
    faults = tuple(each for each in _as_list(fields.get("faults")) if isinstance(each, dict))
    return ProblemError(
        response.status_code, _read_text(fields, "detail") or response.reason_phrase, code=_read_text(fields, "code"),
        request=_read_text(fields, "request"), retry=fields.get("retry") is True, faults=faults,
    )  # fmt: skip


def _read_text(fields: Mapping[str, Any], name: str) -> str:
    found = fields.get(name)
    return found if isinstance(found, str) else ""


def _as_list(found: Any) -> list[Any]:
    return found if isinstance(found, list) else []


def _describe_loss(error: httpx.TransportError) -> str:
    if isinstance(error, httpx.ReadTimeout):
        return "the door does not answer in time"
    return str(error) or type(error).__name__
