"""The workers of one listener: processes that are kept warm, and replaced after a failure or enough calls."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from dataclasses import InitVar, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self, TypeAlias

import anyio

from agentserver.ports.servers import WorkerState
from agentserver.supervision import EndEffect, run_errand, start_errand, start_helper
from agentserver.worker import frames, reading
from agentserver.worker.frames import FrameError, FrameSocket
from agentserver.worker.reading import answer_question
from agentserver.worker.scratch import UNBOUNDED, Scratch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from types import TracebackType

    from anyio.abc import TaskGroup

    from agentserver.contract import Invocation
    from agentserver.core.decide.decisions import AcceptedDelivery
    from agentserver.core.messages import HandlerFailure, HandlerReturn
    from agentserver.payload.codec import Codecs
    from agentserver.wire.envelope import Bounds
    from agentserver.worker.frames import Heard
    from agentserver.worker.planning import WorkerPlan

__all__ = [
    "QUESTIONS",
    "CallPeer",
    "Outcome",
    "ServerCallbacks",
    "WalledListener",
    "Worker",
    "WorkerError",
    "Workers",
]

THREADS = 64
CLOSED = -1


class WorkerError(Exception):
    """A worker does not start, or is gone; the message says why, for the log."""


@dataclass(eq=False)
class Worker:
    """One process with its socket.

    Args:
        process: started, and taken for nothing yet.
        handle: a descriptor of it.
        end: the server's end of the socket.
        longest: bytes of a frame.
        scratch: its folder, if it has one.
    """

    process: asyncio.subprocess.Process
    handle: int
    end: InitVar[socket.socket]
    longest: InitVar[int]
    scratch: Scratch | None
    since: float = field(default_factory=time.monotonic)
    calls: int = 0
    lines: int = 0
    cleaning: asyncio.Task[None] | None = None
    breach: str = ""

    def __post_init__(self, end: socket.socket, longest: int) -> None:
        self._channel = FrameSocket(end, longest, self._hear)
        self._follow_call: list[Heard] = []
        self._waiter: asyncio.Future[None] | None = None
        self._began = 0, 0.0

    def _hear(self, frame: Heard) -> None:
        self._channel.pause_reading()
        self._follow_call.append(frame)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def read(self) -> frames.Frame:
        """Read the next frame. Raises WorkerError at the end of the process, and for an invalid frame."""
        if not self._follow_call:
            self._waiter = asyncio.get_running_loop().create_future()
            self._channel.listen()
            await self._waiter
        frame = self._follow_call.pop()
        if isinstance(frame, FrameError):
            raise WorkerError(f"it sent {frame}")
        if frame is None:
            self.kill()
            status = await self.process.wait()
            raise WorkerError(self.breach or f"it ended with status {status} in the middle of a call")
        return frame

    async def write(self, frame: frames.Frame) -> None:
        """Send a frame. Raises WorkerError when the process has ended."""
        try:
            await self._channel.write(frame)
        except OSError as error:
            raise WorkerError(self.breach or f"it does not listen: {error}") from None

    @property
    def has_ended(self) -> bool:
        """True once the process has ended, or has sent an unexpected frame."""
        return self._channel.unusable

    def kill(self) -> None:
        """End it at once, by a descriptor: the number may be another's by now, and asyncio waits for the end itself."""
        with suppress(ProcessLookupError):
            if self.handle != CLOSED:
                signal.pidfd_send_signal(self.handle, signal.SIGKILL)

    def close(self) -> None:
        """Close its socket and its descriptor."""
        self._channel.close()
        handle, self.handle = self.handle, CLOSED  # the number may be another process's by now
        os.close(handle)

    def find_excess(self, call: int, cpu: float, disk: int) -> str:
        """Return the limit that its call exceeds, or an empty text. Reads files: not for the event loop.

        Args:
            call: the number of the call, from 1; its processor time counts from the first check.
            cpu: seconds of processor time.
            disk: bytes that may be written at one time.
        """
        used = self.read_cpu_seconds()
        if self._began[0] != call:
            self._began = call, used
        if used - self._began[1] > cpu:
            return f"it took more than {cpu:g} s of processor time"
        if self.count_threads() > THREADS:
            return f"it started more than {THREADS} threads"
        return "" if self.scratch is None else self.scratch.describe_breach(disk, self.process.pid)

    def read_cpu_seconds(self) -> float:
        """Read its seconds of processor time so far; 0 when it is gone."""
        try:
            text = Path(f"/proc/{self.process.pid}/stat").read_text()
        except OSError:
            return 0.0
        user, system = text.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def count_threads(self) -> int:
        """Count its threads."""
        try:
            text = Path(f"/proc/{self.process.pid}/stat").read_text()
        except OSError:
            return 0
        return int(text.rpartition(")")[2].split()[17])


