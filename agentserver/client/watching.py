"""The events of a conversation as one stream, over as many connections as it takes.

Owns when a stream that was lost is taken up again, and after which event. Refuses to know what an event is for.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

import anyio
import httpx

from agentserver.client import values
from agentserver.client.errors import ProblemError, UnreachableError
from agentserver.client.requests import Asked, may_come_again, streaming
from agentserver.client.sse import SseReader

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from agentserver.client.requests import Tries
    from agentserver.client.taken import Taken
    from agentserver.client.values import Event

_SILENCE: Final = 60.0
"""Seconds without a sign of life after which a connection counts as lost."""

_LASTING: Final = 5.0
"""Seconds after which a connection that is lost was a good one, and the tries begin anew."""


class Watching:
    """One reading of a conversation's events.

    Args:
        http: the way to the door.
        path: of the events.
        taken: how far the program has taken them.
        after: the id of the event after which to begin; None for the last that was taken.
        tries: how long it is tried to come back.
    """

    def __init__(
        self, http: httpx.AsyncClient, path: str, taken: Taken, after: str | None, tries: Tries
    ) -> None:
        self._http, self._path, self._taken = http, path, taken
        self._after, self._tries = after, tries
        self._closed = False

    async def events(self) -> AsyncGenerator[Event, None]:
        """The events until the conversation is closed. Raises ProblemError, UnreachableError."""
        while True:
            async with aclosing(self._connection()) as events:
                async for event in events:
                    yield event
            if self._closed:
                return
            if not await self._tries.pause():
                raise UnreachableError("the stream was lost and could not be taken up again")

    async def _connection(self) -> AsyncGenerator[Event, None]:
        """The events of one connection, until it ends or is lost."""
        params = {} if self._after is None else {"after": self._after}
        headers = {} if params else self._taken.headers
        asked = Asked("GET", self._path, params, headers, wait=_SILENCE)
        try:
            async with streaming(self._http, asked) as response, aclosing(self._said(response)) as events:
                async for event in events:
                    yield event
                    self._after = None if self._taken.took(event) else self._after
        except ProblemError as error:
            if not may_come_again(error):
                raise
        except httpx.TransportError:
            return

    async def _said(self, response: httpx.Response) -> AsyncGenerator[Event, None]:
        """The events that an answer holds."""
        begun = anyio.current_time()
        try:
            async for found in _objects(response):
                if found.get("type") == "end":
                    self._ended(found)
                    return
                self._tries.renew()
                event = values.event(found)
                if event is not None:
                    yield event
        finally:
            if anyio.current_time() - begun > _LASTING:
                self._tries.renew()

    def _ended(self, found: Mapping[str, Any]) -> None:
        reason = found.get("reason")
        self._closed = reason == "closed"
        if reason == "gone":  # what left before this place is not kept any more
            self._after = values.text(found, "after")


async def _objects(response: httpx.Response) -> AsyncGenerator[Mapping[str, Any], None]:
    reader = SseReader()
    async for piece in response.aiter_bytes():
        for data in reader.feed(piece):
            yield values.read_object(data)
