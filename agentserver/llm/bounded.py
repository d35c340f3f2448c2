"""The answers of providers over HTTP, counted before their SDKs read them.

Owns the limits, for a whole answer and for each event of a streamed one. Refuses compressed answers, since their size
says nothing, and to know what an answer says. Imports the HTTP client of the SDKs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import httpx2

from agentserver.foreign_json.bodies import CheckedBody, is_compressed, is_stream
from agentserver.foreign_json.events import EventCutter, data_of
from agentserver.foreign_json.reading import JsonLimits, count_json
from agentserver.foreign_json.threads import ReadingThreads

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ANSWER: Final = JsonLimits(bytes=1 << 24, values=20_000)
"""The limits of an answer that comes whole."""
EVENT: Final = JsonLimits(bytes=1 << 20, values=5000)
"""The limits of one event."""
STREAM: Final = 1 << 27
"""Bytes of all events of one answer."""


class UnreadableAnswerError(httpx2.RemoteProtocolError):
    """An answer that is beyond the limits, or compressed. Its text is the reason."""


class AnswerBounds:
    """Hooks of an HTTP client that keep its answers within the limits."""

    def __init__(self) -> None:
        self._threads = ReadingThreads()

    async def ask(self, request: httpx2.Request) -> None:
        """Ask for an answer that is not compressed."""
        request.headers["accept-encoding"] = "identity"

    async def bound(self, response: httpx2.Response) -> None:
        """Count the body of an answer while it is read. Raises UnreadableAnswerError for a compressed one.

        A compressed error loses its body alone: its status and its headers decide about the next attempt.
        """
        stream = response.stream
        assert isinstance(stream, httpx2.AsyncByteStream)
        if is_compressed(response):
            await stream.aclose()
            if not response.is_error:
                raise UnreadableAnswerError("the answer is compressed, which was not asked for")
            del response.headers["content-encoding"]
            response.stream = httpx2.ByteStream(b"")
            return
        counted = self._events(stream) if is_stream(response) else self._whole(stream)
        response.stream = CheckedBody(stream, counted)

    async def _whole(self, stream: httpx2.AsyncByteStream) -> AsyncIterator[bytes]:
        data = bytearray()
        async for chunk in stream:
            data += chunk
            if len(data) > ANSWER.bytes:
                break
        await self._check(bytes(data), ANSWER)
        yield bytes(data)

    async def _events(self, stream: httpx2.AsyncByteStream) -> AsyncIterator[bytes]:
        cutter, taken = EventCutter(EVENT.bytes), 0
        async for chunk in stream:
            taken += len(chunk)
            if taken > STREAM:
                raise UnreadableAnswerError(f"the answer has more than {STREAM} bytes")
            try:
                events = list(cutter.feed(chunk))
            except ValueError as error:
                raise UnreadableAnswerError(str(error)) from None
            for event in events:
                await self._check(data_of(event), EVENT)
                yield event

    async def _check(self, data: bytes, limits: JsonLimits) -> None:
        refused = await self._threads.read(lambda text: count_json(text, limits), data)
        if refused is not None:
            raise UnreadableAnswerError(f"the answer {refused.rule}")
