"""Streams of events and progress to the tasks that consume them."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from agentserver.core.messages import UNDECIDED, Done, EventPlace, Reply, weigh_event

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from agentserver.core.messages import Progress


Event: TypeAlias = Reply | Done
Read: TypeAlias = "Callable[[EventPlace], Awaitable[Sequence[Event] | None]]"

EVENTS: Final = 256
"""Events and progress messages that wait for one consumer."""

BYTES: Final = 1_048_576
"""Bytes of their messages. A longer message waits alone."""


class Stream:
    """Events in order of their places. If several tasks take from one, each event goes to one of them."""

    __slots__ = ("_ended", "_events", "_since", "_waiters")

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        # Most have none; an asyncio.Event takes 0.7 kB, and five calls more for each message from outside.
        self._waiters: tuple[asyncio.Future[None], ...] = ()
        self._since = UNDECIDED
        self._ended = False

    def put(self, event: Event) -> None:
        """Add an event, unless it was read from the outbox while it was being committed."""
        if event.place > self._since:
            self.put_back([event])

    def put_back(self, events: Iterable[Event]) -> None:
        """Add events again."""
        self._events.extend(events)
        if self._waiters:
            self._wake()

    def _wake(self) -> None:
        """Wake every task that waits: each looks again."""
        waiters, self._waiters = self._waiters, ()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _wait(self) -> None:
        """Wait until something is put, or the stream ends."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters = (*self._waiters, waiter)
        try:
            await waiter
        finally:
            if self._waiters:  # cancelled, or others have come since
                self._waiters = tuple([each for each in self._waiters if each is not waiter])

    def catch_up(self, before: Iterable[Event]) -> None:
        """Insert earlier events in front of those that have come since."""
        known = {event.place: event for event in (*self.drain(), *before)}
        self.put_back(known[place] for place in sorted(known))
        self._since = max(known, default=UNDECIDED)

    def end(self) -> None:
        """End the stream after the events that wait."""
        self._ended = True
        self._wake()

    async def get(self) -> Event | None:
        """Return the next event; None at the end."""
        while not self._events:
            if self._ended:
                return None
            await self._wait()
        return self._events.popleft()

    def take_available(self) -> Event | None:
        """Return the next event if it is there already."""
        return self._events.popleft() if self._events else None

    def drain(self) -> Iterator[Event]:
        """Remove and yield the events that are there already."""
        while (event := self.take_available()) is not None:
            yield event

    def is_drained(self) -> bool:
        """Return whether no event is there."""
        return not self._events


class AnswerStream(Stream):
    """Stream of the events of one message, for the task that sent it.

    Args:
        request: the message.

    ``settled`` has the places of earlier events that no other stream needs.
    """

    __slots__ = ("request", "settled")

    def __init__(self, request: str) -> None:
        super().__init__()
        self.request = request
        self.settled: AbstractSet[EventPlace] = frozenset()


logger = logging.getLogger("agentserver.pump")


class UnreadEvent(NamedTuple):
    """Place of an event that only the engine holds."""

    place: EventPlace
    request: str
    redelivered: bool


class Backlog(Stream):
    """Stream that holds as many events and bytes as one watcher's queue, and only the places of the rest.

    Args:
        read: reads the next events after a place from the engine; None once it is closed.
    """

    __slots__ = ("_bytes", "_read", "_reading", "_unread")

    def __init__(self, read: Read) -> None:
        super().__init__()
        self._read = read
        self._reading = asyncio.Lock()
        self._unread: deque[UnreadEvent] = deque()  # behind all that is held whole
        self._bytes = 0

    @property
    def size(self) -> tuple[int, int, int]:
        """Events that are held, bytes of their messages, and places of others."""
        return len(self._events), self._bytes, len(self._unread)

    def put_back(self, events: Iterable[Event | UnreadEvent]) -> None:
        """Add events again."""
        for event in events:
            if isinstance(event, UnreadEvent) or not self._room(event):
                self._unread.append(UnreadEvent(event.place, event.request, event.redelivered))
            else:
                self._hold(event)
        self._wake()

    def _room(self, event: Event) -> bool:
        if self._unread or len(self._events) >= EVENTS:
            return False
        return not self._events or self._bytes + weigh_event(event) <= BYTES

    def _hold(self, event: Event) -> None:
        self._events.append(event)
        self._bytes += weigh_event(event)

    async def get(self) -> Event | None:
        """Return the next event; None at the end. Raises EngineError if it cannot be read at present."""
        while (event := self.take_available()) is None:
            if self._unread:
                await self.fetch()
            elif self._ended:
                return None
            else:
                await self._wait()
        return event

    async def fetch(self) -> bool:
        """Read the next events, unless some are held. Returns whether any wait. Raises EngineError."""
        async with self._reading:
            if self._unread and not self._events:
                await self._fetch()
        return not self.is_drained()

    async def _fetch(self) -> None:
        first, latest = self._unread[0].place, max(self._unread[0].place, self._unread[-1].place)
        page = await self._read(EventPlace(first.version, first.position - 1))
        if page is None:  # the server has stopped: another one delivers it again
            self._unread.clear()
            return
        found = {event.place: event for event in page}
        if page:
            latest = page[-1].place
        removed = 0
        while self._unread and first <= self._unread[0].place <= latest:
            place = self._unread.popleft()
            event = found.get(place.place)
            if event is None:
                removed += 1
            else:
                self._hold(event._replace(redelivered=place.redelivered))
        if removed:
            logger.warning("%d unacknowledged events have expired", removed)

    def take_available(self) -> Event | None:
        """Return the next event if it is held."""
        event = super().take_available()
        if event is not None:
            self._bytes -= weigh_event(event)
        return event

    def catch_up(self, before: Iterable[Event]) -> None:
        """Insert earlier events in front of those that have come since."""
        known = {event.place: event for event in self._take_all()} | {event.place: event for event in before}
        self.put_back(known[place] for place in sorted(known))
        self._since = max(known, default=UNDECIDED)

    def take(self, request: str) -> list[Event | UnreadEvent]:
        """Remove and return the events of one request."""
        events = self._take_all()
        self.put_back(event for event in events if event.request != request)
        return [event for event in events if event.request == request]

    def _take_all(self) -> list[Event | UnreadEvent]:
        events = [*self.drain(), *self._unread]
        self._unread.clear()
        return events

    def is_drained(self) -> bool:
        """Return whether no event waits."""
        return not self._events and not self._unread


WAITING: Final = 64
"""Progress messages that wait for one gateway; the oldest are dropped."""


class ProgressQueue:
    """Progress of one conversation, for its readers."""

    __slots__ = ("_ended", "_stirred", "_words")

    def __init__(self) -> None:
        self._words: deque[Progress] = deque(maxlen=WAITING)
        self._stirred = asyncio.Event()
        self._ended = False

    def put(self, progress: Progress) -> None:
        """Add progress. Neither waits nor raises."""
        self._words.append(progress)
        self._stirred.set()

    def end(self) -> None:
        """End the queue after the progress that waits."""
        self._ended = True
        self._stirred.set()

    async def iter_words(self) -> AsyncIterator[Progress]:
        """Yield progress until the end. If several tasks take, each message goes to one."""
        while self._words or not self._ended:
            if self._words:
                yield self._words.popleft()
            else:
                self._stirred.clear()
                await self._stirred.wait()