START = 30.0
"""Seconds that a worker has from its start to the first call that it could take."""
MERCY = 1.0
"""Seconds between telling a worker to stop and killing it."""
LOOK = 0.2
"""Seconds between two looks at what running calls have used."""
FUTILE = 3
"""Consecutive failed starts after which no worker is started."""
QUESTIONS = 64
"""Completions that one call may wait for at once."""
SPOKEN = 100
"""Lines of one call's output that are logged."""

logger = logging.getLogger("agentserver.worker")

Outcome: TypeAlias = frames.ReturnedFrame | frames.FailedFrame
"""A frame that ends a call."""


class CallPeer(Protocol):
    """The party on whose behalf a call is made: receives its progress, and has the language models."""

    def tell(self, text: str) -> None:
        """Take a line of progress."""

    async def complete(self, question: frames.Question) -> frames.QuestionAnswer:
        """Answer a question to a language model or to the ledger of effects; a failure is an answer."""


@dataclass(eq=False)
class Workers:
    """An async context manager that starts the first workers on entry and kills all on exit.

    Args:
        plan: their setup and limits.
    """

    plan: WorkerPlan
    _group: TaskGroup = field(init=False)
    _idle: list[Worker] = field(default_factory=list)
    _all: set[Worker] = field(default_factory=set)
    _busy: set[Worker] = field(default_factory=set)
    _ending: list[asyncio.Task[Worker]] = field(default_factory=list)
    _failures: int = 0
    _failure: str = ""
    _dead: str = ""
    _measured: bool = False

    async def __aenter__(self) -> Self:
        """Start as many as are kept warm. One that does not start is logged; its listener answers ``internal``."""
        self._group = await anyio.create_task_group().__aenter__()
        async with anyio.create_task_group() as starting:
            for _ in range(self.plan.warm):
                start_errand(starting, f"starts a worker of {self._name}", EndEffect.OWNER, self._warm)
        name = f"holds the calls of {self._name} to their limits"
        start_helper(self._group, name, EndEffect.LISTENER, self._look, self._fail)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """Kill all of them; the results of running calls are lost."""
        self._group.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            for worker in tuple(self._all):
                await self._bury(worker)
        return await self._group.__aexit__(kind, error, trace)

    @property
    def _name(self) -> str:
        return self.plan.setup.listener

    def list_processes(self, now: float) -> list[WorkerState]:
        """List the processes, the longest running first. ``now`` is the time in seconds since the epoch."""
        here = time.monotonic()
        found = sorted((each for each in self._all if not each.has_ended), key=lambda one: one.since)
        return [
            WorkerState(
                self._name,
                f"process {one.process.pid}",
                now - (here - one.since),
                now,
                START,
                int(one in self._busy),
            )
            for one in found
        ]

    @property
    def futile(self) -> str:
        """Reason of the last failed start when no worker is left; empty while there are some, or may be."""
        return self._dead or (self._failure if self._failures and not self._all else "")

    async def _fail(self, reason: str) -> None:
        """End all workers and start none again: nothing would hold them to their limits."""
        self._dead = reason
        for worker in self._all:
            worker.breach = reason
            worker.kill()

    def _run_errand(self, name: str, work: Callable[[], Awaitable[object]]) -> None:
        start_errand(self._group, f"{name} of {self._name}", EndEffect.LISTENER, work, self._fail)

    async def exchange(self, ask: Callable[[], frames.CallFrame], counterpart: CallPeer) -> Outcome:
        """Let a worker make a call. A cancelled call leaves its worker a second to finish.

        Raises WorkerError if no worker starts, or if one dies or sends an unexpected frame.

        Args:
            ask: returns the call once there is a worker for it.
            counterpart: of the call.
        """
        worker = await self._take_ready()
        worker.calls += 1
        worker.lines, worker.breach = 0, ""
        frame = ask()
        self._busy.add(worker)
        try:
            await worker.write(frame)
            answer = await self._follow_call(worker, frame.call, counterpart)
        except asyncio.CancelledError:
            self._run_errand("ends a late call", partial(self._end_late, worker, frame.call))
            raise
        except WorkerError:
            await self._bury(worker)
            raise
        finally:
            self._busy.discard(worker)
        if not isinstance(answer, frames.ReturnedFrame | frames.FailedFrame) or answer.call != frame.call:
            await self._bury(worker)
            raise WorkerError("it spoke out of turn")
        await self._keep(worker)
        return answer

    async def _take_ready(self) -> Worker:
        """Take a worker that is warm, or a fresh one. One that died while idle costs no call."""
        while self._idle and not self._dead:
            worker = self._idle.pop()
            if not worker.has_ended and await self._clean(worker):
                return worker
            await self._bury(worker)
        return await self._start_fresh()

    async def _start_fresh(self) -> Worker:
        """Start a worker, or take one left starting by a cancelled call: a busy machine would start none otherwise.

        Raises WorkerError.
        """
        if self._dead:
            raise WorkerError(self._dead)
        starting = self._ending.pop() if self._ending else self._await_start()
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            self._ending.append(starting)
            self._run_errand("keeps a worker", partial(self._leave, starting))
            raise

    def _await_start(self) -> asyncio.Task[Worker]:
        return run_errand(self._start(), f"starts a worker of {self._name}", (WorkerError,))

    async def _leave(self, starting: asyncio.Task[Worker]) -> None:
        """Keep the worker of a call that was cancelled, unless the next one takes it while it starts."""
        worker = None
        with suppress(WorkerError):  # it is logged
            worker = await starting
        if starting in self._ending:
            self._ending.remove(starting)
            if worker is not None:
                await self._keep(worker)

    async def _clean(self, worker: Worker) -> bool:
        """Wait until its folder is empty; False when it cannot be. A call that is cancelled meanwhile gives it back."""
        if worker.cleaning is None:
            return True
        try:
            await asyncio.shield(worker.cleaning)
        except asyncio.CancelledError:
            self._idle.append(worker)
            raise
        except OSError:
            return False
        worker.cleaning = None
        return True

    async def _warm(self) -> None:
        with suppress(WorkerError):  # it is logged
            self._idle.append(await self._start())

    async def _follow_call(self, worker: Worker, call: int, counterpart: CallPeer) -> frames.Frame:
        """Read frames until the one that ends a call; meanwhile pass on progress and answer questions.

        Raises WorkerError.
        """
        questions: dict[int, asyncio.Task[None]] = {}
        try:
            while isinstance(frame := await worker.read(), frames.ProgressFrame | frames.Question):
                if isinstance(frame, frames.ProgressFrame):
                    counterpart.tell(frame.text)
                    continue
                _check_turn(frame, call, questions)
                answering = _answer(worker, frame, counterpart)
                questions[frame.number] = run_errand(answering, f"answers a question of {self._name}")
            return frame
        finally:
            for task in questions.values():
                task.cancel()

    async def _start(self) -> Worker:
        """Start a worker up to its first call. Raises WorkerError on failure."""
        if self._failures >= FUTILE:
            raise WorkerError(f"further starts are given up: {FUTILE} did not start: {self._failure}")
        worker = await self._spawn()
        ready = False
        try:
            with anyio.fail_after(START):
                ready = await self._await_ready(worker)
        except (WorkerError, TimeoutError) as error:
            self._failure = str(error) or f"it was not ready after {START:g} s"
        finally:
            if not ready:
                await self._bury(worker)
        if ready:
            self._failures = 0
            return worker
        self._failures += 1
        logger.error("a worker of %s does not start: %s", self._name, self._failure)
        raise WorkerError(self._failure)

    async def _await_ready(self, worker: Worker) -> bool:
        """Let a process come so far that it takes calls; False when it does not. Raises WorkerError."""
        await worker.write(self.plan.build_first(None if worker.scratch is None else worker.scratch.path))
        answer = await worker.read()
        if not isinstance(answer, frames.ReadyFrame):
            self._failure = (
                answer.detail if isinstance(answer, frames.FailedFrame) else "it spoke out of turn"
            )
            return False
        if worker.scratch is not None:
            try:
                await anyio.to_thread.run_sync(worker.scratch.adopt, worker.process.pid)
            except OSError as error:
                raise WorkerError(f"its folder cannot be reached: {error}") from None
            if not (worker.scratch.bounded or self._measured):
                self._measured = True
                logger.warning("%s", f"the disk limit of {self._name} is measured: {UNBOUNDED}")
        return True

    async def _spawn(self) -> Worker:
        """Spawn a process that waits for its first frame. Raises WorkerError if the system refuses."""
        try:
            scratch = await anyio.to_thread.run_sync(Scratch) if self.plan.scratch else None
        except OSError as error:
            raise WorkerError(f"it has no folder to write to: {error}") from None
        ours, theirs = socket.socketpair()
        extra = {} if scratch is None else {"TMPDIR": str(scratch.path)}
        try:
            with theirs:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-I", "-B", "-u", "-m", "agentserver.worker", str(theirs.fileno())),
                    pass_fds=[theirs.fileno()],
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.STDOUT,
                    env={**self.plan.environment, **extra},
                    cwd="/",
                )
            handle = os.pidfd_open(process.pid)
        except OSError as error:
            ours.close()
            if scratch is not None:
                await anyio.to_thread.run_sync(scratch.remove)
            raise WorkerError(f"it cannot be started: {error}") from None
        worker = Worker(process, handle, ours, self.plan.setup.longest, scratch)
        self._all.add(worker)
        name, hear = f"logs the output of {self._name}", partial(self._hear, worker)
        start_errand(self._group, name, EndEffect.WORKER, hear, partial(_wait_for_end, worker))
        return worker

    async def _keep(self, worker: Worker) -> None:
        """Let a worker wait for its next call, or end it."""
        if len(self._idle) >= self.plan.warm or worker.calls >= self.plan.recycle:
            await self._bury(worker)
            return
        if worker.scratch is not None and worker.scratch.touched:
            # Its next call waits for that, the answer of this one does not.
            cleaning = anyio.to_thread.run_sync(worker.scratch.empty)
            worker.cleaning = run_errand(cleaning, f"empties a folder of {self._name}", (OSError,))
        self._idle.append(worker)

    async def _end_late(self, worker: Worker, call: int) -> None:
        with anyio.move_on_after(MERCY):
            try:
                await worker.write(frames.CancelFrame(call))
                answer = await worker.read()
            except WorkerError:
                answer = None
            if isinstance(answer, frames.FailedFrame | frames.ReturnedFrame) and answer.call == call:
                await self._keep(worker)
                return
        await self._bury(worker)

    async def _bury(self, worker: Worker) -> None:
        if worker not in self._all:
            return
        self._all.discard(worker)
        with anyio.CancelScope(shield=True):
            worker.kill()
            await worker.process.wait()
            worker.close()
            if worker.scratch is not None:
                await anyio.to_thread.run_sync(worker.scratch.remove)

    async def _hear(self, worker: Worker) -> None:
        """Log what a worker prints, as far as it is worth it; the rest is read and dropped, so that none waits."""
        out = worker.process.stdout
        assert out is not None  # it was asked for
        while data := await out.read(4096):
            for line in data.decode("utf-8", "replace").splitlines():
                worker.lines += 1
                if worker.lines <= SPOKEN and line.strip():
                    logger.info("%s says: %s", self._name, line[:500])

    async def _look(self) -> None:
        """End those whose call has taken too much."""
        while True:
            await anyio.sleep(LOOK)
            for worker in tuple(self._busy):
                look = partial(worker.find_excess, call := worker.calls, self.plan.cpu, self.plan.disk)
                breach = await anyio.to_thread.run_sync(look)
                if breach and worker in self._busy and worker.calls == call:
                    worker.breach = breach
                    worker.kill()


