"""Watchers of conversations: any number, each at its own pace.

Owns how much waits for one, and how one that comes late or comes back is given what left before. Refuses to count
anything as taken, and to hold up what it watches.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from agentserver.core.messages import Progress
from agentserver.ports import Ended, ForgottenError, WatchEnd
from agentserver.pump.ingress.stream import weight

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

    from agentserver.core.messages import EventPlace
    from agentserver.ports import ConversationFound, Engine
    from agentserver.pump.ingress.stream import Event

EVENTS: Final = 256
"""Events and words of progress that wait for one watcher."""

BYTES: Final = 1_048_576
"""Bytes of their messages. A message that is longer waits alone."""

WORDS: Final = 64
"""The load that may wait for a watcher when a word of progress comes; else that one is lost."""

AT_ONCE: Final = 64
"""Events that are read from the engine at once."""


def nobody() -> None:
    """Ignore that a watcher has caught up."""


class WatchQueue:
    """The events that wait for one watcher.

    It is behind until it was given what left before; then everything comes as it leaves.

    Args:
        after: the place of the last event that its watcher has.
    """

    __slots__ = ("_bytes", "_items", "_stirred", "behind", "end", "last", "missed")

    def __init__(self, after: EventPlace) -> None:
        self._items: deque[Event | Progress] = deque()
        self._bytes = 0
        self._stirred = asyncio.Event()
        self.last = after
        self.behind, self.missed = True, False
        self.end: WatchEnd | None = None

    @property
    def size(self) -> tuple[int, int]:
        """The load that waits: items, and bytes of messages."""
        return len(self._items), self._bytes

    def put(self, event: Event) -> None:
        """Add an event that has left. Where there is no room for it nothing waits any more."""
        if self.end is not None:
            return
        self._bytes += weight(event)
        self._items.append(event)
        if len(self._items) > EVENTS or (self._bytes > BYTES and len(self._items) > 1):
            self._items.clear()
            self._bytes = 0
            if self.behind:
                self.missed = True  # it is read from the engine with the rest
            else:
                self.end = WatchEnd.LAGGED
        self._stirred.set()

    def tell(self, progress: Progress) -> None:
        """Add a word of progress, unless much is waiting already."""
        if self.end is None and len(self._items) < WORDS:
            self._items.append(progress)
            self._stirred.set()

    def finish(self, end: WatchEnd) -> None:
        """Nothing more comes."""
        if self.end is None:
            self.end = end
        self._stirred.set()

    def take(self, event: Event) -> bool:
        """Count an event as given; False when it was before."""
        if event.place <= self.last:
            return False
        self.last = event.place
        return True

    def nudge(self) -> None:
        """Something has left of which only the engine tells: it is read there, before anything that waits here."""
        self.behind = True
        self._stirred.set()

    async def next(self) -> Event | Progress | None:
        """The next item; None at the end, and when there is something to be read from the engine before."""
        while True:
            if self.behind:
                return None
            while self._items:
                item = self._items.popleft()
                if isinstance(item, Progress):
                    return item
                self._bytes -= weight(item)
                if self.take(item):
                    return item
            if self.end is not None:
                return None
            self._stirred.clear()
            await self._stirred.wait()


class Watches:
    """Every watcher of every conversation.

    Args:
        engine: gives what left before.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._stopped = False
        self.of: dict[str, list[WatchQueue]] = {}

    def deliver(self, conversation: str, events: Iterable[Event]) -> None:
        """Pass on what has left a conversation."""
        for watch in self.of.get(conversation, ()):
            for event in events:
                watch.put(event)

    def tell(self, progress: Progress) -> None:
        """Pass on a word of progress."""
        for watch in self.of.get(progress.conversation, ()):
            watch.tell(progress)

    def nudge(self, conversation: str) -> None:
        """Something has left a conversation that another process has, or had."""
        for watch in self.of.get(conversation, ()):
            watch.nudge()

    def over(self, conversation: str) -> None:
        """A conversation is over: its watchers get what is left."""
        for watch in self.of.get(conversation, ()):
            watch.finish(WatchEnd.CLOSED)

    def stop(self) -> None:
        """The server stops: let everybody go."""
        self._stopped = True
        for watches in self.of.values():
            for watch in watches:
                watch.finish(WatchEnd.STOPPING)

    async def events(
        self,
        conversation: str,
        after: EventPlace,
        standing: Callable[[], Awaitable[ConversationFound]],
        caught_up: Callable[[], None] = nobody,
    ) -> AsyncIterator[Event | Progress | Ended]:
        """Everything after a place, then what leaves from now on, and its end.

        ``standing`` tells of the conversation, or raises LookupError. ``caught_up`` is called whenever all that left
        before was given.
        """
        watch = WatchQueue(after)
        self.of.setdefault(conversation, []).append(watch)
        try:
            if self._stopped:
                watch.finish(WatchEnd.STOPPING)
            elif (await standing()).over:
                watch.finish(WatchEnd.CLOSED)
            while watch.end is None or (watch.behind and watch.end is not WatchEnd.STOPPING):
                async for event in self._before(conversation, watch):
                    yield event
                caught_up()
                while (item := await watch.next()) is not None:
                    yield item
            yield Ended(watch.end, watch.last)
        finally:
            self.of[conversation].remove(watch)
            if not self.of[conversation]:
                del self.of[conversation]

    async def _before(self, conversation: str, watch: WatchQueue) -> AsyncIterator[Event]:
        """The events that left before, until there are no more."""
        while watch.behind and watch.end is not WatchEnd.STOPPING:
            for event in await self._page(conversation, watch):
                if watch.take(event):
                    yield event

    async def _page(self, conversation: str, watch: WatchQueue) -> Iterable[Event]:
        """The next events that left before; with the last of them the watch is no more behind."""
        watch.missed = False
        try:
            page = await self._engine.left(conversation, watch.last, AT_ONCE)
        except ForgottenError as error:
            watch.last, watch.end, watch.behind = error.since, WatchEnd.GONE, False
            return ()
        except LookupError:  # nothing was committed in it yet, or it was forgotten meanwhile
            page = []
        watch.behind = bool(page) or watch.missed
        return page
