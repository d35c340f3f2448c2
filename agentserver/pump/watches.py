"""Watchers of conversations: any number, each at its own pace.

A watcher that starts late reads earlier events from memory if they are recent, otherwise from the engine.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.core.messages import LAST, UNDECIDED, Delta, DeltaKind, EventPlace, Progress, weigh_event
from agentserver.ports import EventsExpiredError, WatchEnd, WatchStop
from agentserver.pump.streams import BYTES, EVENTS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping

    from agentserver.core.records.outcome import Outcome
    from agentserver.core.state.conversation import Conversation
    from agentserver.ports import Claim, ConversationFound, Engine
    from agentserver.pump.streams import Event


WORDS: Final = 64
"""Items that may wait for a watcher when progress comes; with more, the progress is dropped."""

AT_ONCE: Final = 64
"""Events that are read from the engine at once."""

PIECE: Final = 16_384
"""Characters of one piece of an answer. Pieces that wait for a slow watcher are joined up to this length."""

RECENT: Final = 1024
"""Conversations whose latest events are in memory, so that a new watcher need not ask the engine."""

RECENT_EVENTS: Final = 4
"""Events of one conversation in memory."""

RECENT_BYTES: Final = 16_384
"""Bytes of their messages."""


FRESH: Final = 1.0
"""Seconds for which the latest events of a conversation of another process count as complete."""


def ignore_catch_up() -> None:
    """Ignore that a watcher has caught up."""


class WatchQueue:
    """Events that wait for one watcher.

    It is behind until it has the earlier events; then everything comes as it occurs.

    Args:
        after: place of the last event that its watcher has.
        deltas: whether it takes pieces of answers that are not yet committed.
    """

    __slots__ = ("_awaited", "_bytes", "_items", "behind", "deltas", "end", "last", "missed")

    def __init__(self, after: EventPlace, *, deltas: bool = False) -> None:
        self.deltas = deltas
        self._items: deque[Event | Progress | Delta] = deque()
        self._bytes = 0
        self._awaited: asyncio.Future[None] | None = None
        self.last = after
        self.behind, self.missed = True, False
        self.end: WatchEnd | None = None

    @property
    def reads_earlier(self) -> bool:
        """True while earlier events are to be read from the engine."""
        return self.behind and self.end is not WatchEnd.STOPPING

    @property
    def size(self) -> tuple[int, int]:
        """Items that wait, and bytes of their messages."""
        return len(self._items), self._bytes

    def put(self, event: Event) -> None:
        """Add a new event. If there is no room for it, the queue is cleared."""
        if self.end is not None:
            return
        self._bytes += weigh_event(event)
        self._items.append(event)
        if len(self._items) > EVENTS:
            self._drop_passing()
        if len(self._items) > EVENTS or (self._bytes > BYTES and len(self._items) > 1):
            self._items.clear()
            self._bytes = 0
            if self.behind:
                self.missed = True  # it is read from the engine with the rest
            else:
                self.end = WatchEnd.LAGGED
        self._stir()

    def _drop_passing(self) -> None:
        """Drop progress and deltas, which are never stored, to make room for events."""
        self._items = deque(item for item in self._items if not isinstance(item, Progress | Delta))

    def tell(self, item: Progress | Delta) -> None:
        """Add progress or a delta, unless much is waiting."""
        if self.end is not None:
            return
        last = self._items[-1] if self._items else None
        if isinstance(item, Delta) and isinstance(last, Delta) and (joined := _join(last, item)) is not None:
            self._items[-1] = joined
        elif len(self._items) < WORDS:
            self._items.append(item)
        self._stir()

    def finish(self, end: WatchEnd) -> None:
        """End the queue after the events that wait."""
        if self.end is None:
            self.end = end
        self._stir()

    def _stir(self) -> None:
        """Wake the watcher."""
        if self._awaited is not None and not self._awaited.done():
            self._awaited.set_result(None)

    def take(self, event: Event) -> bool:
        """Record an event as delivered. Returns False if it was before."""
        if event.place <= self.last:
            return False
        self.last = event.place
        return True

    def nudge(self) -> None:
        """Read new events from the engine before anything that waits here."""
        self.behind = self.missed = True  # also while a read is under way
        self._stir()

    async def next_item(self) -> Event | Progress | Delta | None:
        """Return the next item; None at the end, and when there is something to be read from the engine before."""
        while True:
            if self.behind:
                return None
            while self._items:
                item = self._items.popleft()
                if isinstance(item, Progress | Delta):
                    return item
                self._bytes -= weigh_event(item)
                if self.take(item):
                    return item
            if self.end is not None:
                return None
            self._awaited = asyncio.get_running_loop().create_future()
            await self._awaited


def _join(one: Delta, other: Delta) -> Delta | None:
    """Join two pieces of one answer that follow each other; None if they do not, or are too long together."""
    if one[:4] != other[:4] or one.kind is not DeltaKind.TEXT or one.offset + len(one.text) != other.offset:
        return None
    text = one.text + other.text
    return one._replace(text=text) if len(text) <= PIECE else None


@dataclass(slots=True)
class RecentEvents:
    """Latest events of a conversation at work.

    Args:
        claim: of its steps.
        version: of the conversation after the last of them.
        since: a place; every later event is among the events.
        events: in order.
    """

    claim: Claim
    version: int
    since: EventPlace
    events: tuple[Event, ...]

    def add(self, events: tuple[Event, ...]) -> None:
        """Add events that have left, and drop the earliest if there are too many or they are too long."""
        found = (*self.events, *events)
        size = sum(map(weigh_event, found))
        while len(found) > RECENT_EVENTS or size > RECENT_BYTES:
            self.since, size, found = found[0].place, size - weigh_event(found[0]), found[1:]
        self.events = found


class RemoteEvents(NamedTuple):
    """The latest events of a conversation that another process has.

    Args:
        until: the time until which they are taken for the latest.
        since: a place; everything that left the conversation after it is among the events.
        events: in order.
    """

    until: float
    since: EventPlace
    events: tuple[Event, ...]


class Watches:
    """Watchers of all conversations.

    Args:
        engine: reads earlier events.
        live: the conversations at work, as last committed.
        claims: on those at work.
    """

    def __init__(self, engine: Engine, live: Mapping[str, Conversation], claims: Mapping[str, Claim]) -> None:
        self._engine, self._live, self._claims = engine, live, claims
        self._stopped = False
        self._recent: dict[str, RecentEvents] = {}
        self._remote: dict[str, RemoteEvents] = {}
        self.of: dict[str, list[WatchQueue]] = {}

    def pass_on(self, outcome: Outcome) -> None:
        """Pass on the events of a committed step, and remember them for watchers that start soon."""
        key, version = outcome.conversation.id, outcome.conversation.version
        self._remote.pop(key, None)  # what another process said before this step is not the latest any longer
        if not self._engine.durable:  # it has them in memory, and keeps more of conversations that are read
            if outcome.replies and self.of:
                self.deliver(key, outcome.replies)
            return
        claim = self._claims[key]
        known = self._recent.pop(key, None)  # and put last: the first is forgotten first
        if known is None or known.claim is not claim or known.version != outcome.before:
            since = EventPlace(outcome.before, LAST) if outcome.before else UNDECIDED  # nothing left before
            known = RecentEvents(claim, version, since, ())
        else:
            known.version = version
        if outcome.replies:
            known.add(outcome.replies)
            self.deliver(key, outcome.replies)
        self._recent[key] = known
        if len(self._recent) > RECENT:
            del self._recent[next(iter(self._recent))]

    def _find_recent(self, conversation: str, after: EventPlace) -> list[Event] | None:
        """Return the events of a conversation after a place; None if only the engine has them."""
        if conversation not in self._claims:
            known = self._remote.get(conversation)
            if known is None or after < known.since or known.until < asyncio.get_running_loop().time():
                return None
            return [event for event in known.events if event.place > after]
        return self._find_here(conversation, after)

    def _find_here(self, conversation: str, after: EventPlace) -> list[Event] | None:
        known, one = self._recent.get(conversation), self._live.get(conversation)
        if known is None or one is None or after < known.since:
            return None
        if known.version != one.version or self._claims.get(conversation) is not known.claim:
            return None
        return [event for event in known.events if event.place > after]

    def deliver(self, conversation: str, events: Iterable[Event]) -> None:
        """Pass on the events of a conversation."""
        for watch in self.of.get(conversation, ()):
            for event in events:
                watch.put(event)

    def deliver_remote(self, conversation: str, since: EventPlace, events: tuple[Event, ...]) -> None:
        """Pass on the latest events of a conversation that another process has: all that left it after ``since``."""
        self._remote.pop(conversation, None)  # and put last: the first is forgotten first
        until = asyncio.get_running_loop().time() + FRESH
        self._remote[conversation] = RemoteEvents(until, since, events)
        if len(self._remote) > RECENT:
            del self._remote[next(iter(self._remote))]
        for watch in self.of.get(conversation, ()):
            if watch.behind or watch.last < since:
                watch.nudge()
            else:
                for event in events:
                    watch.put(event)

    def tell(self, progress: Progress) -> None:
        """Pass on progress."""
        for watch in self.of.get(progress.conversation, ()):
            watch.tell(progress)

    def wants_deltas(self, conversation: str) -> bool:
        """Return whether any watcher takes deltas."""
        return any(watch.deltas for watch in self.of.get(conversation, ()))

    def tell_delta(self, delta: Delta) -> None:
        """Pass on a delta to the watchers that take them."""
        for watch in self.of.get(delta.conversation, ()):
            if watch.deltas:
                watch.tell(delta)

    def nudge(self, conversation: str, place: EventPlace) -> None:
        """Read the events of a conversation that another process owns, or owned, up to a place; UNDECIDED for all."""
        self._remote.pop(conversation, None)  # it may lack this
        for watch in self.of.get(conversation, ()):
            if place == UNDECIDED or place.version > watch.last.version:  # a step's events leave together
                watch.nudge()

    def close(self, conversation: str) -> None:
        """End the watchers of a closed conversation once they have its last events."""
        self._recent.pop(conversation, None)
        for watch in self.of.get(conversation, ()):
            watch.finish(WatchEnd.CLOSED)

    def stop(self) -> None:
        """End every watcher: the server stops."""
        self._stopped = True
        for watches in self.of.values():
            for watch in watches:
                watch.finish(WatchEnd.STOPPING)

    async def events(
        self,
        conversation: str,
        after: EventPlace,
        find: Callable[[], Awaitable[ConversationFound]],
        caught_up: Callable[[], None] = ignore_catch_up,
        *,
        deltas: bool = False,
    ) -> AsyncIterator[Event | Progress | Delta | WatchStop]:
        """Yield everything after a place, then new events as they occur, and the end.

        ``find`` returns the owner of the conversation, or raises LookupError. ``caught_up`` is called whenever all
        earlier events were yielded.
        """
        watch = self._enter(conversation, WatchQueue(after, deltas=deltas))
        try:
            await self._begin(watch, find)
            while watch.end is None or watch.reads_earlier:
                async for event in self._read_earlier(conversation, watch):
                    yield event
                caught_up()
                while (item := await watch.next_item()) is not None:
                    yield item
            yield WatchStop(watch.end, watch.last)
        finally:
            self._leave(conversation, watch)

    async def first_event(
        self,
        conversation: str,
        request: str,
        after: EventPlace,
        find: Callable[[], Awaitable[ConversationFound]],
    ) -> Event | WatchStop:
        """Return the first event of a request after a place, or the end that comes before it. See ``events``."""
        watch = self._enter(conversation, WatchQueue(after))
        try:
            await self._begin(watch, find)
            while watch.end is None or watch.reads_earlier:
                found = await self._find_first(conversation, watch, request)
                if found is not None:
                    return found
            return WatchStop(watch.end, watch.last)
        finally:
            self._leave(conversation, watch)

    async def _find_first(self, conversation: str, watch: WatchQueue, request: str) -> Event | None:
        """Return the first event of a request; None at the end, and when there is more to be read from the engine."""
        while watch.reads_earlier:
            for event in await self._page(conversation, watch):
                if watch.take(event) and event.request == request:
                    return event
        while (item := await watch.next_item()) is not None:
            if item.request == request and not isinstance(item, Progress | Delta):
                return item
        return None

    async def _read_earlier(self, conversation: str, watch: WatchQueue) -> AsyncIterator[Event]:
        """Yield the earlier events until the watcher has caught up."""
        while watch.reads_earlier:
            for event in await self._page(conversation, watch):
                if watch.take(event):
                    yield event

    def _enter(self, conversation: str, watch: WatchQueue) -> WatchQueue:
        self.of.setdefault(conversation, []).append(watch)
        return watch

    async def _begin(self, watch: WatchQueue, find: Callable[[], Awaitable[ConversationFound]]) -> None:
        """End a watch that begins too late. Raises LookupError."""
        if self._stopped:
            watch.finish(WatchEnd.STOPPING)
        elif (await find()).over:
            watch.finish(WatchEnd.CLOSED)

    def _leave(self, conversation: str, watch: WatchQueue) -> None:
        watches = self.of[conversation]
        watches.remove(watch)
        if not watches:
            del self.of[conversation]

    async def _page(self, conversation: str, watch: WatchQueue) -> Iterable[Event]:
        """Return the next earlier events; with the last of them the watcher has caught up."""
        watch.missed = False
        recent = self._find_recent(conversation, watch.last)
        if recent is not None:
            watch.behind = False
            return recent
        try:
            page = await self._engine.read_events(conversation, watch.last, AT_ONCE)
        except EventsExpiredError as error:
            watch.last, watch.end, watch.behind = error.since, WatchEnd.GONE, False
            return ()
        except LookupError:  # nothing was committed in it yet, or it was forgotten meanwhile
            page = []
        watch.behind = bool(page) or watch.missed
        return page
