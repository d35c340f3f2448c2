"""HTTP response bodies that are checked while they stream, for the HTTP client of the MCP and provider SDKs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


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
