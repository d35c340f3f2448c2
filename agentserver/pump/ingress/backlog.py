"""The events that wait for a gateway that takes its time.

Owns how much of it is held whole, and how the rest is read from the engine when its turn comes. Refuses to know when
an event counts as taken.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from agentserver.core.messages import UNDECIDED, EventPlace
from agentserver.pump.ingress.stream import Event, Stream, weight
from agentserver.pump.ingress.watching import BYTES, EVENTS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    Read: TypeAlias = Callable[[EventPlace], Awaitable[Sequence[Event] | None]]

logger = logging.getLogger("agentserver.pump")


class Away(NamedTuple):
    """An event that only the engine has."""

    place: EventPlace
    request: str
    redelivered: bool


class Backlog(Stream):
    """A stream that holds no more events and bytes than one watcher's queue, and the places of the rest.

    Args:
        read: gives the next events that the engine keeps after a place; None when it can be asked no more.
    """

    __slots__ = ("_away", "_bytes", "_read", "_reading")

    def __init__(self, read: Read) -> None:
        super().__init__()
        self._read = read
        self._reading = asyncio.Lock()
        self._away: deque[Away] = deque()  # behind all that is held whole
        self._bytes = 0

    @property
    def size(self) -> tuple[int, int, int]:
        """The load that waits: events, bytes of their messages, and places of others."""
        return len(self._events), self._bytes, len(self._away)

    def put_back(self, events: Iterable[Event | Away]) -> None:
        """Add events that were on the way before."""
        for event in events:
            if isinstance(event, Away) or not self._room(event):
                self._away.append(Away(event.place, event.request, event.redelivered))
            else:
                self._hold(event)
        self._stirred.set()

    def _room(self, event: Event) -> bool:
        if self._away or len(self._events) >= EVENTS:
            return False
        return not self._events or self._bytes + weight(event) <= BYTES

    def _hold(self, event: Event) -> None:
        self._events.append(event)
        self._bytes += weight(event)

    async def get(self) -> Event | None:
        """The next event; None when nothing more comes. Raises EngineError when it cannot be read at present."""
        while (event := self.next_there()) is None:
            if self._away:
                await self.fetch()
            elif self._ended:
                return None
            else:
                self._stirred.clear()
                await self._stirred.wait()
        return event

    async def fetch(self) -> bool:
        """Hold the next events whole, unless some are; False when nothing waits. Raises EngineError."""
        async with self._reading:
            if self._away and not self._events:
                await self._fetch()
        return not self.drained()

    async def _fetch(self) -> None:
        first, latest = self._away[0].place, max(self._away[0].place, self._away[-1].place)
        page = await self._read(EventPlace(first.version, first.position - 1))
        if page is None:  # the server has stopped: it is told again
            self._away.clear()
            return
        found = {event.place: event for event in page}
        if page:
            latest = page[-1].place
        gone = 0
        while self._away and first <= self._away[0].place <= latest:
            away = self._away.popleft()
            event = found.get(away.place)
            if event is None:
                gone += 1
            else:
                self._hold(event._replace(redelivered=away.redelivered))
        if gone:
            logger.warning("%d events that were not taken are not kept any more", gone)

    def next_there(self) -> Event | None:
        """The next event if it is held whole."""
        event = super().next_there()
        if event is not None:
            self._bytes -= weight(event)
        return event

    def catch_up(self, before: Iterable[Event]) -> None:
        """Put what left before in front of what has come since."""
        known = {event.place: event for event in self._all()} | {event.place: event for event in before}
        self.put_back(known[place] for place in sorted(known))
        self._since = max(known, default=UNDECIDED)

    def take(self, request: str) -> list[Event | Away]:
        """The events that wait of one request, taken out."""
        there = self._all()
        self.put_back(event for event in there if event.request != request)
        return [event for event in there if event.request == request]

    def _all(self) -> list[Event | Away]:
        there = [*self.rest(), *self._away]
        self._away.clear()
        return there

    def drained(self) -> bool:
        """True when nothing waits."""
        return not self._events and not self._away
