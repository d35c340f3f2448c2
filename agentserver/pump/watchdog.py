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

from agentserver.supervision import Ending, start_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from agentserver.ports import Marks


TICK = 0.5
"""Seconds between two looks at the loop."""

NAMED = 2
"""Looks in a row at which the loop was held by the same task; then it is named."""

FRAMES = 16
"""Innermost frames that are shown."""

logger = logging.getLogger("agentserver.pump")


class LoopHolder(NamedTuple):
    """A call of a handler."""

    listener: str
    delivery: str


class Sign(Enum):
    """The consequence of a look at the loop."""

    NONE = "none"
    NAME = "name"
    END = "end"


class Looks:
    """Counts looks at which the loop had not come round since the one before, and the same task was at work.

    Looks are counted rather than seconds: a process that was stopped, or a machine that slept, has looked at nothing.

    Args:
        limit: looks after which the process is to end; zero for never.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._task: object = None
        self._count = 0

    def look(self, task: object, *, came_round: bool) -> Sign:
        """Take one look."""
        if came_round or task is None or task is not self._task:
            self._task = None if came_round else task
            self._count = 0 if came_round or task is None else 1
            return Sign.NONE
        self._count += 1
        if self._count == self._limit:
            return Sign.END
        return Sign.NAME if self._count == NAMED else Sign.NONE


class Watchdog:
    """A context manager around the work of a pump, on its event loop.

    Args:
        stall: seconds for which the loop may be held; zero for ever.
        holder: the call of which a task is, if any.
        marks: where the next server looks for who held the loop.
        end: ends the process; without it the loop is held for as long as it takes.
        nap: waits for the next look; true when there is to be none.
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
        """Begin to look. Must be called on the event loop."""
        self._loop = asyncio.get_running_loop()
        self._ident = threading.get_ident()
        self._round.set()
        start_thread("looks whether the event loop is held", Ending.RESTART, self._watch)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Look no more."""
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
            if sign is not Sign.NONE and task is not None and not self._over.is_set():
                self._tell(task, sign)

    def _tell(self, task: asyncio.Task[object], sign: Sign) -> None:
        holder = self._holder(task)
        who = "the server itself" if holder is None else holder.listener
        if sign is Sign.NAME:
            self._log(
                logging.ERROR, f"{who} has held the event loop for {NAMED * TICK:g} s: nothing else can run"
            )
            return
        self._log(logging.CRITICAL, f"{who} has held the event loop for too long: the process ends")
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
"""The status of a copy that came back to the event loop (EX_SOFTWARE)."""


@contextmanager
def only_here() -> Iterator[None]:
    """End every copy of this process that comes back to the event loop. Must be entered on it."""
    serving = [(asyncio.get_running_loop(), threading.get_ident())]

    def forked() -> None:
        for loop, thread in serving:
            if thread == threading.get_ident():
                loop.call_soon(os._exit, ASTRAY)

    os.register_at_fork(after_in_child=forked)  # for good, so it is told when there is nothing left to do
    try:
        yield
    finally:
        serving.clear()
