"""Supervised background work: every task and thread has a name, and a stated consequence of its end.

A helper lasts until its owner ends it; an errand ends by itself. The consequence is part of the name of the task or
thread, for lists of them. tests/test_shape.py refuses tasks and threads that are started in other ways.

A library may lose a cancellation, as ``asyncio.wait_for`` of Python 3.11 does when its result comes in the same turn.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections import deque
from enum import StrEnum
from functools import partial
from itertools import repeat, starmap
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import anyio
import anyio.lowlevel

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence

    from anyio.abc import TaskGroup

__all__ = [
    "EndEffect",
    "HelperError",
    "QueueTask",
    "QueueThread",
    "run_errand",
    "start_errand",
    "start_helper",
    "start_thread",
]

T = TypeVar("T")

SOONEST, LATEST = 0.1, 30.0
"""Seconds before a helper is started again: the first time, and at most. They double with each failure."""

LOOK = 0.5
"""Seconds after which a ``QueueTask`` or ``QueueThread`` looks at its queue without being woken."""

logger = logging.getLogger("agentserver.helpers")


class EndEffect(StrEnum):
    """Consequence of the end of a helper that its owner did not end."""

    SERVER = "the server ends"
    LISTENER = "its listener answers internal"
    WORKER = "the process that it serves is ended"
    OWNER = "the connection, request or process that it serves ends"
    RESTART = "it is started again"
    TOLD = "its caller gets the error"
    EXPIRY = "its conversation ends when it is idle"


class HelperError(Exception):
    """A helper ended that its owner needs."""


def start_helper(
    tasks: TaskGroup,
    name: str,
    ending: EndEffect,
    work: Callable[[], Awaitable[object]],
    end: Callable[[str], Awaitable[object]] | None = None,
) -> None:
    """Start work that lasts until its group is cancelled.

    If it raises or returns before, the group fails with its exception, or a HelperError. With ``RESTART`` it is logged
    and restarted instead; with ``end`` it is logged and ``end`` is called.

    Args:
        tasks: the group.
        name: what the helper does, as in "sends spans".
        ending: the consequence of its end.
        work: is called to start it.
        end: carries out the consequence, and is called with the reason.
    """
    tasks.start_soon(_run_helper, (name, ending, False), work, end, name=_label("helper", name, ending))


def start_errand(
    tasks: TaskGroup,
    name: str,
    ending: EndEffect,
    work: Callable[[], Awaitable[object]],
    end: Callable[[str], Awaitable[object]] | None = None,
) -> None:
    """Start work that ends by itself. Its exception has the consequence of a helper's end.

    Args are those of ``start_helper``.
    """
    tasks.start_soon(_run_helper, (name, ending, True), work, end, name=_label("errand", name, ending))


def run_errand(
    work: Coroutine[Any, Any, T],
    name: str,
    expected: tuple[type[Exception], ...] = (),
    ending: EndEffect = EndEffect.TOLD,
) -> asyncio.Task[T]:
    """Start a task that ends by itself and that a caller may await.

    Args:
        work: of the task.
        name: for people.
        expected: exceptions that its caller handles; any other is logged at once.
        ending: the consequence of its end, which its owner carries out.
    """
    task = asyncio.get_running_loop().create_task(work, name=_label("errand", name, ending))
    task.add_done_callback(partial(_see, name, expected))
    return task


def start_thread(
    name: str, ending: EndEffect, work: Callable[[], object], end: Callable[[str], object] | None = None
) -> threading.Thread:
    """Start a daemon thread. It may return; its exception is logged and has its consequence.

    Args:
        name: for people.
        ending: ``RESTART``, or the consequence that ``end`` carries out.
        work: of the thread.
        end: carries out the consequence in the thread; without it the thread is restarted.
    """

    def run() -> None:
        failures = 0
        while True:
            began = time.monotonic()
            try:
                work()
            except Exception as error:
                reason = _format_reason(name, ending, error)
                logger.exception("%s", reason)
                if end is not None:
                    end(reason)
                    return
            else:
                return
            failures = 0 if time.monotonic() - began > LATEST else failures
            time.sleep(_compute_pause(failures))
            failures += 1

    thread = threading.Thread(target=run, name=_label("helper", name, ending), daemon=True)
    thread.start()
    return thread


class QueueThread(Generic[T]):
    """Thread that takes items from a bounded queue, in order. It does not keep the process alive.

    Args:
        name: what the thread does, as in "sends spans".
        take: is called in the thread with the next items.
        capacity: items that may wait; later ones are dropped.
        batch: items that ``take`` gets at once, at most.
        wake: waiting items at which the thread wakes; it wakes every LOOK seconds anyway.
        begin: is called in the thread before the first items.
    """

    def __init__(
        self,
        name: str,
        take: Callable[[Sequence[T]], object],
        capacity: int,
        *,
        batch: int = 1,
        wake: int = 1,
        begin: Callable[[], object] = bool,
    ) -> None:
        self._name, self._take, self._capacity = name, take, capacity
        self._batch, self._wake, self._begin = batch, wake, begin
        self._queued: deque[T] = deque()
        self._woken = threading.Event()
        self._ending = False
        self._thread: threading.Thread | None = None
        self.dropped = 0

    @property
    def queue_length(self) -> int:
        """Items that wait."""
        return len(self._queued)

    def start(self) -> None:
        """Start the thread."""
        self._thread = start_thread(self._name, EndEffect.RESTART, self._run)

    def put(self, item: T) -> bool:
        """Queue an item. Returns False and counts it if the queue is full. Neither blocks nor raises."""
        waiting = self._queued
        if len(waiting) >= self._capacity:
            self.dropped += 1
            return False
        waiting.append(item)
        if len(waiting) == self._wake:
            self._woken.set()
        return True

    def end(self, until: float) -> bool:
        """Wait for the last items until ``time.monotonic()`` reaches ``until``. Returns whether all were taken."""
        self._ending = True
        self._woken.set()
        if self._thread is not None:
            self._thread.join(max(0.0, until - time.monotonic()))
        return self._thread is None or not self._thread.is_alive()

    def _run(self) -> None:
        self._begin()
        ending, waiting = False, self._queued
        while not ending:
            self._woken.wait(LOOK)
            self._woken.clear()
            ending = self._ending
            while waiting:
                self._take([waiting.popleft() for _ in range(min(self._batch, len(waiting)))])


class QueueTask(Generic[T]):
    """Task that takes items from a bounded queue, in order, in the event loop that starts it.

    Args:
        name: what the task does, as in "sends spans".
        take: is awaited with the next items. If it raises, they are dropped and the task is started again.
        capacity: items that may wait; later ones are dropped.
        batch: items that ``take`` gets at once, at most.

    ``dropped`` counts the items that ``take`` has not got, or not finished.
    """

    def __init__(
        self, name: str, take: Callable[[Sequence[T]], Awaitable[object]], capacity: int, *, batch: int
    ) -> None:
        self._name, self._take, self._capacity, self._batch = name, take, capacity, batch
        self._queued: deque[T] = deque()
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._scope = anyio.CancelScope()
        self.ending = asyncio.Event()
        self.dropped = 0

    @property
    def queue_length(self) -> int:
        """Items that wait."""
        return len(self._queued)

    def start(self) -> None:
        """Start the task."""
        self._task = run_errand(self._run_again(), self._name, ending=EndEffect.RESTART)

    def put(self, item: T) -> None:
        """Queue an item, or drop it if the queue is full. Neither blocks nor raises.

        The task wakes for a full batch, and every LOOK seconds anyway.
        """
        waiting = self._queued
        if len(waiting) >= self._capacity:
            self.dropped += 1
            return
        waiting.append(item)
        if len(waiting) == self._batch:
            self._woken.set()

    def put_all(self, items: Sequence[T]) -> int:
        """Queue items in order. Returns how many found the queue full, and are dropped. Neither blocks nor raises."""
        waiting = self._queued
        room = self._capacity - len(waiting)
        waiting.extend(items if len(items) <= room else items[:room])
        if len(waiting) >= self._batch:
            self._woken.set()
        over = max(0, len(items) - room)
        self.dropped += over
        return over

    async def end(self, until: float) -> None:
        """Wait for the last items until the loop's time reaches ``until``, then end the task and leave the rest."""
        self.ending.set()
        self._woken.set()
        if self._task is not None:
            with anyio.move_on_after(until - anyio.current_time()):
                await asyncio.wait({self._task})
            self._scope.cancel()
            await asyncio.wait({self._task})

    async def _run_again(self) -> None:
        with self._scope:
            await _run_helper((self._name, EndEffect.RESTART, True), self._run, None)

    async def _run(self) -> None:
        waiting = self._queued
        while not (self.ending.is_set() and not waiting):
            with anyio.move_on_after(LOOK):
                await self._woken.wait()
            due = True
            while waiting and (due or len(waiting) >= self._batch or self.ending.is_set()):
                count = min(self._batch, len(waiting))
                items = list(starmap(waiting.popleft, repeat((), count)))  # without a loop in Python
                lost = len(items)
                try:
                    await self._take(items)
                    lost = 0
                finally:  # also if it is cancelled
                    self.dropped += lost
                await anyio.lowlevel.checkpoint()
                due = False  # the rest waits for a full batch, or its own LOOK seconds
            self._woken.clear()


