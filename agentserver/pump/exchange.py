"""One conversation as its gateway sees it.

Owns the way from committed replies to whoever waits for them. Refuses to decide anything about messages.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeAlias

from agentserver.core.messages import Done, Outside, Parcel, Reply

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator

    Events: TypeAlias = asyncio.Queue[Parcel | None]


class ServerExchange:
    """The handle of an open conversation.

    Args:
        conversation: its id.
        submit: commits an outside message.
        close: ends the conversation.
        new_id: makes the ids of requests.
        acknowledge: told of each event once whoever waited for it has come back for the next.
        leave: forgets the exchange.
    """

    def __init__(
        self,
        conversation: str,
        submit: Callable[[str, Outside], Awaitable[None]],
        close: Callable[[str], Awaitable[None]],
        new_id: Callable[[], str],
        acknowledge: Callable[[str, Parcel], None],
        leave: Callable[[str], None],
    ) -> None:
        self._conversation = conversation
        self._submit = submit
        self._close = close
        self._new_id = new_id
        self._acknowledge = acknowledge
        self._leave = leave
        self._all: Events | None = None
        self._asked: dict[str, Events] = {}
        self._caught_up: frozenset[tuple[int, int]] = frozenset()
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
        async for parcel in self._answers(data, to):
            if isinstance(parcel.event, Reply):
                yield parcel.event
            self._acknowledge(self._conversation, parcel)

    async def ask(self, data: bytes, to: str | None = None) -> Reply | None:
        """Hand in a message and give its first reply; None when it came to rest without one."""
        answers = self._answers(data, to)
        try:
            parcel = await anext(answers, None)
        finally:
            await answers.aclose()
        if parcel is None:
            return None
        self._acknowledge(self._conversation, parcel)
        return parcel.event if isinstance(parcel.event, Reply) else None

    async def _answers(self, data: bytes, to: str | None) -> AsyncGenerator[Parcel, None]:
        """What a message leads to, its end included."""
        request = self._new_id()
        events: Events = asyncio.Queue()
        self._asked[request] = events
        try:
            await self._submit(self._conversation, Outside(data, request, to))
            while (parcel := await events.get()) is not None:
                yield parcel
                if isinstance(parcel.event, Done):
                    break
        finally:
            self._asked.pop(request, None)

    def events(self) -> AsyncIterator[Reply | Done]:
        """Everything that ``replies`` and ``ask`` do not take from now on, until the conversation is over."""
        events = self._all = self._all or asyncio.Queue()
        return self._events(events)

    async def _events(self, events: Events) -> AsyncIterator[Reply | Done]:
        while not (self._over and events.empty()):
            parcel = await events.get()
            if parcel is None:
                events.put_nowait(None)  # others may be waiting on the same queue
                break
            yield parcel.event
            self._acknowledge(self._conversation, parcel)

    def waiting(self) -> Iterator[Reply | Done]:
        """What ``events`` would give without waiting, each acknowledged when the next one is asked for."""
        while self._all is not None and not self._all.empty():
            parcel = self._all.get_nowait()
            if parcel is None:
                return
            yield parcel.event
            self._acknowledge(self._conversation, parcel)

    def leave(self) -> None:
        """Go without ending the conversation: what still comes is kept until somebody resumes it."""
        self._leave(self._conversation)

    async def close(self) -> None:
        """End the conversation, cancelling whatever runs in it."""
        await self._close(self._conversation)

    # For the pump

    def deliver(self, parcel: Parcel) -> None:
        """Pass a committed event to whoever waits for it."""
        queue = self._asked.get(parcel.event.request, self._all)
        # One that was being committed while the exchange caught up was found in the outbox already.
        if queue is not None and (parcel.version, parcel.position) not in self._caught_up:
            queue.put_nowait(parcel)

    def listen(self) -> None:
        """Keep events from now on, before anybody asks for them."""
        self._all = self._all or asyncio.Queue()

    def catch_up(self, parcels: Iterable[Parcel]) -> None:
        """Put what was left before in front of what has come since."""
        events = self._all = self._all or asyncio.Queue()
        parcels = tuple(parcels)
        self._caught_up = frozenset((parcel.version, parcel.position) for parcel in parcels)
        since = [events.get_nowait() for _ in range(events.qsize())]
        known = {(parcel.version, parcel.position): parcel for parcel in (*filter(None, since), *parcels)}
        for place in sorted(known):
            events.put_nowait(known[place])
        if None in since:
            events.put_nowait(None)

    def finish(self) -> None:
        """Let everybody who waits go: there is nothing more to come."""
        self._over = True
        for queue in (*self._asked.values(), *filter(None, [self._all])):
            queue.put_nowait(None)
