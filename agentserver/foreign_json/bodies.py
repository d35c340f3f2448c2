"""HTTP response bodies that are checked while they stream, for the HTTP client of the MCP and provider SDKs.

Splits server-sent events into events of bounded length.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import httpx2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


class CheckedBody(httpx2.AsyncByteStream):
    """Response body that yields checked chunks and closes the original body's connection.

    Args:
        inner: the original body.
        checked: its chunks, up to the first refused one.
    """

    def __init__(self, inner: httpx2.AsyncByteStream, checked: AsyncIterator[bytes]) -> None:
        self._inner, self._checked = inner, checked

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the pieces."""
        async for piece in self._checked:
            yield piece

    async def aclose(self) -> None:
        """Close the connection of the body."""
        await self._inner.aclose()


def is_compressed(response: httpx2.Response) -> bool:
    """Check whether the response has a content encoding, so that its size on the wire is not its size."""
    return bool(response.headers.get("content-encoding", "identity").lower() != "identity")


def is_stream(response: httpx2.Response) -> bool:
    """Check whether the response is a stream of server-sent events."""
    return bool(response.headers.get("content-type", "").lower().startswith("text/event-stream"))


_END: Final = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")
_LINE: Final = re.compile(rb"\r\n|\n|\r")


class EventCutter:
    """Cuts a stream of bytes into events.

    Args:
        longest: bytes of an event.
    """

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._buffer = bytearray()

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Add a chunk and yield the events that it completes. Raises ValueError when an event is too long."""
        searched = max(len(self._buffer) - 3, 0)
        self._buffer += chunk
        start = 0
        for end in _END.finditer(self._buffer, searched):
            self._check(end.end() - start)
            yield bytes(self._buffer[start : end.end()])
            start = end.end()
        del self._buffer[:start]
        self._check(len(self._buffer))

    def _check(self, length: int) -> None:
        if length > self._longest:
            raise ValueError(f"an event has more than {self._longest} bytes")


def extract_data(event: bytes) -> bytes:
    """Extract the data of an event; empty if it has none."""
    lines = (line[5:].removeprefix(b" ") for line in _LINE.split(event) if line.startswith(b"data:"))
    return b"\n".join(lines)
