"""One conversation as its gateway sees it.

Owns the way from committed events to whoever waits for them, and when one counts as taken. Refuses to decide anything
about messages.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeAlias

from agentserver.core.messages import UNDECIDED, Done, Outside, Reply

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator

    from agentserver.core.messages import EventPlace

    Event: TypeAlias = Reply | Done

logger = logging.getLogger("agentserver.pump")


class Hands:
    """What the tasks of a gateway have in hand: given to them, and not acknowledged.

    The only place that acknowledges. An event counts as taken when the task that took it comes back to the exchange
    for anything, or the gateway leaves cleanly. What a task had in hand when it returned waits for the gateway to
    come back; what one had that failed or was cancelled is told again, marked as such.

    Args:
        acknowledge: told of each place once.
        told: the places of what was given before and is not acknowledged.
    """

    def __init__(self, acknowledge: Callable[[EventPlace], None], told: set[EventPlace]) -> None:
        self._acknowledge = acknowledge
        self.told = told
        self._held: dict[asyncio.Task[object] | None, list[EventPlace]] = {}
        self._returned: list[EventPlace] = []

    def give(self, event: Event) -> Event:
        """Put an event into the hands of the running task; gives it marked if it was given before."""
        task = asyncio.current_task()
        held = self._held.get(task)
        if held is None:
            held = self._held[task] = []
            if task is not None:
                task.add_done_callback(self._ended)
        held.append(event.place)
        again = event.redelivered or event.place in self.told
        self.told.add(event.place)
        return event._replace(redelivered=again)

    def back(self) -> None:
        """The running task has come back: it, and every task that has returned, is done with what it took."""
        held = self._held.get(asyncio.current_task())
        self._settle(self._returned)
        if held:
            self._settle(held)

    def clean(self) -> None:
        """The gateway has left, or is stopped, in good order."""
        for places in (self._returned, *self._held.values()):
            self._settle(places)

    def drop(self) -> None:
        """The gateway wants nothing more: nothing is told again."""
        for places in (self._returned, *self._held.values()):
            places.clear()
        self.told.clear()

    def _settle(self, places: list[EventPlace]) -> None:
        for place in places:
            self.told.discard(place)
            self._acknowledge(place)
        places.clear()

    def _ended(self, task: asyncio.Task[object]) -> None:
        places = self._held.pop(task, [])
        if not places or task.cancelled():
            return
        error = task.exception()
        if error is None:
            self._returned += places
        else:
            logger.error("a gateway failed with something in hand; it is told again", exc_info=error)


class Stream:
    """Events on their way to whoever takes them, each once and in order."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Event | None] = asyncio.Queue()
        self._since = UNDECIDED
        self._ended = False

    def put(self, event: Event) -> None:
        """Add an event, unless it was found in the outbox already: it was being committed meanwhile."""
        if event.place > self._since:
            self._queue.put_nowait(event)

    def put_back(self, events: Iterable[Event]) -> None:
        """Add what another stream was not asked for any more."""
        for event in events:
            if not self._ended:
                self._queue.put_nowait(event)

    def catch_up(self, before: Iterable[Event]) -> None:
        """Put what left before in front of what has come since."""
        known = {event.place: event for event in (*self.rest(), *before)}
        for place in sorted(known):
            self._queue.put_nowait(known[place])
        self._since = max(known, default=UNDECIDED)
        if self._ended:
            self._queue.put_nowait(None)

    def end(self) -> None:
        """Nothing more comes."""
        self._ended = True
        self._queue.put_nowait(None)

    async def get(self) -> Event | None:
        """The next event; None when nothing more comes."""
        event = await self._queue.get()
        if event is None:
            self._queue.put_nowait(None)  # others may be waiting on the same stream
        return event

    def rest(self) -> Iterator[Event]:
        """What is there already, taken out."""
        while (event := self.next_there()) is not None:
            yield event

    def next_there(self) -> Event | None:
        """The next event if it is there already."""
        if self._queue.empty():
            return None
        event = self._queue.get_nowait()
        if event is None:
            self._queue.put_nowait(None)
        return event

    def drained(self) -> bool:
        """Whether nothing is there."""
        return self._queue.qsize() <= self._ended


