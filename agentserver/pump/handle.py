"""Handle of one conversation, as its gateway uses it."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

from agentserver.core.messages import UNDECIDED, Done, Reply
from agentserver.ports import Unkept, UnkeptError
from agentserver.pump.streams import Away, Backlog, ProgressQueue, Stream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Sequence

    from agentserver.core.messages import EventPlace, Outside, Progress
    from agentserver.ports import Submitted
    from agentserver.pump.streams import Event


class TaskEnds(Protocol):
    """Tells the hands of tasks when these are over."""

    def tell(self, hands: Any, task: asyncio.Task[object]) -> None:
        """Tell these hands, unless they are gone by then, when the task is over."""
        ...


class HandleHost(Protocol):
    """A handle's needs of its server."""

    @property
    def returns(self) -> TaskEnds:
        """Tells which tasks are over."""
        ...

    def outside(
        self, principal: str, conversation: str, data: bytes, to: str | None, own: str | None
    ) -> Outside:
        """A message under an id of the server's, and of the sender's."""
        ...

    async def submit(self, principal: str, conversation: str, outside: Outside) -> Submitted:
        """Commit an outside message, or say why not; of one that was sent before gives what became of it then."""
        ...

    async def told(self, conversation: str, request: str) -> list[Event]:
        """Everything that left for a request with a key, acknowledged or not."""
        ...

    async def outbox(self, conversation: str) -> list[Event]:
        """The events that left the conversation and were not acknowledged."""
        ...

    async def left(self, conversation: str, after: EventPlace) -> Sequence[Event] | None:
        """The next events after a place that are kept, acknowledged or not; None when the server has stopped."""
        ...

    async def catch_up(self, conversation: str) -> None:
        """Pass on what has left and was not passed on. Raises EngineError."""
        ...

    def acknowledge(self, conversation: str, place: EventPlace) -> None:
        """An event was taken."""
        ...

    def detach(self, conversation: str) -> None:
        """The gateway has the conversation no longer."""
        ...

    async def close(self, conversation: str) -> None:
        """End the conversation."""
        ...


logger = logging.getLogger("agentserver.pump")