def _label(kind: str, name: str, ending: EndEffect) -> str:
    return f"{kind} {name}: {ending.value}"


async def _run_helper(
    identity: tuple[str, EndEffect, bool],
    work: Callable[[], Awaitable[object]],
    end: Callable[[str], Awaitable[object]] | None,
) -> None:
    name, ending, returns = identity
    failures = 0
    while True:
        began = time.monotonic()
        error: BaseException | None = None
        try:
            await work()
        except asyncio.CancelledError as cancelled:
            if anyio.current_effective_deadline() == -math.inf:  # by its owner
                raise
            error = cancelled
        except Exception as failed:  # noqa: BLE001 - whatever ends it has the consequence
            error = failed
        if returns and error is None:
            return
        reason = _format_reason(name, ending, error)
        if ending is not EndEffect.RESTART and end is None:
            raise _add_reason(error, reason)
        logger.error("%s", reason, exc_info=error)
        if end is not None:
            await end(reason)
            return
        failures = 0 if time.monotonic() - began > LATEST else failures
        await anyio.sleep(_compute_pause(failures))
        failures += 1


def _add_reason(error: BaseException | None, reason: str) -> Exception:
    """Return the exception for the owner: the work's own with a note, since owners know its type."""
    if not isinstance(error, Exception):
        return HelperError(reason)
    error.add_note(reason)
    return error


