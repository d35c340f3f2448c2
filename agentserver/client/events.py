"""The events of a conversation: their format, the cursor of acknowledged ones, and the stream that reconnects."""

from __future__ import annotations

from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Any, Final

import anyio
import httpx

from agentserver.client import values
from agentserver.client.errors import ProblemError, ProtocolError, UnreachableError
from agentserver.client.requests import PendingRequest, is_temporary, open_stream
from agentserver.client.values import DeltaEvent, DoneEvent, ProgressEvent

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Mapping

    from agentserver.client.requests import RetryPolicy
    from agentserver.client.values import Event

MAX_EVENT: Final = 64_000_000
"""Largest event in bytes."""


class SseReader:
    """Parser of server-sent events, as far as the door uses the format."""

    def __init__(self) -> None:
        self._partial_line: list[bytes] = []
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, piece: bytes) -> list[bytes]:
        """Return the data of the events that end in this piece. Raises ProtocolError if one is too large."""
        self._size += len(piece)
        first, *others = piece.split(b"\n")
        self._partial_line.append(first)
        found = []
        for each in others:
            found += self._feed_line(b"".join(self._partial_line))
            self._partial_line = [each]
        if self._size > MAX_EVENT:
            raise ProtocolError("an event is too large")
        return found

    def _feed_line(self, line: bytes) -> list[bytes]:
        line = line.removesuffix(b"\r")
        if line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))
        if line or not self._data:
            return []
        found, self._data, self._size = b"\n".join(self._data), [], 0
        return [found]


_DIGITS = 20
"""Longest number in the id of an event."""


class AckCursor:
    """Cursor of acknowledged events, and of answers still expected.

    Args:
        place: id of the last event taken; empty at the beginning.
    """

    def __init__(self, place: str) -> None:
        self.place = self._seen = place
        self._asking, self._streams, self._unacknowledged = 0, 0, set[str]()

    @property
    def headers(self) -> Mapping[str, str]:
        """Header that acknowledges the events, for the next request."""
        return {"last-event-id": self.place} if self.place else {}

    @contextmanager
    def await_answer(self) -> Iterator[None]:
        """Count an expected answer. Answers are acknowledged once no other answer is expected."""
        self._asking += 1
        try:
            yield
        finally:
            self._asking -= 1
            if not (self._asking or self._streams or self._unacknowledged):
                self.place = self._seen

    @contextmanager
    def read_stream(self) -> Iterator[None]:
        """Read events one by one; meanwhile only these are acknowledged."""
        self._streams += 1
        try:
            yield
        finally:
            self._streams -= 1

    def owe(self, request: str) -> None:
        """Expect the answer to this request as an event, since no call waits for it."""
        self._unacknowledged.add(request)

    def add_answer(self, request: str, place: str) -> None:
        """Record an answer to this request."""
        self._unacknowledged.discard(request)
        self._seen = max(self._seen, place, key=_sort_key)

    def add_event(self, event: Event) -> bool:
        """Record an event of a stream. Returns whether the stream can be resumed after it."""
        if isinstance(event, ProgressEvent | DeltaEvent) or not event.place:
            return False
        if isinstance(event, DoneEvent):
            self._unacknowledged.discard(event.request)
        self.place = self._seen = event.place
        return True


def _sort_key(place: str) -> tuple[int, ...]:
    """Make a sort key for ids of events: a version and a position."""
    return tuple(int(part) for part in place.split("-") if part.isdecimal() and len(part) <= _DIGITS)


_SILENCE: Final = 60.0
"""Seconds of silence after which a connection counts as lost."""

_STABLE: Final = 5.0
"""Seconds after which a connection was stable, so that its loss restarts the retries."""


class EventWatcher:
    """Stream of a conversation's events over several connections.

    Args:
        http: connection to the door.
        path: of the events.
        taken: acknowledged events.
        after: id of the event to begin after; None for the last taken one.
        retries: how long to try to reconnect.
        deltas: whether to ask for pieces of answers that are not committed yet.
    """

    def __init__(
        self,
        http: httpx.AsyncClient,
        path: str,
        taken: AckCursor,
        after: str | None,
        retries: RetryPolicy,
        *,
        deltas: bool = False,
    ) -> None:
        self._http, self._path, self._cursor, self._deltas = http, path, taken, deltas
        self._after, self._retries = after, retries
        self._closed = False

    async def events(self) -> AsyncGenerator[Event, None]:
        """Yield the events until the conversation is closed. Raises ProblemError, UnreachableError."""
        while True:
            async with aclosing(self._iter_connection()) as events:
                async for event in events:
                    yield event
            if self._closed:
                return
            if not await self._retries.await_pause():
                raise UnreachableError("the stream was lost and could not be resumed")

    async def _iter_connection(self) -> AsyncGenerator[Event, None]:
        """Yield the events of one connection, until it ends or is lost."""
        params = {} if self._after is None else {"after": self._after}
        headers = {} if params else self._cursor.headers
        params |= {"deltas": "true"} if self._deltas else {}
        pending = PendingRequest("GET", self._path, params, headers, wait=_SILENCE)
        try:
            async with (
                open_stream(self._http, pending) as response,
                aclosing(self._read_events(response)) as events,
            ):
                async for event in events:
                    yield event
                    self._after = None if self._cursor.add_event(event) else self._after
        except ProblemError as error:
            if not is_temporary(error):
                raise
        except httpx.TransportError:
            return

    async def _read_events(self, response: httpx.Response) -> AsyncGenerator[Event, None]:
        """Yield the events of a response."""
        begun = anyio.current_time()
        try:
            async for found in _iter_objects(response):
                if found.get("type") == "end":
                    self._end_stream(found)
                    return
                self._retries.renew()
                event = values.read_event(found)
                if event is not None:
                    yield event
        finally:
            if anyio.current_time() - begun > _STABLE:
                self._retries.renew()

    def _end_stream(self, found: Mapping[str, Any]) -> None:
        reason = found.get("reason")
        self._closed = reason == "closed"
        if reason == "gone":  # earlier events have been deleted
            self._after = values.read_text(found, "after")


async def _iter_objects(response: httpx.Response) -> AsyncGenerator[Mapping[str, Any], None]:
    reader = SseReader()
    async for piece in response.aiter_bytes():
        for data in reader.feed(piece):
            yield values.read_object(data)
