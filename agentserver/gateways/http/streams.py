"""Event streams over Server-sent events and WebSocket: their start, keep-alive signs and end.

A stream ends with its reason and the place to resume from.
"""

from __future__ import annotations

from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Final, Protocol

import anyio
from starlette.requests import Request
from starlette.websockets import WebSocket, WebSocketDisconnect

from agentserver.core.messages import UNDECIDED, Done, EventPlace, Reply
from agentserver.foreign_json.reading import JsonLimits
from agentserver.gateways.http import forms
from agentserver.gateways.http.connections import STOPPING
from agentserver.gateways.http.parts import receive_body
from agentserver.payload.json.values import JsonRefusal, read_json
from agentserver.ports import WatchStop
from agentserver.supervision import EndEffect, start_errand

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from typing import TypeAlias

    from starlette.types import Receive, Scope, Send

    from agentserver.core.messages import Delta, Progress
    from agentserver.gateways.http.connections import HeldConnection, HeldConnections
    from agentserver.gateways.principals import Caller

    Item: TypeAlias = Reply | Done | Progress | Delta | WatchStop
    Shown: TypeAlias = Callable[[Reply | Done | Progress | Delta], Mapping[str, Any]]

BEAT: Final = b": \n\n"
"""A comment: a sign of life that tells nothing (Server-sent events)."""

WAITED: Final = "waited"

PARTING: Final = 1.0
"""Seconds that the last word of a stream may take."""

WORD: Final = 200
"""Bytes of what a client may say over a WebSocket."""

NORMAL: Final = 1000
GOING: Final = 1001
UNFIT: Final = 1008
"""Close codes of a WebSocket (RFC 6455, 7.4.1): its end, the server's end, an invalid message."""

_HEADERS: Final = ((b"content-type", b"text/event-stream"), (b"x-accel-buffering", b"no"))


async def wait_for_disconnect(receive: Receive) -> None:
    """Wait until a caller has gone, whose request was read."""
    while (await receive())["type"] != "http.disconnect":
        pass


class CallerEvents(Protocol):
    """Source of the events for one caller."""

    @property
    def caller(self) -> Caller:
        """The principal of the stream."""

    async def run(self, say: Callable[[Any], Awaitable[None]]) -> None:
        """Send the events until the end."""

    def end(self, held: HeldConnection) -> Any:
        """Return the final event."""

    async def abandon(self) -> None:
        """Do what follows when the caller has closed the connection before the end."""


@dataclass
class EventStream:
    """The events of one conversation for one caller.

    Args:
        caller: the reader.
        events: until their end; they call their argument once all existing ones were sent.
        shown: converts an event.
        after: the place after which they begin.
        wait: seconds to wait for further ones after that.
        reason: the reason of their end; empty until then.
    """

    caller: Caller
    events: Callable[[Callable[[], None]], AsyncIterator[Item]]
    shown: Shown
    after: EventPlace
    wait: float = inf
    reason: str = ""

    async def run(self, say: Callable[[Mapping[str, Any]], Awaitable[None]]) -> None:
        """Say the events one by one."""
        with anyio.CancelScope() as waiting:

            def caught_up() -> None:
                waiting.deadline = min(waiting.deadline, anyio.current_time() + self.wait)

            await self._tell(self.events(caught_up), say)
        if waiting.cancelled_caught:
            self.reason = WAITED

    async def _tell(
        self, found: AsyncIterator[Item], say: Callable[[Mapping[str, Any]], Awaitable[None]]
    ) -> None:
        async with aclosing(found) as events:  # type: ignore[type-var]
            async for item in events:
                if isinstance(item, WatchStop):
                    self.reason, self.after = str(item.reason), item.after
                    return
                await say(self.shown(item))
                if isinstance(item, Reply | Done):
                    self.after = item.place

    async def abandon(self) -> None:
        """Do nothing: the caller comes back with the place that it has."""

    def end(self, held: HeldConnection) -> Mapping[str, Any]:
        """Build the final event, with the reason and the place to resume from."""
        return forms.end_json(self.reason or held.reason or STOPPING, self.after)


