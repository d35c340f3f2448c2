"""An HTTP transport that counts and checks answers before the library reads them.

A JSON answer is read whole, a stream event by event. Compressed answers are refused: their size proves nothing. Imports
the library's HTTP client.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import httpx2

from agentserver.foreign_json.bodies import CheckedBody, EventCutter, extract_data, is_compressed, is_stream
from agentserver.foreign_json.reading import JsonLimits, parse_json
from agentserver.mcp.client.messages import LIMITS, UNREADABLE, OverLimitError, build_error

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from agentserver.foreign_json.threads import ReadingThreads
    from agentserver.mcp.client.messages import ServerMessages

logger = logging.getLogger("agentserver.mcp")


class CheckedTransport(httpx2.AsyncBaseTransport):
    """Sends requests by another transport and checks what comes back.

    Args:
        inner: the other transport.
        messages: of the server.
        threads: in which large messages are read.
    """

    def __init__(
        self, inner: httpx2.AsyncBaseTransport, messages: ServerMessages, threads: ReadingThreads
    ) -> None:
        self._inner, self._messages, self._threads = inner, messages, threads

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request. Raises httpx2.RemoteProtocolError for a body that is compressed or too long."""
        key = await self._note_request(request)
        response = await self._inner.handle_async_request(request)
        stream = response.stream
        assert isinstance(stream, httpx2.AsyncByteStream)
        if is_compressed(response):
            await stream.aclose()
            raise httpx2.RemoteProtocolError("the answer is compressed, which was not asked for")
        if is_stream(response):
            checked = self._iter_events(stream, key)
        else:
            json = response.headers.get("content-type", "").lower().startswith("application/json")
            checked = self._read_whole(stream, key, json=json)
        headers = [(name, value) for name, value in response.headers.raw if name.lower() != b"content-length"]
        return httpx2.Response(
            response.status_code,
            headers=headers,
            stream=CheckedBody(stream, checked),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()

    async def _note_request(self, request: httpx2.Request) -> int | str | None:
        """Note the protocol request in a body. Returns its id, or None."""
        message = parse_json(await request.aread(), JsonLimits(bytes=1 << 26, values=1_000_000))
        key, method = (
            (message.get("id"), message.get("method")) if isinstance(message, dict) else (None, None)
        )
        if not isinstance(key, int | str) or not isinstance(method, str):
            return None
        self._messages.ask(key, method)
        return key

    async def _read_whole(
        self, stream: httpx2.AsyncByteStream, key: int | str | None, *, json: bool
    ) -> AsyncIterator[bytes]:
        data = bytearray()
        async for chunk in stream:
            data += chunk
            if len(data) > LIMITS.bytes:
                raise httpx2.RemoteProtocolError(f"the answer has more than {LIMITS.bytes} bytes")
        yield await self._check(bytes(data), key) if json and data else bytes(data)

    async def _iter_events(
        self, stream: httpx2.AsyncByteStream, key: int | str | None
    ) -> AsyncIterator[bytes]:
        cutter = EventCutter(LIMITS.bytes)
        async for chunk in stream:
            try:
                events = list(cutter.feed(chunk))
            except ValueError as error:
                raise httpx2.RemoteProtocolError(str(error)) from None
            for event in events:
                data = extract_data(event)
                checked = await self._check(data, key) if data else data
                if checked == data:
                    yield event
                elif checked:
                    yield b"event: message\ndata: %b\n\n" % checked

    async def _check(self, data: bytes, key: int | str | None) -> bytes:
        """Return the text of a message, or of the error that replaces it; empty if it is dropped."""
        try:
            message: Any = await self._threads.read(self._messages.read, data)
        except (ValueError, OverLimitError) as error:
            logger.warning("a server over HTTP sent an invalid message: %s", error)
            message = None if key is None else build_error(key, UNREADABLE, str(error))
        if message is None:
            return b""
        refused = hasattr(message, "error")
        return message.model_dump_json(by_alias=True).encode() if refused else data
