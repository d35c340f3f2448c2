"""HTTP routes for workers on other machines. A worker reaches the calls of its own listener only."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from starlette.responses import Response
from starlette.routing import Route

from agentserver.gateways.http.connections import STOPPING
from agentserver.gateways.http.parts import (
    DoorPart,
    ProblemAnswer,
    caller,
    read_body,
    server_stopping,
    unauthenticated,
)
from agentserver.gateways.principals import Role
from agentserver.worker import frames
from agentserver.worker.frames import FrameCodec, GivenFrame, HeardFrame, TakeFrame, dump_answer
from agentserver.worker.remote_desk import UnwantedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from agentserver.gateways.http.connections import HeldConnections
    from agentserver.gateways.principals import Caller
    from agentserver.worker.frames import Spoken
    from agentserver.worker.remote_desk import CallDesk, HeldCall

T = TypeVar("T")

HELD: Final = 25.0
"""Seconds for which a worker that waits for a call is held at most: proxies end requests that last longer."""
BEAT: Final = 2.5
"""Seconds for which a heartbeat or a question is held, so that the worker notices the end of its call at once."""

logger = logging.getLogger("agentserver.worker")


def part(desk: CallDesk, body: int) -> DoorPart:
    """Build the routes of workers.

    Args:
        desk: their calls.
        body: bytes of the body of a request.
    """
    these = WorkerRoutes(desk, FrameCodec(body))
    place = "/v1/workers/{listener}/calls"
    routes = (
        Route(place, these.take, methods=["POST"]),
        Route(f"{place}/{{key}}", these.receive_frame, methods=["POST"]),
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
        who, listener = self._admit(request)
        asked = await _frame(request, self.codec.take)
        if asked.version != frames.VERSION:
            told = (
                f"This server speaks version {frames.VERSION} of the frames, and the worker {asked.version}."
            )
            logger.warning("a worker of %s is refused: %s", listener, told)
            raise ProblemAnswer(409, told)
        try:
            given = await self._give_call(request, who, asked)
        except UnwantedError as error:
            raise ProblemAnswer(404, f"No calls: {error}.") from None
        return Response(status_code=204) if given is None else _json(given)

    async def _give_call(self, request: Request, who: Caller, asked: TakeFrame) -> GivenFrame | None:
        given: list[GivenFrame] = []
        with _hold(request).hold(who, request.scope, min(asked.wait, HELD)) as one:
            given.append(await self.desk.take(who.listener, who.name))
        if one.why and not given:
            raise server_stopping() if one.why == STOPPING else unauthenticated()
        return given[0] if given else None

    async def receive_frame(self, request: Request) -> Response:
        """Take a frame of the worker that has a call."""
        who, listener = self._admit(request)
        key = request.path_params["key"]
        try:
            call = self.desk.find(listener, who.name, key)
            frame = await self._read_spoken(request, call)
            call = self.desk.find(listener, who.name, key)  # reading takes a while
            answer = call.handle_frame(frame)
            if answer is None:
                await self._wait(request, who, call, frame)
                answer = call.handle_frame(frame) or HeardFrame(frame.call)
        except UnwantedError as error:
            await self._refuse(request, who, str(error))
            raise ProblemAnswer(410, f"Nobody waits for this: {error}.") from None
        return _json(answer)

    async def _refuse(self, request: Request, who: Caller, why: str) -> None:
        """Log the refusal of an answer. Heartbeats of an ended call are not answers."""
        try:
            frame = await read_body(request, self.codec.read_spoken)
        except frames.FrameError:
            frame = None
        if not isinstance(frame, frames.ReturnedFrame | frames.FailedFrame):
            return
        logger.warning("an answer of %s for %s is refused: %s", who.name, who.listener, why)

    async def _read_spoken(self, request: Request, call: HeldCall) -> Spoken:
        """Read the frame in a request. An invalid one ends the call."""
        try:
            return await read_body(request, self.codec.read_spoken)
        except frames.FrameError as error:
            call.break_off(f"it sent {error}")
            raise ProblemAnswer(422, "This is no frame of a worker.") from None

    async def _wait(self, request: Request, who: Caller, call: HeldCall, frame: Spoken) -> None:
        """Hold a request until it can be answered, for a limited time; not at all while no room is left."""
        holding = _hold(request)
        if not holding.room(who):
            return
        with holding.hold(who, request.scope, BEAT) as one:
            await asyncio.wait(call.list_futures(frame), return_when=asyncio.FIRST_COMPLETED)
        if one.why and one.why != STOPPING:
            raise unauthenticated()

    def _admit(self, request: Request) -> tuple[Caller, str]:
        """Return the worker and its listener. Raises ProblemAnswer for a listener that is not its own or not remote."""
        who, listener = caller(request), request.path_params["listener"]
        if listener != who.listener:
            logger.warning("%s, a worker of %s, asks for calls of another listener", who.name, who.listener)
            raise ProblemAnswer(403, "This worker is another listener's.")
        if not self.desk.serves(listener):
            raise ProblemAnswer(404, "This listener has no isolation: remote here.")
        return who, listener


def _hold(request: Request) -> HeldConnections:
    return cast("HeldConnections", request.app.holding)


async def _frame(request: Request, reader: Callable[[bytes], T]) -> T:
    try:
        return await read_body(request, reader)
    except frames.FrameError:
        raise ProblemAnswer(422, "This is no frame of a worker.") from None


def _json(frame: Any) -> Response:
    return Response(dump_answer(frame), media_type="application/json")
