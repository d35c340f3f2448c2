"""Requests to the door: sent again when they may be, and problems as errors.

Owns what is tried again and how long: a connection that was lost, a door that is busy or about to stop. Refuses to know
what a request is for.
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

_LATER: Final = (429, 502, 503, 504)
"""Statuses that a door, or what stands before it, gives for a while."""

_FIRST, _LAST = 0.1, 5.0
_LONGEST: Final = 60.0
"""Seconds between two tries: at first, at last, and as long as a door may ask for."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One request.

    Args:
        method: of HTTP.
        path: below the door's address.
        params: of the query.
        headers: beside those of the client.
        content: the body.
        wait: seconds that the answer may take.
        again: whether it may be sent again when nobody knows whether it arrived.
    """

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None
    wait: float = 30.0
    again: bool = True


class Tries:
    """The tries of one thing: until a time, with growing pauses.

    Args:
        patience: seconds within which it may be tried again.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self.renew()

    def renew(self) -> None:
        """Begin anew: it went well for a while."""
        self._until = anyio.current_time() + self._patience
        self._pause = _FIRST

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return max(0.0, self._until - anyio.current_time())

    async def pause(self, said: str | None = None) -> bool:
        """Wait before the next try, for as long as the door has said. False when there is none."""
        asked = min(float(said), _LONGEST) if said is not None and said.isascii() and said.isdigit() else 0.0
        pause, self._pause = max(asked, self._pause), min(self._pause * 2, _LAST)
        if pause > self.left:
            return False
        await anyio.sleep(pause)
        return True


async def fetch(http: httpx.AsyncClient, asked: Asked, tries: Tries) -> httpx.Response:
    """The answer to a request. Raises ProblemError, UnreachableError."""
    while True:
        try:
            response = await http.request(
                asked.method, asked.path, params=asked.params, headers=asked.headers, content=asked.content,
                timeout=httpx.Timeout(10.0, read=asked.wait + 10.0),
            )  # fmt: skip
        except httpx.TransportError as error:
            unsent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
            if not (asked.again or unsent) or not await tries.pause():
                raise UnreachableError(_lost(error)) from None
            continue
        if response.is_success:
            return response
        found = problem(response)
        if not may_come_again(found) or not await tries.pause(response.headers.get("retry-after")):
            raise found


@asynccontextmanager
async def streaming(http: httpx.AsyncClient, asked: Asked) -> AsyncIterator[httpx.Response]:
    """The answer to a request, of which the body comes as a stream. Raises ProblemError, httpx.TransportError."""
    timeout = httpx.Timeout(10.0, read=asked.wait)
    async with http.stream(
        asked.method, asked.path, params=asked.params, headers=asked.headers, timeout=timeout
    ) as response:
        if not response.is_success:
            await response.aread()
            raise problem(response)
        yield response


def may_come_again(found: ProblemError) -> bool:
    """True when the door has not said what it thinks of the request itself, and may take it later."""
    return found.status in _LATER and not found.code


def problem(response: httpx.Response) -> ProblemError:
    """The answer of the door, which need not be a problem's form: a proxy may stand before it."""
    try:
        said = read_object(response.content)
    except ProtocolError:
        said = {}
    faults = tuple(each for each in _listed(said.get("faults")) if isinstance(each, dict))
    return ProblemError(
        response.status_code, _text(said, "detail") or response.reason_phrase, code=_text(said, "code"),
        request=_text(said, "request"), retry=said.get("retry") is True, faults=faults,
    )  # fmt: skip


def _text(said: Mapping[str, Any], name: str) -> str:
    found = said.get(name)
    return found if isinstance(found, str) else ""


def _listed(found: Any) -> list[Any]:
    return found if isinstance(found, list) else []


def _lost(error: httpx.TransportError) -> str:
    if isinstance(error, httpx.ReadTimeout):
        return "the door does not answer in time"
    return str(error) or type(error).__name__
