"""Calls for workers on other machines: each is answered once, by the worker that holds it, or offered again."""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
from collections import Counter, deque
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from agentserver.ports.servers import WorkerState
from agentserver.supervision import run_errand
from agentserver.worker import frames, reading
from agentserver.worker.frames import AssignedCallFrame, HeartbeatFrame, ReceiptFrame
from agentserver.worker.pool import QUESTIONS, Outcome, ServerCallbacks, WorkerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agentserver.contract import Invocation
    from agentserver.core.decide.decisions import AcceptedDelivery
    from agentserver.core.messages import HandlerFailure, HandlerReturn
    from agentserver.payload.codec import Codecs
    from agentserver.wire.envelope import Bounds
    from agentserver.worker.frames import Answer, Spoken
    from agentserver.worker.pool import CallPeer

__all__ = ["CallDesk", "HeldCall", "RemoteListener", "SilenceLimits", "UnexpectedFrameError"]

REMEMBERED = 10_000
"""Ended calls whose reason is remembered for the log."""
FORGOTTEN = 3600.0
"""Seconds of silence after which a worker is not listed."""
HELD_UP = 1.0
"""Seconds by which a timer may be late before it counts as the server's own delay."""

logger = logging.getLogger("agentserver.worker")


class UnexpectedFrameError(Exception):
    """No call waits for what a worker has said; the text is the reason."""


@dataclass(frozen=True, slots=True)
class SilenceLimits:
    """The silences of workers that are allowed.

    Args:
        begin: seconds from giving out a call until its worker says that it begins; then another one is given it.
        lost: seconds without a sign of life of a worker that has begun; then the call has failed.
    """

    begin: float = 3.0
    lost: float = 7.5


