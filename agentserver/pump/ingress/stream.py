"""Events on their way to the task that takes them.

Owns their order, and that each is on the way once. Refuses to know what they say and when they count as taken.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, TypeAlias

from agentserver.core.messages import UNDECIDED, Done, Reply

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Event: TypeAlias = Reply | Done


def weight(event: Event) -> int:
    """The bytes of an event's message."""
    return len(event.message) if isinstance(event, Reply) else 0


class Stream:
    """Events in order of their places. Several may take from one: each event goes to one of them."""

    __slots__ = ("_ended", "_events", "_since", "_stirred")

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._stirred = asyncio.Event()
        self._since = UNDECIDED
        self._ended = False

    def put(self, event: Event) -> None:
        """Add an event, unless it was found in the outbox already: it was being committed meanwhile."""
        if event.place > self._since:
            self.put_back([event])

    def put_back(self, events: Iterable[Event]) -> None:
        """Add events that were on the way before."""
        self._events.extend(events)
        self._stirred.set()

    def catch_up(self, before: Iterable[Event]) -> None:
        """Put what left before in front of what has come since."""
        known = {event.place: event for event in (*self.rest(), *before)}
        self.put_back(known[place] for place in sorted(known))
        self._since = max(known, default=UNDECIDED)

    def end(self) -> None:
        """Nothing more comes."""
        self._ended = True
        self._stirred.set()

    async def get(self) -> Event | None:
        """The next event; None when nothing more comes."""
        while not self._events:
            if self._ended:
                return None
            self._stirred.clear()
            await self._stirred.wait()
        return self._events.popleft()

    def next_there(self) -> Event | None:
        """The next event if it is there already."""
        return self._events.popleft() if self._events else None

    def rest(self) -> Iterator[Event]:
        """The events that are there already, taken out."""
        while (event := self.next_there()) is not None:
            yield event

    def drained(self) -> bool:
        """True when nothing is there."""
        return not self._events