def _compute_pause(failures: int) -> float:
    return min(SOONEST * 2.0 ** min(failures, 20), LATEST)


def _format_reason(name: str, ending: EndEffect, error: BaseException | None) -> str:
    outcome = "returned" if error is None else f"ended with {type(error).__name__}"
    return f"the helper that {name} {outcome}; {ending.value}"


def _see(name: str, expected: tuple[type[Exception], ...], task: asyncio.Task[Any]) -> None:
    if task.cancelled():
        return
    error = task.exception()
    if error is not None and not isinstance(error, expected):
        logger.error("the errand that %s ended with %s", name, type(error).__name__, exc_info=error)


AGAIN: Final = 5.0
"""Seconds that a cancelled task has for its cleanup before it is cancelled again."""


async def cancel_and_wait(tasks: Iterable[asyncio.Future[Any]], interval: float = AGAIN) -> None:
    """Cancel tasks and wait until they are done. Their exceptions are discarded.

    Args:
        tasks: futures of the running loop.
        interval: seconds after which a task that still runs is cancelled again.
    """
    every = frozenset(tasks)
    while running := {task for task in every if not task.done()}:
        for task in running:
            task.cancel()
        await asyncio.wait(running, timeout=interval)
    for task in every:
        _ = task.cancelled() or task.exception()  # else the loop logs an unretrieved exception
