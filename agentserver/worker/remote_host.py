"""A worker of remote servers: asks for calls over HTTP, has local processes run them, and sends the results."""

from __future__ import annotations

import asyncio
import logging
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import httpx

from agentserver.completion import CompletionFault, Usage
from agentserver.foreign_json.reading import JsonLimits, parse_json
from agentserver.supervision import cancel_and_wait, run_errand
from agentserver.worker import frames
from agentserver.worker.frames import AssignedCallFrame, CallRequestFrame, HeartbeatFrame, dump_asked
from agentserver.worker.pool import WorkerError

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentserver.worker.frames import Answer, FrameCodec
    from agentserver.worker.pool import Outcome, Workers

__all__ = [
    "CallGoneError",
    "RefusedError",
    "RemoteWorker",
    "ServerAwayError",
    "ServerLink",
    "WorkerRejectedError",
]

SLACK: Final = 10.0
"""Seconds by which an answer may come later than it was asked for."""
PROBLEM: Final = 10_000
"""Bytes of a problem that are read."""
GONE: Final = (404, 410)
REFUSED: Final = (400, 401, 403, 405, 409, 413, 421, 422)


class ServerAwayError(Exception):
    """The server cannot be reached, or takes nothing at present. ``after`` is the pause in seconds that it asks for."""

    def __init__(self, reason: str, after: float = 0.0) -> None:
        super().__init__(reason)
        self.after = after


class CallGoneError(Exception):
    """Error of an address without content: the call has ended, or the listener has no remote workers."""


