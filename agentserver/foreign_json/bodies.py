"""The body of an HTTP answer, as it was checked. Imports the HTTP client that the SDKs of MCP and of providers share.

Owns that the connection is closed with its body. Refuses to know what is checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class CheckedBody(httpx2.AsyncByteStream):
    """A body in the place of another.

    Args:
        inner: the body as it comes.
        checked: its pieces, as far as they may be read.
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
    """True for an answer whose size on the wire is not its size."""
    return bool(response.headers.get("content-encoding", "identity").lower() != "identity")


def is_stream(response: httpx2.Response) -> bool:
    """True for an answer that is a stream of events."""
    return bool(response.headers.get("content-type", "").lower().startswith("text/event-stream"))
