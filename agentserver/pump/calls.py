"""One call of a handler, in a task and a context of its own: when it is late, and when it is given up.

Owns the task, the deadline and the grace after it. Refuses to know what a result means.
"""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextvars import Context

    from agentserver.pump.watchdog import Holder

T = TypeVar("T")


class Stage(Enum):
    """The progress of a call."""

    RUNNING = "running"
    LATE = "late"  # its deadline passed, and it was cancelled
    VOID = "void"  # its thread was closed or the server stops, and it was cancelled
    OVER = "over"  # none waits for it any more, though its task may still run


class Call(Generic[T]):
    """A handler at work. Its result counts if it comes before the deadline and before it is cancelled.

    ``due`` is when it is late, by the loop's clock; the watcher of that clock calls ``late`` then.

    Args:
        work: calls the handler; reports what came of it through ``returned``.
        context: the context that it runs in.
        deadline: seconds that it may take.
        grace: seconds that it has to end once it is cancelled; then it is abandoned.
        abandon: told when that happens.
        who: whose call it is.
    """

    __slots__ = (
        "_abandon",
        "_ended",
        "_giving_up",
        "_grace",
        "_loop",
        "due",
        "result",
        "stage",
        "task",
        "who",
    )

    def __init__(
        self,
        work: Callable[[Call[T]], Coroutine[None, None, None]],
        context: Context,
        deadline: float,
        grace: float,
        abandon: Callable[[Call[T]], None],
        who: Holder,
    ) -> None:
        self.who = who
        self._loop = asyncio.get_running_loop()
        self._grace = grace
        self._abandon = abandon
        self._ended = self._loop.create_future()
        self._giving_up: asyncio.TimerHandle | None = None
        self.due = self._loop.time() + deadline
        self.result: T | None = None
        self.stage = Stage.RUNNING
        self.task = self._loop.create_task(work(self), context=context)

    @property
    def cancelled(self) -> bool:
        """True once it was told to end."""
        return self.stage is not Stage.RUNNING

    async def ended(self) -> Stage:
        """Wait until there is no need to wait; gives the stage by then. A waiter that gives up cancels the call."""
        try:
            await self._ended
        except asyncio.CancelledError:
            self.cancel()
            self._spare()
            raise
        if self._giving_up is not None:
            self._spare()
        stage, self.stage = self.stage, Stage.OVER
        return stage

    def returned(self, result: T) -> None:
        """The handler has come back. One that never yielded is late all the same when its time was over."""
        self.result = result
        if self.stage is Stage.RUNNING and self._loop.time() > self.due:
            self.stage = Stage.LATE
        self._end()

    def cancel(self) -> None:
        """End it; its result is void."""
        if self.stage is Stage.RUNNING:
            self._stop(Stage.VOID)
        elif self.stage is Stage.LATE:
            self.stage = Stage.VOID

    def late(self) -> None:
        """Its time is over: cancel it, unless that is done already."""
        if self.stage is Stage.RUNNING:
            self._stop(Stage.LATE)

    def _stop(self, stage: Stage) -> None:
        self.stage = stage
        self._giving_up = self._loop.call_later(self._grace, self._give_up)
        self.task.cancel()
        self.task.add_done_callback(
            lambda _: self._end()
        )  # cancelled before its first step, it reports nothing

    def _spare(self) -> None:
        """It has ended, or none waits for its end."""
        if self._giving_up is not None:
            self._giving_up.cancel()

    def _give_up(self) -> None:
        if not self._ended.done():
            self._abandon(self)
            self._end()

    def _end(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)
