"""The routes of the door by which workers on other machines come.

Owns that a worker reaches the calls of its listener alone, and how long a request is held. Refuses to know what a call
is for.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from starlette.responses import Response
from starlette.routing import Route

from agentserver.gateways.http.connections import STOPPING
from agentserver.gateways.http.parts import DoorPart, ProblemAnswer, caller, nobody, read_body, stopping
from agentserver.gateways.principals import Role
from agentserver.worker import frames
from agentserver.worker.frames import FrameCodec, GivenFrame, HeardFrame, TakeFrame, dump_answer
from agentserver.worker.remote_desk import UnwantedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from agentserver.gateways.http.connections import Holding
    from agentserver.gateways.principals import Caller
    from agentserver.worker.frames import Spoken
    from agentserver.worker.remote_desk import CallDesk, HeldCall

T = TypeVar("T")

HELD: Final = 25.0
"""Seconds for which a worker that waits for a call is held at most: proxies end requests that last longer."""
BEAT: Final = 2.5
"""Seconds for which a sign of life or a question is held: a worker hears at once that its call is over."""

logger = logging.getLogger("agentserver.worker")


def part(desk: CallDesk, body: int) -> DoorPart:
    """The routes of workers.

    Args:
        desk: their calls.
        body: bytes of the body of a request.
    """
    these = WorkerRoutes(desk, FrameCodec(body))
    place = "/v1/workers/{listener}/calls"
    routes = (
        Route(place, these.take, methods=["POST"]),
        Route(f"{place}/{{key}}", these.hear, methods=["POST"]),
    )
    return DoorPart("workers", routes, roles=frozenset({Role.WORKER}))


@dataclass(frozen=True, slots=True)
class WorkerRoutes:
    """The handlers.

    Args:
        desk: the calls.
        codec: reads frames.
    """

    desk: CallDesk
    codec: FrameCodec

    async def take(self, request: Request) -> Response:
        """Give a worker a call, once there is one."""
        who, listener = self._admitted(request)
        asked = await _frame(request, self.codec.take)
        if asked.version != frames.VERSION:
            told = (
                f"This server speaks version {frames.VERSION} of the frames, and the worker {asked.version}."
            )
            logger.warning("a worker of %s is refused: %s", listener, told)
            raise ProblemAnswer(409, told)
        try:
            given = await self._given(request, who, asked)
        except UnwantedError as error:
            raise ProblemAnswer(404, f"No calls: {error}.") from None
        return Response(status_code=204) if given is None else _json(given)

    async def _given(self, request: Request, who: Caller, asked: TakeFrame) -> GivenFrame | None:
        given: list[GivenFrame] = []
        with _holding(request).hold(who, request.scope, min(asked.wait, HELD)) as one:
            given.append(await self.desk.take(who.listener, who.name))
        if one.why and not given:
            raise stopping() if one.why == STOPPING else nobody()
        return given[0] if given else None

    async def hear(self, request: Request) -> Response:
        """Take a frame of the worker that has a call."""
        who, listener = self._admitted(request)
        key = request.path_params["key"]
        try:
            call = self.desk.find(listener, who.name, key)
            frame = await self._spoken(request, call)
            call = self.desk.find(listener, who.name, key)  # reading takes a while
            answer = call.hear(frame)
            if answer is None:
                await self._wait(request, who, call, frame)
                answer = call.hear(frame) or HeardFrame(frame.call)
        except UnwantedError as error:
            await self._refuse(request, who, str(error))
            raise ProblemAnswer(410, f"Nobody waits for this: {error}.") from None
        return _json(answer)

    async def _refuse(self, request: Request, who: Caller, why: str) -> None:
        """Log an answer that is refused. Signs of life of a call that is over are no answers."""
        try:
            frame = await read_body(request, self.codec.spoken)
        except frames.FrameError:
            frame = None
        if not isinstance(frame, frames.ReturnedFrame | frames.FailedFrame):
            return
        logger.warning("an answer of %s for %s is refused: %s", who.name, who.listener, why)

    async def _spoken(self, request: Request, call: HeldCall) -> Spoken:
        """The frame in a request. One that is none ends the call."""
        try:
            return await read_body(request, self.codec.spoken)
        except frames.FrameError as error:
            call.break_off(f"it sent {error}")
            raise ProblemAnswer(422, "This is no frame of a worker.") from None

    async def _wait(self, request: Request, who: Caller, call: HeldCall, frame: Spoken) -> None:
        """Hold a request until it can be answered, for a while, and not at all where no more may be held."""
        holding = _holding(request)
        if not holding.room(who):
            return
        with holding.hold(who, request.scope, BEAT) as one:
            await asyncio.wait(call.awaited(frame), return_when=asyncio.FIRST_COMPLETED)
        if one.why and one.why != STOPPING:
            raise nobody()

    def _admitted(self, request: Request) -> tuple[Caller, str]:
        """The worker and its listener. Raises ProblemAnswer for another listener, and one that has no workers here."""
        who, listener = caller(request), request.path_params["listener"]
        if listener != who.listener:
            logger.warning("%s, a worker of %s, asks for calls of another listener", who.name, who.listener)
            raise ProblemAnswer(403, "This worker is another listener's.")
        if not self.desk.serves(listener):
            raise ProblemAnswer(404, "This listener has no isolation: remote here.")
        return who, listener


def _holding(request: Request) -> Holding:
    return cast("Holding", request.app.holding)


async def _frame(request: Request, reader: Callable[[bytes], T]) -> T:
    try:
        return await read_body(request, reader)
    except frames.FrameError:
        raise ProblemAnswer(422, "This is no frame of a worker.") from None


def _json(frame: Any) -> Response:
    return Response(dump_answer(frame), media_type="application/json")
