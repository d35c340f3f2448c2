"""Watchdog of the event loop: names a handler that blocks it and ends the process in the end.

Also ends copies of the process that a handler makes with fork() and that return to the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import traceback
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Self

from agentserver.supervision import EndEffect, start_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from agentserver.ports import Marks


TICK = 0.5
"""Seconds between two checks of the loop."""

NAMED = 2
"""Checks in a row at which the same task blocked the loop; then it is named."""

FRAMES = 16
"""Innermost frames that are logged."""

logger = logging.getLogger("agentserver.pump")


class LoopHolder(NamedTuple):
    """Call that blocks the loop."""

    listener: str
    delivery: str


class WatchdogAction(Enum):
    """Consequence of a check."""

    NONE = "none"
    NAME = "name"
    END = "end"


class Looks:
    """Counter of checks at which the loop had not turned since the last one, and the same task was running.

    Checks are counted instead of seconds: a stopped process or a sleeping machine has checked nothing.

    Args:
        limit: checks after which the process ends; zero for never.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._task: object = None
        self._count = 0

    def look(self, task: object, *, came_round: bool) -> WatchdogAction:
        """Count one check."""
        if came_round or task is None or task is not self._task:
            self._task = None if came_round else task
            self._count = 0 if came_round or task is None else 1
            return WatchdogAction.NONE
        self._count += 1
        if self._count == self._limit:
            return WatchdogAction.END
        return WatchdogAction.NAME if self._count == NAMED else WatchdogAction.NONE


class Watchdog:
    """Context manager that checks a pump's event loop from a thread.

    Args:
        stall: seconds for which the loop may be blocked; zero for no limit.
        holder: returns the call of a task, if it is one.
        marks: record which delivery blocked the loop, for the next server.
        end: ends the process; without it the loop stays blocked.
        nap: waits for the next check; returns True to stop.
    """

    def __init__(
        self,
        stall: float,
        holder: Callable[[asyncio.Task[object]], LoopHolder | None],
        marks: Marks,
        end: Callable[[], None] | None,
        nap: Callable[[float], bool] | None = None,
    ) -> None:
        self._looks = Looks(max(NAMED + 1, round(stall / TICK)) if stall and end is not None else 0)
        self._holder = holder
        self._marks = marks
        self._end = end
        self._over = threading.Event()
        self._nap = nap or self._over.wait
        self._round = threading.Event()

    def __enter__(self) -> Self:
        """Start the thread. Must be called on the event loop."""
        self._loop = asyncio.get_running_loop()
        self._ident = threading.get_ident()
        self._round.set()
        start_thread("looks whether the event loop is held", EndEffect.RESTART, self._watch)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the thread."""
        self._over.set()

    def _watch(self) -> None:
        while not self._nap(TICK):
            came_round = self._round.is_set()
            try:
                task = asyncio.current_task(self._loop)
                if came_round:
                    self._round.clear()
                    self._loop.call_soon_threadsafe(self._round.set)
            except RuntimeError:  # the loop is closed
                return
            sign = self._looks.look(task, came_round=came_round)
            if sign is not WatchdogAction.NONE and task is not None and not self._over.is_set():
                self._tell(task, sign)

    def _tell(self, task: asyncio.Task[object], sign: WatchdogAction) -> None:
        holder = self._holder(task)
        principal = "the server itself" if holder is None else holder.listener
        if sign is WatchdogAction.NAME:
            advice = "" if holder is None else "; await what blocks, or pass it to anyio.to_thread.run_sync"
            self._log(
                logging.ERROR,
                f"{principal} has held the event loop for {NAMED * TICK:g} s: nothing else can run{advice}",
            )
            return
        self._log(logging.CRITICAL, f"{principal} has held the event loop for too long: the process ends")
        if holder is not None:
            self._marks.hold(holder.delivery)
        if self._end is not None:
            self._end()

    def _log(self, level: int, text: str) -> None:
        frame = sys._current_frames().get(self._ident)  # noqa: SLF001 - the one way to see another thread's stack
        stack = "".join(traceback.format_stack(frame, FRAMES)).rstrip()
        place = (logger.name, level, __file__, 0, text, (), None)
        if logger.isEnabledFor(level):
            sinfo = f"Stack (most recent call last):\n{stack}"
            # Its writer cannot have the loop's help.
            logger.handle(logger.makeRecord(*place, sinfo=sinfo, extra={"held": True}))


ASTRAY = 70
"""Exit status of a copy that returned to the event loop (EX_SOFTWARE)."""


@contextmanager
def end_forks() -> Iterator[None]:
    """End every fork of this process that returns to the event loop. Must be entered on the loop.

    A copy that does its work and exits, or executes another program, is the handler's own.
    """
    serving = [(asyncio.get_running_loop(), threading.get_ident())]

    def end_fork() -> None:
        for loop, thread in serving:
            if thread == threading.get_ident():
                loop.call_soon(os._exit, ASTRAY)

    os.register_at_fork(
        after_in_child=end_fork
    )  # for good, so ``end_fork`` looks whether anything is left to do
    try:
        yield
    finally:
        serving.clear()
