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
    read_body,
    read_caller,
    server_stopping,
    unauthenticated,
)
from agentserver.gateways.principals import Role
from agentserver.worker import frames
from agentserver.worker.frames import (
    AssignedCallFrame,
    CallRequestFrame,
    FrameCodec,
    ReceiptFrame,
    dump_answer,
)
from agentserver.worker.remote_desk import UnexpectedFrameError

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


def make_part(desk: CallDesk, body: int) -> DoorPart:
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
        caller, listener = self._admit(request)
        frame = await _read_frame(request, self.codec.take)
        if frame.version != frames.VERSION:
            message = (
                f"This server speaks version {frames.VERSION} of the frames, and the worker {frame.version}."
            )
            logger.warning("a worker of %s is refused: %s", listener, message)
            raise ProblemAnswer(409, message)
        try:
            call = await self._give_call(request, caller, frame)
        except UnexpectedFrameError as error:
            raise ProblemAnswer(404, f"No calls: {error}.") from None
        return Response(status_code=204) if call is None else _show_json(call)

    async def _give_call(
        self, request: Request, caller: Caller, frame: CallRequestFrame
    ) -> AssignedCallFrame | None:
        calls: list[AssignedCallFrame] = []
        with _hold(request).hold(caller, request.scope, min(frame.wait, HELD)) as one:
            calls.append(await self.desk.take(caller.listener, caller.name))
        if one.reason and not calls:
            raise server_stopping() if one.reason == STOPPING else unauthenticated()
        return calls[0] if calls else None

    async def receive_frame(self, request: Request) -> Response:
        """Take a frame of the worker that has a call."""
        caller, listener = self._admit(request)
        key = request.path_params["key"]
        try:
            call = self.desk.find(listener, caller.name, key)
            frame = await self._read_spoken(request, call)
            call = self.desk.find(listener, caller.name, key)  # reading takes a while
            answer = call.handle_frame(frame)
            if answer is None:
                await self._wait(request, caller, call, frame)
                answer = call.handle_frame(frame) or ReceiptFrame(frame.call)
        except UnexpectedFrameError as error:
            await self._refuse(request, caller, str(error))
            raise ProblemAnswer(410, f"Nobody waits for this: {error}.") from None
        return _show_json(answer)

    async def _refuse(self, request: Request, caller: Caller, reason: str) -> None:
        """Log the refusal of an answer. Heartbeats of an ended call are not answers."""
        try:
            frame = await read_body(request, self.codec.read_spoken)
        except frames.FrameError:
            frame = None
        if not isinstance(frame, frames.ReturnedFrame | frames.FailedFrame):
            return
        logger.warning("an answer of %s for %s is refused: %s", caller.name, caller.listener, reason)

    async def _read_spoken(self, request: Request, call: HeldCall) -> Spoken:
        """Read the frame in a request. An invalid one ends the call."""
        try:
            return await read_body(request, self.codec.read_spoken)
        except frames.FrameError as error:
            call.break_off(f"it sent {error}")
            raise ProblemAnswer(422, "This is no frame of a worker.") from None

    async def _wait(self, request: Request, caller: Caller, call: HeldCall, frame: Spoken) -> None:
        """Hold a request until it can be answered, for a limited time; not at all while no room is left."""
        holding = _hold(request)
        if not holding.room(caller):
            return
        with holding.hold(caller, request.scope, BEAT) as one:
            await asyncio.wait(call.list_futures(frame), return_when=asyncio.FIRST_COMPLETED)
        if one.reason and one.reason != STOPPING:
            raise unauthenticated()

    def _admit(self, request: Request) -> tuple[Caller, str]:
        """Return the worker and its listener. Raises ProblemAnswer for a listener that is not its own or not remote."""
        principal, listener = read_caller(request), request.path_params["listener"]
        if listener != principal.listener:
            logger.warning(
                "%s, a worker of %s, asks for calls of another listener", principal.name, principal.listener
            )
            raise ProblemAnswer(403, "This worker is another listener's.")
        if not self.desk.serves(listener):
            raise ProblemAnswer(404, "This listener has no isolation: remote here.")
        return principal, listener


def _hold(request: Request) -> HeldConnections:
    return cast("HeldConnections", request.app.holding)


async def _read_frame(request: Request, reader: Callable[[bytes], T]) -> T:
    try:
        return await read_body(request, reader)
    except frames.FrameError:
        raise ProblemAnswer(422, "This is no frame of a worker.") from None


def _show_json(frame: Any) -> Response:
    return Response(dump_answer(frame), media_type="application/json")
