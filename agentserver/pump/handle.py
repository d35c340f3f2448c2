"""Handle of one conversation, as its gateway uses it."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol, cast

from agentserver.core.messages import UNDECIDED, Done, Reply
from agentserver.ports import NotStoredError, RejectReason
from agentserver.pump.streams import AnswerStream, Backlog, ProgressQueue, UnreadEvent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Container, Iterable, Iterator, Mapping, Sequence

    from agentserver.core.messages import EventPlace, OutsideMessage, Progress
    from agentserver.ports import SubmitResult
    from agentserver.pump.streams import Event, Stream


class HandleHost(Protocol):
    """Server as a handle sees it."""

    @property
    def returns(self) -> Returns:
        """Registry of the tasks that hold events."""

    def make_outside(
        self, principal: str, conversation: str, data: bytes, to: str | None, own: str | None
    ) -> OutsideMessage:
        """Make a message with an id of the server's, and of the sender's."""

    async def submit(self, principal: str, conversation: str, outside: OutsideMessage) -> SubmitResult:
        """Commit an outside message. One that was sent before returns its earlier result."""

    async def events_of(self, conversation: str, request: str) -> list[Event]:
        """Return all events of a request with a key, acknowledged or not."""

    async def outbox(self, conversation: str) -> list[Event]:
        """Return the unacknowledged events of the conversation."""

    async def next_events(self, conversation: str, after: EventPlace) -> Sequence[Event] | None:
        """Return the next kept events after a place, acknowledged or not; None if the server has stopped."""

    async def catch_up(self, conversation: str) -> None:
        """Pass on events that were not passed on yet. Raises EngineError."""

    def acknowledge(self, conversation: str, place: EventPlace) -> None:
        """Acknowledge an event."""

    def detach(self, conversation: str) -> None:
        """Release the conversation from its gateway."""

    async def close(self, conversation: str) -> None:
        """Close the conversation."""


logger = logging.getLogger("agentserver.pump")

NO_STREAMS: Final = cast("dict[str, list[AnswerStream]]", MappingProxyType({}))
"""Shared by all handles that expect no answer: an empty dictionary takes 64 bytes."""

FEW: Final = 64
"""Conversations of a task up to which none is forgotten, even if no gateway holds it."""

NO_PLACES: Final[frozenset[EventPlace]] = frozenset()
"""Shared by all handles without earlier events: each other empty set takes 216 bytes."""


class _Conversations(list[str]):
    """Conversations of a task, of which some may no longer be held, or may be named twice."""

    __slots__ = ("limit",)

    def __init__(self) -> None:
        super().__init__()
        self.limit = FEW

    def keep(self, held: Container[str]) -> None:
        """Drop what is not held, or is named twice, each time that their number has doubled."""
        if len(self) >= self.limit:
            self[:] = [each for each in dict.fromkeys(self) if each in held]
            self.limit = max(FEW, 2 * len(self))


class Returns:
    """Registry of running tasks, with one callback per task for any number of handles.

    It refers to handles by their conversations, so that it keeps none alive.

    Args:
        handles: those that gateways hold, by conversation.
    """

    def __init__(self, handles: Mapping[str, ServerHandle]) -> None:
        self._handles = handles
        self._watched: dict[asyncio.Task[object], _Conversations] = {}

    def watch(self, conversation: str, task: asyncio.Task[object]) -> None:
        """Call ``end_task`` of the handle of a conversation, if a gateway still holds it, when the task ends."""
        watched = self._watched.get(task)
        if watched is None:
            watched = self._watched[task] = _Conversations()
            task.add_done_callback(self._end_task)
        watched.keep(self._handles)
        watched.append(conversation)

    def _end_task(self, task: asyncio.Task[object]) -> None:
        for conversation in dict.fromkeys(self._watched.pop(task)):
            handle = self._handles.get(conversation)
            if handle is not None:
                handle.end_task(task)


class UnacknowledgedEvents:
    """Events that the tasks of a gateway have received and not acknowledged.

    A part of a handle, and no object of its own, which would take 64 bytes more for each conversation.

    Only this class acknowledges. An event is acknowledged when the task that received it calls the handle again, or the
    gateway leaves cleanly. If a task returns, its events wait for the gateway's next call; if it fails or is cancelled,
    they are redelivered and marked.

    Args:
        host: the server, to which each place is acknowledged once.
        conversation: of the events.
        delivered: places of events that were delivered before and not acknowledged.
    """

    __slots__ = (
        "_again",
        "_conversation",
        "_held",
        "_holder",
        "_host",
        "_others",
        "_returned",
    )

    def __init__(self, host: HandleHost, conversation: str, delivered: frozenset[EventPlace]) -> None:
        self._host = host
        self._conversation = conversation
        self._again = delivered
        self._held: tuple[EventPlace, ...] = ()
        """Places of the events that the latest task has. Nearly always no other task has any."""
        self._holder: asyncio.Task[object] | None = None
        """The latest task, whose end is awaited."""
        self._others: tuple[tuple[asyncio.Task[object] | None, tuple[EventPlace, ...]], ...] = ()
        self._returned: tuple[EventPlace, ...] = ()

    @property
    def delivered(self) -> frozenset[EventPlace]:
        """Places of events that were delivered and not acknowledged."""
        return self._again.union(self._returned, self._held, *(places for _, places in self._others))

    def _assign(self, event: Event) -> Event:
        """Assign an event to the current task. Returns it marked if it was delivered before."""
        place, task = event.place, asyncio.current_task()
        redelivered = (
            event.redelivered
            or place in self._held
            or (any((self._again, self._returned, self._others)) and place in self.delivered)
        )
        if task is not self._holder:
            if self._held:
                self._others = (*self._others, (self._holder, self._held))
            self._held, self._holder = self._take_other(task), task
            if task is not None:
                self._host.returns.watch(self._conversation, task)
        self._held = (*self._held, place)
        return event if redelivered == event.redelivered else event._replace(redelivered=redelivered)

    def _acknowledge_returned(self) -> None:
        """Acknowledge the events of the current task, and of every task that has returned."""
        task = asyncio.current_task()
        if task is not self._holder or self._others:
            self._end_returned_tasks()
        if self._returned:
            self._settle_returned()
        if self._held or self._others:
            self._settle(self._take(task))

    def _end_returned_tasks(self) -> None:
        """Note the end of tasks that ``Returns`` has not reported, because the conversation was over before."""
        for task in (self._holder, *[holder for holder, _ in self._others]):
            if task is not None and task.done():
                self.end_task(task)

    def _clean(self) -> None:
        """Acknowledge everything: the gateway has left, or stops, in good order."""
        self._settle_returned()
        held = tuple([place for _, places in self._others for place in places]) + self._held
        self._held, self._others = (), ()
        self._settle(held)

    def _drop(self) -> None:
        """Forget everything: the gateway wants no redelivery."""
        self._held, self._others = (), ()
        self._returned, self._again = (), NO_PLACES

    def _take(self, task: asyncio.Task[object] | None) -> tuple[EventPlace, ...]:
        """Take the places of the events that a task has."""
        if task is not self._holder:
            return self._take_other(task)
        held, self._held = self._held, ()
        return held

    def _take_other(self, task: asyncio.Task[object] | None) -> tuple[EventPlace, ...]:
        """Take the places of the events that another task than the latest has."""
        if not self._others:
            return ()
        taken = tuple([place for holder, places in self._others if holder is task for place in places])
        self._others = tuple([one for one in self._others if one[0] is not task])
        return taken

    def _settle_returned(self) -> None:
        returned, self._returned = self._returned, ()
        self._settle(returned)

    def _settle(self, places: tuple[EventPlace, ...]) -> None:
        for place in places:
            self._host.acknowledge(self._conversation, place)
        if self._again:
            self._again = self._again.difference(places) or NO_PLACES

    def end_task(self, task: asyncio.Task[object]) -> None:
        """Note the end of a task."""
        places = self._take(task)
        if self._holder is task:
            self._holder = None
        if not places:
            return
        error = None if task.cancelled() else task.exception()
        if error is None and not task.cancelled():
            self._returned += places
            return
        self._again = self._again.union(places)
        if error is not None:
            logger.error("a gateway failed with unacknowledged events; they are redelivered", exc_info=error)


class ServerHandle(UnacknowledgedEvents):
    """Handle of an open conversation.

    Replies and ends are acknowledged as ``UnacknowledgedEvents`` says: when the task that received one calls the handle
    again, or leaves. An unacknowledged one is redelivered when the conversation is resumed.

    Args:
        host: the server.
        principal: whose it is.
        conversation: its id.
        delivered: places of events that an earlier handle delivered and that were not acknowledged.

    ``latest`` is the place up to which everything was passed on.
    """

    __slots__ = (
        "_all",
        "_over",
        "_principal",
        "_progress",
        "_request_streams",
        "_was_left",
        "latest",
    )

    def __init__(
        self, host: HandleHost, principal: str, conversation: str, delivered: frozenset[EventPlace]
    ) -> None:
        super().__init__(host, conversation, delivered)
        self._principal = principal
        self._all: Backlog | None = None
        self._request_streams: dict[str, list[AnswerStream]] = NO_STREAMS  # replaced, not filled
        self.latest = UNDECIDED
        self._progress: ProgressQueue | None = None  # most have no reader, and it takes 2 kB
        self._over = self._was_left = False

    @property
    def id(self) -> str:
        """The conversation's id."""
        return self._conversation

    async def send(self, data: bytes, to: str | None = None, *, request: str | None = None) -> SubmitResult:
        """Send an envelope or a bare payload. Returns once it is committed or refused.

        Args:
            data: the envelope or the payload.
            to: the listener it is for; None leaves it to the envelope or to the payload's root.
            request: an idempotency key of the sender, valid in this conversation. The same message with the same key is
                the same request, however often it is sent.

        Unacknowledged events of a request that was sent before come again in ``events``.

        Raises RuntimeError if this handle was detached, MessageConflictError if another message was sent with
        ``request``, ValueError if it is no id.
        """
        submitted = await self._hand_in(
            self._host.make_outside(self._principal, self._conversation, data, to, request)
        )
        if submitted.again:
            await self._tell_again(submitted.request)
        return submitted

    async def replies(
        self, data: bytes, to: str | None = None, *, request: str | None = None
    ) -> AsyncIterator[Reply]:
        """Send a message and yield its replies as they come, until it is settled.

        A request that was sent before yields all its replies again, acknowledged or not. Takes and raises what ``send``
        does, and NotStoredError if the message was not kept.
        """
        outside = self._host.make_outside(self._principal, self._conversation, data, to, request)
        answers = self._expect(outside)
        try:
            await self._send_expecting(outside, answers)
            while (event := await self._find_next_event(answers)) is not None:
                if isinstance(event, Done):
                    return
                yield event
                self._acknowledge_returned()
        finally:
            self._expect_no_more(answers)

    async def ask(self, data: bytes, to: str | None = None, *, request: str | None = None) -> Reply | None:
        """Send a message and return its first reply; None if it settles without one. Otherwise as ``replies``.

        Later events of the request come in ``events``, also after the conversation was resumed.
        """
        outside = self._host.make_outside(self._principal, self._conversation, data, to, request)
        answers = self._expect(outside)
        try:
            await self._send_expecting(outside, answers)
            event = await self._find_next_event(answers)
            if not isinstance(event, Reply):
                return None
            end = answers.take_available()
            if isinstance(end, Done):
                self._assign(end)
            elif end is not None:
                answers.put_back([end, *answers.drain()])
            return event
        finally:
            self._expect_no_more(answers)

    async def _hand_in(self, outside: OutsideMessage) -> SubmitResult:
        if self._was_left:
            raise RuntimeError("the handle was detached: resume the conversation")
        self._acknowledge_returned()
        return await self._host.submit(self._principal, self._conversation, outside)

    def _expect(self, outside: OutsideMessage) -> AnswerStream:
        """Return a stream of the events of a message that is sent next."""
        answers = AnswerStream(outside.request)
        # before it is committed, or what it leads to could be missed
        if self._request_streams:
            self._request_streams[outside.request] = [answers]
        else:
            self._request_streams = {outside.request: [answers]}
        return answers

    async def _send_expecting(self, outside: OutsideMessage, answers: AnswerStream) -> None:
        """Send a message. A stream of one that was sent before begins with its earlier events."""
        submitted = await self._hand_in(outside)
        if submitted.code is not None and isinstance(submitted.code, RejectReason):
            raise NotStoredError(submitted.code)
        if submitted.again:
            del self._request_streams[answers.request]
            answers.request = submitted.request
            self._request_streams.setdefault(answers.request, []).append(answers)
            answers.settled = await self._repeat(answers.request, answers)

    def _expect_no_more(self, answers: AnswerStream) -> None:
        """End a stream of answers. Unacknowledged ones that remain go to ``events``."""
        request, settled = answers.request, answers.settled
        self._request_streams[request].remove(answers)
        if not self._request_streams[request]:  # others who sent the same message have the same events
            del self._request_streams[request]
            if not self._request_streams:
                self._request_streams = NO_STREAMS
            if self._all is not None and not self._over:
                self._all.put_back(event for event in answers.drain() if event.place not in settled)

    async def _repeat(self, request: str, stream: Stream) -> set[EventPlace]:
        """Fill a stream with the earlier events of a request. Returns the places that no other stream needs."""
        await self._host.catch_up(self._conversation)
        events = await self._host.events_of(self._conversation, request)
        events = [
            each for each in events if self._over or each.place <= self.latest
        ]  # the rest comes by itself
        if (
            len(self._request_streams[request]) > 1
        ):  # another task has it first, and may be done with it by then
            events = [event._replace(redelivered=True) for event in events]
        mine = [] if self._all is None else self._all.take(request)
        known = {event.place for event in events}
        if self._all is not None:  # those that the engine does not tell of any more
            self._all.put_back(
                event for event in mine if isinstance(event, UnreadEvent) and event.place not in known
            )
        stream.catch_up((*(event for event in mine if not isinstance(event, UnreadEvent)), *events))
        if self._over:
            stream.end()
        return known - {event.place for event in mine}

    async def _tell_again(self, request: str) -> None:
        """Let ``events`` repeat the unacknowledged events of a request that passed this handle."""
        if self._all is None:
            return
        remaining = [
            event for event in await self._host.outbox(self._conversation) if event.request == request
        ]
        known: dict[EventPlace, Event | UnreadEvent] = {
            event.place: event for event in remaining if event.place <= self.latest
        }
        known.update((event.place, event) for event in self._all.take(request))
        self._all.put_back(known[place] for place in sorted(known))

    async def _find_next_event(self, stream: Stream) -> Event | None:
        if (event := await stream.get()) is not None:
            return self._give(event)
        self._let_go()
        return None

    def _give(self, event: Event) -> Event:
        handed = self._assign(event)
        if self._over:
            self._let_go()
        return handed

    def events(self) -> AsyncIterator[Reply | Done]:
        """Yield every event that ``replies`` and ``ask`` do not receive, until the conversation is closed.

        Few events are held in memory: the rest is read from the engine when its turn comes.

        Raises EngineError if that is impossible at present; call it again then.
        """
        return self._iter_events(self.listen())

    async def _iter_events(self, stream: Stream) -> AsyncIterator[Reply | Done]:
        self._acknowledge_returned()
        while (event := await self._find_next_event(stream)) is not None:
            yield event
            self._acknowledge_returned()

    def progress(self) -> AsyncIterator[Progress]:
        """Yield progress of listeners from now on, until the conversation is closed.

        Progress is not kept; if much of it waits, only the latest is shown.
        """
        if self._progress is None:
            self._progress = ProgressQueue()
            if self._over:
                self._progress.end()
        return self._progress.iter_words()

    def iter_waiting(self) -> Iterator[Reply | Done]:
        """Yield the events that ``events`` would yield without waiting. More may follow after ``fetch``."""
        self._acknowledge_returned()
        while self._all is not None and (event := self._all.take_available()) is not None:
            yield self._give(event)
            self._acknowledge_returned()

    async def fetch(self) -> bool:
        """Read the next events for ``iter_waiting`` from the engine. Returns whether any wait. Raises EngineError."""
        return self._all is not None and await self._all.fetch()

    def detach(self) -> None:
        """Leave without closing the conversation: later events are kept until its principal resumes it."""
        self._was_left = True
        self._clean()
        self._host.detach(self._conversation)

    async def close(self) -> None:
        """Close the conversation, cancelling everything that runs in it."""
        await self._host.close(self._conversation)
        self._drop()
        self._host.detach(self._conversation)

    # For the pump

    @property
    def over(self) -> bool:
        """True after the last event."""
        return self._over

    def deliver(self, events: Iterable[Event]) -> None:
        """Pass committed events to the streams that wait for them, except those read from the engine before."""
        for event in events:
            if event.place <= self.latest:
                continue
            self.latest = event.place
            streams = self._request_streams.get(event.request, () if self._all is None else (self._all,))
            for stream in streams[:1]:
                stream.put(event)
            for stream in streams[1:]:  # of a task that sent the message again meanwhile
                stream.put(event._replace(redelivered=True))

    def tell(self, progress: Progress) -> None:
        """Pass progress to its readers, if there are any."""
        if self._progress is not None:
            self._progress.put(progress)

    def listen(self) -> Backlog:
        """Keep events from now on, before they are asked for."""
        if self._all is None:
            self._all = Backlog(partial(self._host.next_events, self._conversation))
            if self._over:
                self._all.end()
        return self._all

    def catch_up(self, before: Iterable[Event], since: EventPlace) -> None:
        """Insert earlier events in front of those that have come since.

        Args:
            before: unacknowledged events.
            since: a place up to which no other events are needed.
        """
        before = tuple(before)
        self.latest = max(self.latest, since, *(event.place for event in before))
        self.listen().catch_up(before)

    def settle(self) -> None:
        """Acknowledge everything: server and gateway stop in good order."""
        self._clean()

    def finish(self) -> None:
        """Release every waiting caller after the last event."""
        if not self._over:
            self._over = True
            if self._progress is not None:
                self._progress.end()
            for stream in self._iter_streams():
                stream.end()
            self._let_go()

    def _let_go(self) -> None:
        """Let others resume the conversation once it is closed and everything was delivered."""
        if self._over and all(stream.is_drained() for stream in self._iter_streams()):
            self._host.detach(self._conversation)

    def _iter_streams(self) -> Iterator[Stream]:
        by_request = (stream for streams in self._request_streams.values() for stream in streams)
        return (stream for stream in (*by_request, self._all) if stream is not None)