@dataclass(eq=False, slots=True)
class WalledListener:
    """A listener whose handler has processes of this machine.

    Args:
        workers: its own, entered and left by who has made them.
        codecs: of the server.
        bounds: of one payload.
    """

    workers: Workers
    codecs: Codecs
    bounds: Bounds
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    async def call(self, accepted: AcceptedDelivery, current: Invocation) -> HandlerReturn | HandlerFailure:
        """Let a worker handle a delivery."""
        ask = partial(reading.encode_call, next(self._numbers), accepted, current)
        try:
            answer = await self.workers.exchange(ask, ServerCallbacks(current, self.codecs))
        except WorkerError as error:
            return reading.fail_worker(str(error))
        return reading.decode_end(answer, accepted, self.codecs, self.bounds, self.workers.plan.setup.storage)

    def list_workers(self, now: float) -> list[WorkerState]:
        """List its processes. ``now`` is the time in seconds since the epoch."""
        return self.workers.list_processes(now)


@dataclass(frozen=True, slots=True)
class ServerCallbacks:
    """The server as the counterpart of a call.

    Args:
        current: what a handler of this process would have in reach.
        codecs: of the server.
    """

    current: Invocation
    codecs: Codecs

    def tell(self, text: str) -> None:
        """Pass on a line of progress."""
        self.current.progress(text)

    async def complete(self, question: frames.Question) -> frames.QuestionAnswer:
        """Ask a model, with the keys and the budget of the server, or the ledger of effects."""
        if isinstance(question, frames.EffectFrame):
            return await reading.record_effect(question, self.current)
        return await answer_question(question, self.current, self.codecs)


async def _wait_for_end(worker: Worker, reason: str) -> None:
    worker.breach = reason
    worker.kill()


async def _answer(worker: Worker, question: frames.Question, counterpart: CallPeer) -> None:
    answer = await counterpart.complete(question)
    with suppress(WorkerError):  # the one who reads hears of it
        await worker.write(answer)


def _check_turn(frame: frames.Question, call: int, questions: Mapping[int, asyncio.Task[None]]) -> None:
    """Raise WorkerError for a question of another call, one that was asked already, and one too many."""
    waiting = sum(not task.done() for task in questions.values())
    if frame.call != call or frame.number in questions or waiting >= QUESTIONS:
        raise WorkerError("it asked out of turn")