class ServerExchange:
    """The handle of an open conversation.

    Replies and ends that it gives are acknowledged as ``Hands`` says: when whoever took one comes back to the exchange
    for anything, or leaves. One that was not acknowledged is told again, to whoever resumes the conversation.

    Args:
        conversation: its id.
        submit: commits an outside message.
        close: ends the conversation.
        new_id: makes the ids of requests.
        acknowledge: told of the place of each event that was taken.
        leave: forgets the exchange.
        told: the places of what was given to an earlier exchange and not acknowledged.
    """

    def __init__(
        self,
        conversation: str,
        submit: Callable[[str, Outside], Awaitable[None]],
        close: Callable[[str], Awaitable[None]],
        new_id: Callable[[], str],
        acknowledge: Callable[[str, EventPlace], None],
        leave: Callable[[str], None],
        told: set[EventPlace],
    ) -> None:
        self._conversation = conversation
        self._submit = submit
        self._close = close
        self._new_id = new_id
        self._leave = leave
        self._hands = Hands(lambda place: acknowledge(conversation, place), told)
        self._all: Stream | None = None
        self._asked: dict[str, Stream] = {}
        self._over = False
        self._left = False

    @property
    def id(self) -> str:
        """The conversation's id."""
        return self._conversation

    async def send(self, data: bytes, to: str | None = None) -> str:
        """Hand in an envelope or a bare payload; gives its request's id once it is committed or refused.

        Raises RuntimeError when the conversation is over, this exchange was left, or the server stops.
        """
        request = self._new_id()
        await self._hand_in(Outside(data, request, to))
        return request

    async def replies(self, data: bytes, to: str | None = None) -> AsyncIterator[Reply]:
        """Hand in a message and give its replies as they come, until nothing more can. Raises as ``send`` does."""
        async with self._answers(data, to) as answers:
            while (event := await self._next(answers)) is not None:
                if isinstance(event, Done):
                    return
                yield event
                self._hands.back()

    async def ask(self, data: bytes, to: str | None = None) -> Reply | None:
        """Hand in a message and give its first reply; None when it came to rest without one. Raises as ``send`` does.

        What comes of it later is for ``events``, or for whoever resumes the conversation.
        """
        async with self._answers(data, to) as answers:
            event = await self._next(answers)
            if not isinstance(event, Reply):
                return None
            end = answers.next_there()
            if isinstance(end, Done):
                self._hands.give(end)
            elif end is not None:
                self._put_back([end])
            return event

    async def _hand_in(self, outside: Outside) -> None:
        if self._left:
            raise RuntimeError("the exchange was left: resume the conversation")
        self._hands.back()
        await self._submit(self._conversation, outside)

    @asynccontextmanager
    async def _answers(self, data: bytes, to: str | None) -> AsyncIterator[Stream]:
        """What a message leads to. What is not taken of it goes to ``events``."""
        request = self._new_id()
        stream = self._asked[request] = Stream()
        try:
            await self._hand_in(Outside(data, request, to))
            yield stream
        finally:
            del self._asked[request]
            self._put_back(stream.rest())

    def _put_back(self, events: Iterable[Event]) -> None:
        if self._all is not None:
            self._all.put_back(events)

    async def _next(self, stream: Stream) -> Event | None:
        event = await stream.get()
        return None if event is None else self._give(event)

    def _give(self, event: Event) -> Event:
        given = self._hands.give(event)
        self._let_go()
        return given

    def events(self) -> AsyncIterator[Reply | Done]:
        """Everything that ``replies`` and ``ask`` do not take from now on, until the conversation is over."""
        return self._events(self.listen())

    async def _events(self, stream: Stream) -> AsyncIterator[Reply | Done]:
        self._hands.back()
        while (event := await self._next(stream)) is not None:
            yield event
            self._hands.back()

    def waiting(self) -> Iterator[Reply | Done]:
        """What ``events`` would give without waiting."""
        self._hands.back()
        while self._all is not None and (event := self._all.next_there()) is not None:
            yield self._give(event)
            self._hands.back()

    def leave(self) -> None:
        """Go without ending the conversation: what still comes is kept until somebody resumes it."""
        self._left = True
        self._hands.clean()
        self._leave(self._conversation)

    async def close(self) -> None:
        """End the conversation, cancelling whatever runs in it."""
        await self._close(self._conversation)
        self._hands.drop()
        self._leave(self._conversation)

    # For the pump

    @property
    def told(self) -> set[EventPlace]:
        """The places of what was given and is not acknowledged."""
        return self._hands.told

    def deliver(self, event: Event) -> None:
        """Pass a committed event to whoever waits for it."""
        stream = self._asked.get(event.request, self._all)
        if stream is not None:
            stream.put(event)

    def listen(self) -> Stream:
        """Keep events from now on, before anybody asks for them."""
        if self._all is None:
            self._all = Stream()
            if self._over:
                self._all.end()
        return self._all

    def catch_up(self, before: Iterable[Event]) -> None:
        """Give what left before in front of what has come since."""
        self.listen().catch_up(before)

    def settle(self) -> None:
        """The server stops in good order, and the gateway with it."""
        self._hands.clean()

    def finish(self) -> None:
        """Let everybody who waits go: there is nothing more to come."""
        if not self._over:
            self._over = True
            for stream in self._streams():
                stream.end()
            self._let_go()

    def _let_go(self) -> None:
        """Once it is over and all was given, others may resume the conversation."""
        if self._over and all(stream.drained() for stream in self._streams()):
            self._leave(self._conversation)

    def _streams(self) -> Iterator[Stream]:
        return (stream for stream in (*self._asked.values(), self._all) if stream is not None)