@dataclass(eq=False)
class HeldCall:
    """A call that waits for a worker, or is with one.

    Args:
        listener: its name.
        number: of the call; every frame about it bears the same.
        ask: gives the call as a frame.
        counterpart: of the call.
        silences: that are allowed.
    """

    listener: str
    number: int
    ask: Callable[[], frames.CallFrame]
    counterpart: CallPeer
    silences: SilenceLimits
    key: str = ""
    worker: str = ""
    started: bool = False
    _timer: asyncio.TimerHandle | None = None
    _questions: dict[int, asyncio.Task[frames.QuestionAnswer]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.over: asyncio.Future[Outcome] = self._loop.create_future()

    def give(self, worker: str, reoffer: Callable[[], None]) -> AssignedCallFrame:
        """Give the call to a worker. ``reoffer`` offers it to others when this one does not begin."""
        frame = self.ask()
        self.key, self.worker, self.started = secrets.token_hex(16), worker, False
        self._expect(self.silences.begin, reoffer)
        return AssignedCallFrame(self.key, frame)

    def handle_frame(self, frame: Spoken) -> Answer | None:
        """Handle a frame of its worker; None if ``awaited`` has its answer later.

        Raises UnexpectedFrameError once the call has ended.
        """
        if self.over.done():
            raise UnexpectedFrameError("the call has ended")
        if frame.call != self.number:
            self.break_off("it spoke out of turn")
            raise UnexpectedFrameError("this frame is about another call")
        first, self.started = not self.started, True
        self._expect(self.silences.lost, self._lose)
        if isinstance(frame, HeartbeatFrame):
            return ReceiptFrame(self.number) if first else None
        if isinstance(frame, frames.Question):
            return self._answer(frame)
        if isinstance(frame, frames.ProgressFrame):
            self.counterpart.tell(frame.text)
        else:
            self.over.set_result(frame)
        return ReceiptFrame(self.number)

    def list_futures(self, frame: Spoken) -> tuple[asyncio.Future[object], ...]:
        """List the futures that can complete the answer to a frame."""
        question = self._questions.get(frame.number) if isinstance(frame, frames.Question) else None
        return (self.over,) if question is None else (self.over, question)  # type: ignore[return-value]  # are awaited

    def break_off(self, reason: str) -> None:
        """End the call with the failure of its worker."""
        if not self.over.done():
            self.over.set_exception(WorkerError(reason))

    def close(self) -> None:
        """Cancel timers and questions of a call without a waiter."""
        self.over.cancel()
        if self._timer is not None:
            self._timer.cancel()
        for question in self._questions.values():
            question.cancel()

    def _answer(self, question: frames.Question) -> frames.QuestionAnswer | None:
        """Answer a question once, however often the worker asks again under one number."""
        task = self._questions.get(question.number)
        if task is not None:
            return task.result() if task.done() and not task.cancelled() else None
        done = [number for number, each in self._questions.items() if each.done()]
        if len(self._questions) - len(done) >= QUESTIONS:
            self.break_off("it asked out of turn")
            raise UnexpectedFrameError("too many questions are open")
        for number in done[:-QUESTIONS]:
            del self._questions[number]
        answering = self.counterpart.complete(question)
        self._questions[question.number] = run_errand(answering, f"answers a question of {self.listener}")
        return None

    def _expect(self, seconds: float, then: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        due = self._loop.time() + seconds
        self._timer = self._loop.call_at(due, self._miss, due, seconds, then)

    def _miss(self, due: float, seconds: float, then: Callable[[], None]) -> None:
        if self._loop.time() - due > HELD_UP:  # this process did not run meanwhile, so it has heard nobody
            self._expect(seconds, then)
        elif not self.over.done():
            then()

    def _lose(self) -> None:
        self.break_off(f"it was silent for {self.silences.lost:g} s")


@dataclass(eq=False)
class _Line:
    """The calls of one listener that no worker has yet, and the workers that wait for one."""

    editions: int = 0
    calls: deque[HeldCall] = field(default_factory=deque)
    workers: deque[asyncio.Future[HeldCall]] = field(default_factory=deque)
    last_seen: float = float("-inf")
    lonely: bool = False


@dataclass(eq=False, slots=True)
class _WorkerSignal:
    """Signs of life of a principal that takes calls of a listener, in seconds of the event loop."""

    since: float
    seen: float
    waiting: int = 0


class CallDesk:
    """The calls of all listeners with workers on other machines, over all editions of an organism.

    Args:
        silences: of workers that are allowed.
    """

    def __init__(self, silences: SilenceLimits = SilenceLimits()) -> None:
        self._silences = silences
        self._lines: dict[str, _Line] = {}
        self._calls: dict[str, HeldCall] = {}
        self._over: dict[str, tuple[str, str, str]] = {}
        self._heard: dict[tuple[str, str], _WorkerSignal] = {}

    @contextmanager
    def admit_workers(self, listener: str) -> Iterator[None]:
        """Let workers of a listener connect while the context lasts."""
        line = self._lines.setdefault(listener, _Line())
        line.editions += 1
        try:
            yield
        finally:
            line.editions -= 1
            for worker in line.workers if not line.editions else ():
                if not worker.done():
                    worker.set_exception(UnexpectedFrameError("the listener no longer has isolation: remote"))

    def serves(self, listener: str) -> bool:
        """Tell whether a listener has workers on other machines."""
        line = self._lines.get(listener)
        return line is not None and line.editions > 0

    async def outcome(
        self, listener: str, number: int, ask: Callable[[], frames.CallFrame], counterpart: CallPeer
    ) -> Outcome:
        """Have a worker make a call. It waits for one until it is cancelled, which its deadline does.

        Raises WorkerError when its worker is lost or cannot be believed.
        """
        call = HeldCall(listener, number, ask, counterpart, self._silences)
        reason = "the call has ended: its deadline has passed, or it was cancelled"
        try:
            self._offer(call)
            found = await call.over
            reason = "the call was answered before"
        except WorkerError:
            reason = "the call has failed before"
            raise
        else:
            return found
        finally:
            call.close()
            self._forget(call, reason)

    def _offer(self, call: HeldCall) -> None:
        """Give a call to a worker that waits, or let it wait for one."""
        line = self._lines.setdefault(call.listener, _Line())
        while line.workers:
            worker = line.workers.popleft()
            if not worker.done():
                worker.set_result(call)
                return
        line.calls.append(call)
        working = any(each.listener == call.listener for each in self._calls.values())
        recent = asyncio.get_running_loop().time() - line.last_seen < self._silences.lost
        if not (line.lonely or working or recent):
            line.lonely = True
            logger.warning("calls of %s wait: no worker is connected to this server", call.listener)

    def _forget(self, call: HeldCall, reason: str) -> None:
        line = self._lines[call.listener]
        if call in line.calls:
            line.calls.remove(call)
        if call.key:
            del self._calls[call.key]
            self._over[call.key] = call.listener, call.worker, reason
            while len(self._over) > REMEMBERED:
                del self._over[next(iter(self._over))]

    async def take(self, listener: str, worker: str) -> AssignedCallFrame:
        """Wait for a call of a listener, and give it to a worker.

        Args:
            listener: its name.
            worker: the principal that the worker is.

        Raises UnexpectedFrameError when the listener's workers are here from now on.
        """
        line = self._lines.setdefault(listener, _Line())
        if line.lonely:
            line.lonely = False
            logger.warning("%s, a worker of %s, has come", worker, listener)
        heard = self._hear(listener, worker)
        heard.waiting += 1
        try:
            while True:
                call = line.calls.popleft() if line.calls else await self._take_next(line)
                if not call.over.done():
                    return self._give(call, worker)
        finally:
            heard.waiting -= 1
            heard.seen = line.last_seen = asyncio.get_running_loop().time()

    def _hear(self, listener: str, worker: str) -> _WorkerSignal:
        """Note a sign of life of a worker."""
        now = asyncio.get_running_loop().time()
        one = self._heard.setdefault((listener, worker), _WorkerSignal(now, now))
        if not one.waiting and now - one.seen > self._silences.lost:
            one.since = now
        one.seen = now
        return one

    def list_workers(self, listener: str, now: float) -> list[WorkerState]:
        """List the workers of a listener that were heard within an hour. ``now`` in seconds since the epoch."""
        here = asyncio.get_running_loop().time()
        for key, one in tuple(self._heard.items()):
            if not one.waiting and here - one.seen > FORGOTTEN:
                del self._heard[key]
        offset, patience = now - here, self._silences.lost
        held = Counter((call.listener, call.worker) for call in self._calls.values())
        return [
            WorkerState(
                listener,
                name,
                offset + one.since,
                now if one.waiting else offset + one.seen,
                patience,
                held[(listener, name)],
            )
            for (whose, name), one in sorted(self._heard.items())
            if whose == listener
        ]

    async def _take_next(self, line: _Line) -> HeldCall:
        coming: asyncio.Future[HeldCall] = asyncio.get_running_loop().create_future()
        line.workers.append(coming)
        try:
            return await coming
        except asyncio.CancelledError:
            if coming.done() and not coming.cancelled() and coming.exception() is None:
                self._offer(coming.result())
            raise
        finally:
            if coming in line.workers:
                line.workers.remove(coming)

    def _give(self, call: HeldCall, worker: str) -> AssignedCallFrame:
        frame = call.give(worker, partial(self._give_back, call))
        self._calls[call.key] = call
        return frame

    def _give_back(self, call: HeldCall) -> None:
        """Offer a call to other workers after its own did not begin. The first worker loses it."""
        logger.warning(
            "a worker of %s has taken a call and does not begin: it is offered again", call.listener
        )
        del self._calls[call.key]
        self._over[call.key] = call.listener, call.worker, "the call was given to another worker"
        call.key = ""
        self._offer(call)

    def find(self, listener: str, worker: str, key: str) -> HeldCall:
        """Find the call that a worker holds. Raises UnexpectedFrameError with the reason for an unknown key."""
        call = self._calls.get(key)
        if call is not None and (call.listener, call.worker) == (listener, worker):
            self._hear(listener, worker)
            if call.over.done():
                raise UnexpectedFrameError("the call was answered before")
            return call
        *whose, reason = self._over.get(key, ("", "", ""))
        raise UnexpectedFrameError(
            reason if whose == [listener, worker] else "this worker was given no call of this key"
        )


@dataclass(eq=False, slots=True)
class RemoteListener:
    """A listener whose handler has processes on other machines.

    Args:
        desk: of the server.
        listener: its name.
        codecs: of the server.
        bounds: of one payload.
        storage: bytes that a thread may store.
    """

    desk: CallDesk
    listener: str
    codecs: Codecs
    bounds: Bounds
    storage: int
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    async def call(self, accepted: AcceptedDelivery, current: Invocation) -> HandlerReturn | HandlerFailure:
        """Let a worker handle a delivery."""
        number = next(self._numbers)
        ask = partial(reading.encode_call, number, accepted, current)
        try:
            answer = await self.desk.outcome(
                self.listener, number, ask, ServerCallbacks(current, self.codecs)
            )
        except WorkerError as error:
            return reading.fail_worker(str(error))
        return reading.decode_end(answer, accepted, self.codecs, self.bounds, self.storage)

    def list_workers(self, now: float) -> list[WorkerState]:
        """List the workers that were heard lately. ``now`` is the time in seconds since the epoch."""
        return self.desk.list_workers(self.listener, now)
