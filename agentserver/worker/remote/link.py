"""The worker's way to one server: frames as requests, and refusals as errors.

Owns which answers mean that it is tried again. Refuses to know what a frame leads to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import httpx

from agentserver.foreign_json.reading import JsonLimits, parse_json
from agentserver.worker import frames
from agentserver.worker.remote.speech import dump_asked

if TYPE_CHECKING:
    from agentserver.worker.remote.speech import Answer, FrameCodec

__all__ = ["AwayError", "GoneError", "RefusedError", "ServerLink"]

SLACK: Final = 10.0
"""Seconds by which an answer may come later than it was asked for."""
PROBLEM: Final = 10_000
"""Bytes of a problem that are read."""
GONE: Final = (404, 410)
REFUSED: Final = (400, 401, 403, 405, 409, 413, 421, 422)


class AwayError(Exception):
    """The server cannot be reached, or takes nothing at present. ``after`` is the pause in seconds that it asks for."""

    def __init__(self, why: str, after: float = 0.0) -> None:
        super().__init__(why)
        self.after = after


class GoneError(Exception):
    """Nothing is at this address: the call is over, or the listener has no workers elsewhere."""


class RefusedError(Exception):
    """The server does not take this from this worker. ``status`` is the status of HTTP."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


@dataclass(frozen=True, slots=True)
class ServerLink:
    """The way to a server.

    Args:
        http: with its address and the worker's token.
        listener: the worker's.
        codec: reads frames.
        longest: bytes of an answer.
    """

    http: httpx.AsyncClient
    listener: str
    codec: FrameCodec
    longest: int

    @property
    def url(self) -> str:
        """The address of the server."""
        return str(self.http.base_url).rstrip("/")

    async def send(self, frame: Any, key: str = "", wait: float = 0.0) -> Answer | None:
        """Send a frame; gives the answer, or None where there is nothing yet.

        Args:
            frame: what is sent.
            key: of the call that it is about; empty to ask for a call.
            wait: seconds for which the server may hold the request.

        Raises AwayError, GoneError, RefusedError, and FrameError for an answer that is none.
        """
        path = f"/v1/workers/{quote(self.listener, safe='')}/calls" + (f"/{key}" if key else "")
        headers = {"content-type": "application/json", "accept-encoding": "identity"}
        timeout = httpx.Timeout(SLACK, read=wait + SLACK)
        try:
            async with self.http.stream(
                "POST", path, content=dump_asked(frame), headers=headers, timeout=timeout
            ) as response:
                if not response.is_success:
                    raise await _problem(response)
                data = await _read(response, self.longest)
        except httpx.TransportError as error:
            raise AwayError(str(error) or type(error).__name__) from None
        return self.codec.answer(data) if data else None


async def _problem(response: httpx.Response) -> Exception:
    """The error that an answer is."""
    try:
        said = parse_json(await _read(response, PROBLEM), JsonLimits(bytes=PROBLEM))
    except frames.FrameError:
        said = None
    detail = said.get("detail") if isinstance(said, dict) else None
    told = f"{response.status_code} {detail if isinstance(detail, str) else response.reason_phrase}"
    if response.status_code in GONE:
        return GoneError(told)
    if response.status_code in REFUSED:
        return RefusedError(response.status_code, told)
    after = response.headers.get("retry-after", "")
    return AwayError(told, min(float(after), 60.0) if after.isascii() and after.isdigit() else 0.0)


async def _read(response: httpx.Response, most: int) -> bytes:
    """The body of an answer. Raises FrameError for one that is too long, or packed."""
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise frames.FrameError("a packed answer")
    data = bytearray()
    async for piece in response.aiter_raw():
        data += piece
        if len(data) > most:
            raise frames.FrameError(f"an answer of more than {most} bytes")
    return bytes(data)