@dataclass(frozen=True, slots=True)
class ServerSent:
    """A stream as the answer to a GET. An ASGI application.

    Args:
        stream: the events.
        holding: the connections that are held.
        beat: seconds between two signs of life.
        write: how an event is written.
    """

    stream: CallerEvents
    holding: HeldConnections
    beat: float
    write: Callable[[Any], bytes] = forms.dump_event

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until they end, the caller goes, or the door ends it. Raises ProblemAnswer as the body does."""
        await receive_body(Request(scope, receive))  # a refusal cannot be answered once the stream has begun

        async def say(found: Any) -> None:
            await send({"type": "http.response.body", "body": self.write(found), "more_body": True})

        with self.holding.hold(self.stream.caller) as held:
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            async with anyio.create_task_group() as tasks:
                alive = partial(self._alive, receive, send, held)
                start_errand(tasks, "keeps a stream alive", EndEffect.OWNER, alive)
                await self.stream.run(say)
                tasks.cancel_scope.cancel()
        if held.reason == _GONE:
            await self.stream.abandon()
        last = self.write(self.stream.end(held))
        with anyio.move_on_after(PARTING):
            await send({"type": "http.response.body", "body": last, "more_body": False})

    async def _alive(self, receive: Receive, send: Send, held: HeldConnection) -> None:
        """Show signs of life until the caller goes."""
        while True:
            with anyio.move_on_after(self.beat):
                await wait_for_disconnect(receive)
                held.end(_GONE)
                return
            await send({"type": "http.response.body", "body": BEAT, "more_body": True})


@dataclass(frozen=True, slots=True)
class OverSocket:
    """A stream over a WebSocket, in which the caller confirms places.

    Args:
        stream: the events.
        holding: the held connections.
        acknowledge: is called with a place up to which all events are confirmed.
    """

    stream: EventStream
    holding: HeldConnections
    acknowledge: Callable[[EventPlace], Awaitable[None]]

    async def run(self, socket: WebSocket) -> None:
        """Send events until they end, the caller goes, or the door ends it."""

        async def say(found: Mapping[str, Any]) -> None:
            await socket.send_text(forms.dump_json(found).decode())

        with suppress(WebSocketDisconnect), self.holding.hold(self.stream.caller) as held:
            await socket.accept()
            async with anyio.create_task_group() as tasks:
                start_errand(
                    tasks, "listens to a socket", EndEffect.OWNER, partial(self._listen, socket, held)
                )
                with suppress(WebSocketDisconnect):
                    await self.stream.run(say)
                tasks.cancel_scope.cancel()
        with anyio.move_on_after(PARTING), suppress(WebSocketDisconnect, RuntimeError):
            await say(self.stream.end(held))
            code = UNFIT if held.reason == _UNFIT else GOING if held.reason else NORMAL
            await socket.close(code)

    async def _listen(self, socket: WebSocket, held: HeldConnection) -> None:
        """Read confirmations until the caller disconnects; repeated places are ignored."""
        latest = UNDECIDED
        while True:
            message = await socket.receive()
            if message["type"] != "websocket.receive":
                held.end(_GONE)
                return
            place = _parse_confirmation(message.get("text") or message.get("bytes") or b"")
            if place is None:
                held.end(_UNFIT)
                return
            if place > latest:
                latest = place
                await self.acknowledge(place)


_UNFIT: Final = "unfit"
_GONE: Final = "gone"


def _parse_confirmation(word: str | bytes) -> EventPlace | None:
    """Parse the place of a confirmation; None if it is invalid."""
    found = read_json(word, JsonLimits(bytes=WORD))
    if isinstance(found, JsonRefusal) or not isinstance(found, dict) or set(found) != {"taken"}:
        return None
    return forms.parse_place(str(found["taken"]))
