"""One conversation as its gateway sees it.

Owns the way from committed replies to whoever waits for them. Refuses to decide anything about messages.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeAlias

from agentserver.core.conversation import Outside
from agentserver.core.messages import Reply

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from agentserver.core.messages import Done

    Events: TypeAlias = asyncio.Queue[Reply | Done | None]


class ServerExchange:
    """The handle of an open conversation.

    Args:
        conversation: its id.
        submit: commits an outside message.
        close: ends the conversation.
        new_id: makes the ids of requests.
    """

    def __init__(
        self,
        conversation: str,
        submit: Callable[[str, Outside], Awaitable[None]],
        close: Callable[[str], Awaitable[None]],
        new_id: Callable[[], str],
    ) -> None:
        self._conversation = conversation
        self._submit = submit
        self._close = close
        self._new_id = new_id
        self._all: Events | None = None
        self._asked: dict[str, Events] = {}
        self._over = False

    @property
    def id(self) -> str:
        """The conversation's id."""
        return self._conversation

    async def send(self, data: bytes, to: str | None = None) -> str:
        """Hand in an envelope or a bare payload; gives its request's id once it is committed or refused.

        Raises RuntimeError when the conversation is over or the server stops.
        """
        request = self._new_id()
        await self._submit(self._conversation, Outside(data, request, to))
        return request

    async def replies(self, data: bytes, to: str | None = None) -> AsyncIterator[Reply]:
        """Hand in a message and give its replies as they come, until nothing more can."""
        request = self._new_id()
        events: Events = asyncio.Queue()
        self._asked[request] = events
        try:
            await self._submit(self._conversation, Outside(data, request, to))
            while isinstance(event := await events.get(), Reply):
                yield event
        finally:
            self._asked.pop(request, None)

    async def ask(self, data: bytes, to: str | None = None) -> Reply | None:
        """Hand in a message and give its first reply; None when it came to rest without one."""
        stream = self.replies(data, to)
        try:
            return await anext(stream, None)
        finally:
            await stream.aclose()  # type: ignore[attr-defined]

    async def events(self) -> AsyncIterator[Reply | Done]:
        """Everything that ``replies`` and ``ask`` do not take, until the conversation is over."""
        events = self._all = self._all or asyncio.Queue()
        while not (self._over and events.empty()):
            event = await events.get()
            if event is None:
                events.put_nowait(None)  # others may be waiting on the same queue
                break
            yield event

    async def close(self) -> None:
        """End the conversation, cancelling whatever runs in it."""
        await self._close(self._conversation)

    # For the pump

    def deliver(self, event: Reply | Done) -> None:
        """Pass a committed event to whoever waits for it."""
        queue = self._asked.get(event.request, self._all)
        if queue is not None:
            queue.put_nowait(event)

    def finish(self) -> None:
        """Let everybody who waits go: there is nothing more to come."""
        self._over = True
        for queue in (*self._asked.values(), *filter(None, [self._all])):
            queue.put_nowait(None)