class Returns:
    """Tells hands that a task is over. One call-back for each task, however many handles it has to do with."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Task[object], WeakSet[Hands]] = {}

    def tell(self, hands: Hands, task: asyncio.Task[object]) -> None:
        """Tell these hands, unless they are gone by then, when the task is over."""
        if task not in self._waiting:
            self._waiting[task] = WeakSet()
            task.add_done_callback(self._over)
        self._waiting[task].add(hands)

    def _over(self, task: asyncio.Task[object]) -> None:
        for hands in self._waiting.pop(task):
            hands.ended(task)


class Hands:
    """The events that the tasks of a gateway have in hand: given to them, and not acknowledged.

    The only place that acknowledges. An event counts as taken when the task that took it comes back to the handle
    for anything, or the gateway leaves cleanly. What a task had in hand when it returned waits for the gateway to
    come back; what one had that failed or was cancelled is told again, marked as such.

    Args:
        host: the server, which is told of each place once.
        conversation: the one that the events are of.
        told: the places of what was given before and is not acknowledged.
    """

    __slots__ = ("__weakref__", "_conversation", "_held", "_host", "_returned", "_returns", "told")

    def __init__(self, host: HandleHost, conversation: str, told: set[EventPlace]) -> None:
        self._host = host
        self._conversation = conversation
        self.told = told
        self._returns = host.returns
        self._held: dict[asyncio.Task[object] | None, list[EventPlace]] = {}
        self._returned: list[EventPlace] = []

    def give(self, event: Event) -> Event:
        """Put an event into the hands of the running task; gives it marked if it was given before."""
        task = asyncio.current_task()
        held = self._held.get(task)
        if held is None:
            held = self._held[task] = []
            if task is not None:
                self._returns.tell(self, task)
        held.append(event.place)
        again = event.redelivered or event.place in self.told
        self.told.add(event.place)
        return event if again == event.redelivered else event._replace(redelivered=again)

    def back(self) -> None:
        """The running task has come back: it, and every task that has returned, is done with what it took."""
        self._settle(self._returned)
        self._settle(self._held.pop(asyncio.current_task(), []))

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
            self._host.acknowledge(self._conversation, place)
        places.clear()

    def ended(self, task: asyncio.Task[object]) -> None:
        """A task is over."""
        places = self._held.pop(task, [])
        if not places or task.cancelled():
            return
        error = task.exception()
        if error is None:
            self._returned += places
        else:
            logger.error("a gateway failed with something in hand; it is told again", exc_info=error)


class ServerHandle:
    """The handle of an open conversation.

    Replies and ends that it gives are acknowledged as ``Hands`` says: when the task that took one comes back to the
    handle for anything, or leaves. One that was not acknowledged is told again when the conversation is resumed.

    Args:
        host: the server.
        principal: whose it is.
        conversation: its id.
        told: the places of what was given to an earlier handle and not acknowledged.

    ``latest`` is the place up to which everything was passed on.
    """

    __slots__ = (
        "_all",
        "_asked",
        "_conversation",
        "_hands",
        "_host",
        "_left",
        "_over",
        "_principal",
        "_progress",
        "latest",
    )

    def __init__(self, host: HandleHost, principal: str, conversation: str, told: set[EventPlace]) -> None:
        self._host = host
        self._principal = principal
        self._conversation = conversation
        self._hands = Hands(host, conversation, told)
        self._all: Backlog | None = None
        self._asked: dict[str, list[Stream]] = {}
        self.latest = UNDECIDED
        self._progress = ProgressQueue()
        self._over = self._left = False

    @property
    def id(self) -> str:
        """The conversation's id."""
        return self._conversation

    async def send(self, data: bytes, to: str | None = None, *, request: str | None = None) -> Submitted:
        """Hand in an envelope or a bare payload; gives what became of it, once it is committed or refused.

        Args:
            data: the envelope or the payload.
            to: the listener it is for; None leaves it to the envelope or to the payload's root.
            request: an id of the sender's own, which counts in this conversation alone. The same message under the same
                id is the same request, however often it is sent.

        What left for a request that was sent before, and was not acknowledged, comes again in ``events``.

        Raises RuntimeError when this handle was detached, OtherMessageError when another message was sent under
        ``request``, ValueError when it is no id.
        """
        submitted = await self._hand_in(self._outside(data, to, request))
        if submitted.again:
            await self._tell_again(submitted.request)
        return submitted

    async def replies(
        self, data: bytes, to: str | None = None, *, request: str | None = None
    ) -> AsyncIterator[Reply]:
        """Hand in a message and give its replies as they come, until nothing more can.

        Of a request that was sent before everything comes again, also what was acknowledged. Takes and raises what
        ``send`` does, and UnkeptError when nothing of the message was kept.
        """
        async with self._answers(self._outside(data, to, request)) as answers:
            while (event := await self._next(answers)) is not None:
                if isinstance(event, Done):
                    return
                yield event
                self._hands.back()

    async def ask(self, data: bytes, to: str | None = None, *, request: str | None = None) -> Reply | None:
        """Hand in a message and give its first reply; None when it came to rest without one. As ``replies`` otherwise.

        What comes of it later is for ``events``, also after the conversation was resumed.
        """
        async with self._answers(self._outside(data, to, request)) as answers:
            event = await self._next(answers)
            if not isinstance(event, Reply):
                return None
            end = answers.next_there()
            if isinstance(end, Done):
                self._hands.give(end)
            elif end is not None:
                answers.put_back([end, *answers.rest()])
            return event

    def _outside(self, data: bytes, to: str | None, own: str | None) -> Outside:
        return self._host.outside(self._principal, self._conversation, data, to, own)

    async def _hand_in(self, outside: Outside) -> Submitted:
        if self._left:
            raise RuntimeError("the handle was detached: resume the conversation")
        self._hands.back()
        return await self._host.submit(self._principal, self._conversation, outside)

    @asynccontextmanager
    async def _answers(self, outside: Outside) -> AsyncIterator[Stream]:
        """The events that a message leads to. Those not taken go to ``events``, but for acknowledged ones."""
        stream, request = Stream(), outside.request
        settled: set[EventPlace] = set()
        self._asked[request] = [stream]  # before it is committed, or what it leads to could be missed
        try:
            submitted = await self._hand_in(outside)
            if submitted.code is not None and isinstance(submitted.code, Unkept):
                raise UnkeptError(submitted.code)
            if submitted.again:
                del self._asked[request]
                request = submitted.request
                self._asked.setdefault(request, []).append(stream)
                settled = await self._repeat(request, stream)
            yield stream
        finally:
            self._asked[request].remove(stream)
            if not self._asked[request]:  # others who sent the same message have the same events
                del self._asked[request]
                if not self._asked:  # or it stays as large as it ever was
                    self._asked.clear()
                if self._all is not None and not self._over:
                    self._all.put_back(event for event in stream.rest() if event.place not in settled)

    async def _repeat(self, request: str, stream: Stream) -> set[EventPlace]:
        """Begin a stream with all that left for a request before; gives the places that are for no other stream."""
        await self._host.catch_up(self._conversation)
        told = await self._host.told(self._conversation, request)
        told = [each for each in told if self._over or each.place <= self.latest]  # the rest comes by itself
        if len(self._asked[request]) > 1:  # another task has it first, and may be done with it by then
            told = [event._replace(redelivered=True) for event in told]
        mine = [] if self._all is None else self._all.take(request)
        known = {event.place for event in told}
        if self._all is not None:  # those that the engine does not tell of any more
            self._all.put_back(
                event for event in mine if isinstance(event, Away) and event.place not in known
            )
        stream.catch_up((*(event for event in mine if not isinstance(event, Away)), *told))
        if self._over:
            stream.end()
        return known - {event.place for event in mine}

    async def _tell_again(self, request: str) -> None:
        """Let ``events`` give again what left for a request, passed this handle, and was not acknowledged."""
        if self._all is None:
            return
        left = [event for event in await self._host.outbox(self._conversation) if event.request == request]
        known: dict[EventPlace, Event | Away] = {
            event.place: event for event in left if event.place <= self.latest
        }
        known.update((event.place, event) for event in self._all.take(request))
        self._all.put_back(known[place] for place in sorted(known))

    async def _next(self, stream: Stream) -> Event | None:
        if (event := await stream.get()) is not None:
            return self._give(event)
        self._let_go()
        return None

    def _give(self, event: Event) -> Event:
        given = self._hands.give(event)
        self._let_go()
        return given

    def events(self) -> AsyncIterator[Reply | Done]:
        """Everything that ``replies`` and ``ask`` do not take from now on, until the conversation is over.

        However much waits, little of it is held here: the rest is read from the engine when its turn comes.

        Raises EngineError when that cannot be done at present; to be called again then.
        """
        return self._events(self.listen())

    async def _events(self, stream: Stream) -> AsyncIterator[Reply | Done]:
        self._hands.back()
        while (event := await self._next(stream)) is not None:
            yield event
            self._hands.back()

    def progress(self) -> AsyncIterator[Progress]:
        """Words of listeners on how far they are, from now on, until the conversation is over.

        They are shown or lost: nothing of them is kept, and of many the latest wait.
        """
        return self._progress.words()

    def waiting(self) -> Iterator[Reply | Done]:
        """The events that ``events`` would give without waiting. More may be there once ``fetch`` has returned."""
        self._hands.back()
        while self._all is not None and (event := self._all.next_there()) is not None:
            yield self._give(event)
            self._hands.back()

    async def fetch(self) -> bool:
        """Read what is next for ``waiting`` from the engine; False when nothing is. Raises EngineError."""
        return self._all is not None and await self._all.fetch()

    def detach(self) -> None:
        """Go without ending the conversation: what still comes is kept until its principal resumes it."""
        self._left = True
        self._hands.clean()
        self._host.detach(self._conversation)

    async def close(self) -> None:
        """End the conversation, cancelling all that runs in it."""
        await self._host.close(self._conversation)
        self._hands.drop()
        self._host.detach(self._conversation)

    # For the pump

    @property
    def over(self) -> bool:
        """True when nothing more comes of the conversation."""
        return self._over

    @property
    def told(self) -> set[EventPlace]:
        """The places of what was given and is not acknowledged."""
        return self._hands.told

    def deliver(self, event: Event) -> None:
        """Pass a committed event to the streams that wait for it, unless it was read from the engine before."""
        if event.place <= self.latest:
            return
        self.latest = event.place
        asked = self._asked.get(event.request, () if self._all is None else (self._all,))
        for stream in asked[:1]:
            stream.put(event)
        for stream in asked[1:]:  # of a task that sent the message again meanwhile
            stream.put(event._replace(redelivered=True))

    def tell(self, progress: Progress) -> None:
        """Pass a word of progress to who asked for it, if anybody did."""
        self._progress.put(progress)

    def listen(self) -> Backlog:
        """Keep events from now on, before anybody asks for them."""
        if self._all is None:
            self._all = Backlog(partial(self._host.left, self._conversation))
            if self._over:
                self._all.end()
        return self._all

    def catch_up(self, before: Iterable[Event], since: EventPlace) -> None:
        """Give what left before in front of what has come since.

        Args:
            before: what was not acknowledged.
            since: a place up to which nothing else is wanted.
        """
        before = tuple(before)
        self.latest = max(self.latest, since, *(event.place for event in before))
        self.listen().catch_up(before)

    def settle(self) -> None:
        """The server stops in good order, and the gateway with it."""
        self._hands.clean()

    def finish(self) -> None:
        """Let everybody who waits go: there is nothing more to come."""
        if not self._over:
            self._over = True
            self._progress.end()
            for stream in self._streams():
                stream.end()
            self._let_go()

    def _let_go(self) -> None:
        """Once it is over and all was given, others may resume the conversation."""
        if self._over and all(stream.drained() for stream in self._streams()):
            self._host.detach(self._conversation)

    def _streams(self) -> Iterator[Stream]:
        asked = (stream for streams in self._asked.values() for stream in streams)
        return (stream for stream in (*asked, self._all) if stream is not None)