class RefusedError(Exception):
    """The server does not take this from this worker. ``status`` is the status of HTTP."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True, slots=True)
class ServerLink:
    """The way to a server.

    Args:
        http: with its address and the worker's token.
        listener: the worker's.
        codec: reads frames.
        longest: bytes of an answer.
    """

    http: httpx.AsyncClient
    listener: str
    codec: FrameCodec
    longest: int

    @property
    def url(self) -> str:
        """The address of the server."""
        return str(self.http.base_url).rstrip("/")

    async def send(self, frame: Any, key: str = "", wait: float = 0.0) -> Answer | None:
        """Send a frame; returns the answer, or None if it comes later.

        Args:
            frame: to send.
            key: of its call; empty to ask for a call.
            wait: seconds for which the server may hold the request.

        Raises ServerAwayError, CallGoneError, RefusedError, and FrameError for an invalid answer.
        """
        path = f"/v1/workers/{quote(self.listener, safe='')}/calls" + (f"/{key}" if key else "")
        headers = {"content-type": "application/json", "accept-encoding": "identity"}
        timeout = httpx.Timeout(SLACK, read=wait + SLACK)
        try:
            async with self.http.stream(
                "POST", path, content=dump_asked(frame), headers=headers, timeout=timeout
            ) as response:
                if not response.is_success:
                    raise await _convert_problem(response)
                data = await _read(response, self.longest)
        except httpx.TransportError as error:
            raise ServerAwayError(str(error) or type(error).__name__) from None
        return self.codec.answer(data) if data else None


async def _convert_problem(response: httpx.Response) -> Exception:
    """Convert an answer to its error."""
    try:
        fields = parse_json(await _read(response, PROBLEM), JsonLimits(bytes=PROBLEM))
    except frames.FrameError:
        fields = None
    detail = fields.get("detail") if isinstance(fields, dict) else None
    message = f"{response.status_code} {detail if isinstance(detail, str) else response.reason_phrase}"
    if response.status_code in GONE:
        return CallGoneError(message)
    if response.status_code in REFUSED:
        return RefusedError(response.status_code, message)
    after = response.headers.get("retry-after", "")
    return ServerAwayError(message, min(float(after), 60.0) if after.isascii() and after.isdigit() else 0.0)


async def _read(response: httpx.Response, maximum: int) -> bytes:
    """Read the body of an answer. Raises FrameError if it is too long or compressed."""
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise frames.FrameError("a packed answer")
    data = bytearray()
    async for piece in response.aiter_raw():
        data += piece
        if len(data) > maximum:
            raise frames.FrameError(f"an answer of more than {maximum} bytes")
    return bytes(data)


WAIT: Final = 20.0
"""Seconds for which a server is asked for one call."""
BEAT: Final = 2.5
"""Seconds for which a server holds a sign of life."""
LOST: Final = 7.5
"""Seconds without an answer after which a server is believed to have given up a call."""
FIRST: Final = 0.2
LAST: Final = 10.0
"""Seconds before a server that is away is asked again: at first, and at most."""
SOON: Final = 0.3
"""Seconds between two signs of life to a server that does not hold them."""

_TROUBLE: Final = (ServerAwayError, CallGoneError, RefusedError, frames.FrameError)

logger = logging.getLogger("agentserver.worker")


class WorkerRejectedError(Exception):
    """Every server refuses this worker, or none of its processes starts; the text holds the reasons."""


@dataclass
class Backoff:
    """The pauses before a server is asked again. They double, and a part of each is drawn."""

    pause: float = FIRST

    def next_pause(self, requested: float = 0.0) -> float:
        """Return the next pause in seconds; at least the one that the server asked for."""
        pause, self.pause = self.pause, min(self.pause * 2, LAST)
        return max(requested, pause * (0.5 + secrets.randbelow(500) / 1000))

    def reset(self) -> None:
        """Begin with short pauses again."""
        self.pause = FIRST


@dataclass(eq=False)
class RemoteWorker:
    """Handles calls of one listener, for one or several servers.

    Args:
        links: to the servers.
        workers: the processes; entered and left by the caller.
        many: concurrent calls of each server.
        tell: is called with status lines: the wait for a server, and the start of service.
    """

    links: tuple[ServerLink, ...]
    workers: Workers
    many: int
    tell: Callable[[str], None]
    ending: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self) -> None:
        """Handle calls until ``ending`` is set; those that run then come to their end.

        Raises WorkerRejectedError once every server has refused this worker, or no process starts.
        """
        serving = [
            run_errand(self._serve(link), f"handles calls of {link.url}", (RefusedError,))
            for link in self.links
        ]
        try:
            await asyncio.wait(serving)
        finally:
            await cancel_and_wait(serving)
        if self.workers.futile:
            raise WorkerRejectedError(f"no process of {self.links[0].listener} starts: {self.workers.futile}")
        refused = [str(each.exception()) for each in serving if each.exception() is not None]
        if len(refused) == len(serving):
            raise WorkerRejectedError("; ".join(refused))

    async def _serve(self, link: ServerLink) -> None:
        """Handle calls of one server. Raises RefusedError when it does not let this worker in."""
        room, running = asyncio.Semaphore(self.many), set[asyncio.Task[None]]()
        taking = _CallTaker(link, self.tell, self.many)

        def end(task: asyncio.Task[None]) -> None:
            running.discard(task)
            room.release()
            if self.workers.futile:  # it would take calls from workers that can make them
                self.ending.set()

        try:
            while not (self.ending.is_set() or self.workers.futile):
                call = await self._await_unless_ending(_take(room, taking))
                if call is None:
                    continue
                task = run_errand(
                    _RemoteCall(link, self.workers, call).run(), f"handles a call of {link.listener}"
                )
                running.add(task)
                task.add_done_callback(end)
        except RefusedError as error:
            logger.error("%s refuses this worker: %s", link.url, error)  # noqa: TRY400 - no fault of this code
            await _join_all(running)
            raise RefusedError(error.status, f"{link.url}: {error}") from None
        except asyncio.CancelledError:
            await cancel_and_wait(running)
            raise
        await _join_all(running)

    async def _await_unless_ending(self, work: Any) -> AssignedCallFrame | None:
        """Return the call that a task yields; None if the worker ends first."""
        coming = run_errand(work, "waits for a call", (RefusedError,))
        end = run_errand(self.ending.wait(), "waits for the end")
        both: set[asyncio.Future[Any]] = {coming, end}
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            found: AssignedCallFrame | None = coming.result() if coming.done() else None
        finally:
            await cancel_and_wait(both)
        return found


async def _join_all(running: set[asyncio.Task[None]]) -> None:
    if running:
        await asyncio.wait(running)


async def _take(room: asyncio.Semaphore, taking: _CallTaker) -> AssignedCallFrame | None:
    """Take a call once there is a process for it; None if there is no call yet. Raises RefusedError."""
    await room.acquire()
    call = None
    try:
        call = await taking.take_next_call()
    finally:
        if call is None:
            room.release()
    return call


@dataclass(eq=False)
class _CallTaker:
    """The asking of one server for calls."""

    link: ServerLink
    tell: Callable[[str], None]
    many: int
    met: bool = False
    reported: str = ""
    backoff: Backoff = field(default_factory=Backoff)

    async def take_next_call(self) -> AssignedCallFrame | None:
        """Take a call; None if the server has none yet. Pauses first while a server is away. Raises RefusedError."""
        wait = WAIT if self.met else 0.0  # at first it is only asked whether it is there
        try:
            answer = await self.link.send(CallRequestFrame(frames.VERSION, wait), wait=wait)
        except ServerAwayError as error:
            await self._pause(f"{self.link.url} is away, and is asked again: {error}", error.after)
            return None
        except (CallGoneError, frames.FrameError) as error:
            await self._pause(f"{self.link.url} has no calls of {self.link.listener}: {error}", LAST / 2)
            return None
        self.backoff.reset()
        if not self.met:
            self.met, self.reported = True, ""
            self.tell(f"handles calls of {self.link.listener} of {self.link.url}, {self.many} at once")
        return answer if isinstance(answer, AssignedCallFrame) else None

    async def _pause(self, reason: str, seconds: float) -> None:
        self.met = False
        if self.reported != reason:
            self.reported = reason
            self.tell(reason)
        await asyncio.sleep(self.backoff.next_pause(seconds))


class _CallEndedError(Exception):
    """The server does not wait for this call any longer."""


@dataclass(eq=False)
class _RemoteCall:
    """One call: it is begun, made by a process, and answered. It is the counterpart of the process."""

    link: ServerLink
    workers: Workers
    frame: AssignedCallFrame
    _telling: asyncio.Task[None] | None = None
    _shows: bool = False

    @property
    def _number(self) -> int:
        return self.frame.call.call

    async def run(self) -> None:
        """Make the call. A server that does not wait for it any longer ends it."""
        living = None
        try:
            await self._say(HeartbeatFrame(self._number))
            name = f"says that a call of {self.link.listener} lives"
            living = run_errand(self._live(), name, (_CallEndedError,))
            await self._send_result(await self._run(living))
            if self._shows:  # the server ends the request now; cut off, its connection would be lost
                await asyncio.wait({living}, timeout=BEAT)
        except _CallEndedError as error:
            logger.info("a call of %s has ended: %s", self.link.listener, error)
        finally:
            if living is not None:
                await cancel_and_wait([living])

    async def _run(self, living: asyncio.Task[None]) -> Outcome:
        """Run the call to its end. Raises _CallEndedError."""
        name = f"handles a call of {self.link.listener}"
        making = run_errand(self.workers.exchange(lambda: self.frame.call, self), name, (WorkerError,))
        both: set[asyncio.Future[Any]] = {making, living}
        try:
            # The deadline is the server's to keep; this is for a server that is gone.
            await asyncio.wait(
                both, timeout=self.frame.call.seconds + LOST, return_when=asyncio.FIRST_COMPLETED
            )
            if making.done():
                return making.result()
            if living.done():
                living.result()
            raise _CallEndedError("its deadline has passed")
        except WorkerError as error:
            return frames.FailedFrame(self._number, str(error))
        finally:
            await cancel_and_wait([making])

    async def _live(self) -> None:
        """Tell the server that the call is worked on. Raises _CallEndedError once it does not wait for it."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(SOON)  # most calls are over by then
            self._shows = True
            while self._shows:
                began = loop.time()
                await self._say(HeartbeatFrame(self._number), BEAT)
                self._shows = loop.time() - began >= BEAT / 2

    async def _send_result(self, answer: Outcome) -> None:
        """Send the end of the call. Raises _CallEndedError."""
        try:
            await self._say(answer)
        except RefusedError as error:
            message = f"the result cannot be sent: {error}"
            logger.error("a call of %s: %s", self.link.listener, message)  # noqa: TRY400 - no fault of this code
            await self._say(frames.FailedFrame(self._number, message))

    async def _say(self, frame: Any, wait: float = 0.0) -> Answer | None:
        """Send a frame, again while the server is away, and return its answer.

        Raises _CallEndedError if the server does not expect the call, or stayed away too long; and RefusedError for a
        result.
        """
        loop = asyncio.get_running_loop()
        last, backoff = loop.time() + wait + LOST, Backoff()
        while True:
            try:
                return await self.link.send(frame, self.frame.key, wait)
            except ServerAwayError as error:
                pause = backoff.next_pause(error.after)
                if loop.time() + pause > last:
                    raise _CallEndedError(f"its server is away: {error}") from None
                await asyncio.sleep(pause)
            except RefusedError as error:
                if isinstance(frame, frames.ReturnedFrame):
                    raise
                raise _CallEndedError(str(error)) from None
            except (CallGoneError, frames.FrameError) as error:
                raise _CallEndedError(str(error)) from None

    def tell(self, text: str) -> None:
        """Pass on a line of progress; one that is not gone by the next is dropped."""
        if self._telling is None or self._telling.done():
            frame = frames.ProgressFrame(self._number, text)
            self._telling = run_errand(self._pass_on(frame), "tells progress", _TROUBLE)

    async def _pass_on(self, frame: frames.ProgressFrame) -> None:
        try:
            await self.link.send(frame, self.frame.key)
        except _TROUBLE as error:
            logger.info("a line of progress is lost: %s", error)

    async def complete(self, question: frames.Question) -> frames.QuestionAnswer:
        """Have the server answer a question. An answer that was lost on the way is asked for again, and paid once."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                answer = await self._say(question, BEAT)
            except _CallEndedError as error:
                if isinstance(question, frames.EffectFrame):
                    return frames.EffectStateFrame(question.call, question.number, reason=str(error))
                fault = CompletionFault.UNAVAILABLE.value
                return frames.CompletionFrame(
                    question.call, question.number, "", (), Usage(), "", None, fault, str(error)
                )
            if isinstance(answer, frames.QuestionAnswer) and answer.number == question.number:
                return answer
            if loop.time() - began < BEAT / 2:
                await asyncio.sleep(SOON)
