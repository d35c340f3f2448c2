"""One call of a handler, in a task and a context of its own: when it is late, and when it is given up.

Owns the deadline and the grace after it. Refuses to know what a result means.
"""

from __future__ import annotations

import asyncio
from enum import Enum
from time import monotonic
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from agentserver.pump.calling.prompt import PromptTask

if TYPE_CHECKING:
    from agentserver.core.blueprint import Listener
    from agentserver.core.messages import Delivery

T = TypeVar("T")


class Stage(Enum):
    """The progress of a call."""

    RUNNING = "running"
    LATE = "late"  # its deadline passed, and it was cancelled
    VOID = "void"  # its thread was closed or the server stops, and it was cancelled
    OVER = "over"  # none waits for it any more, though its task may still run


class Keeper(Protocol[T]):
    """The owner of calls that have to be waited for."""

    @property
    def grace(self) -> float:
        """Seconds that a call has to end once it is cancelled; then it is abandoned."""
        ...

    def watch(self, call: RunningCall[T]) -> None:
        """Tell a call when it is late."""
        ...

    def abandon(self, call: RunningCall[T]) -> None:
        """Go on without a call that does not end."""
        ...


class RunningCall(PromptTask, Generic[T]):
    """A handler at work. Its result counts if it comes before the deadline and before it is cancelled.

    ``due`` is when it is late, by the loop's clock, once it has to be waited for; the watcher of that clock calls
    ``late`` then. ``until`` is the same by ``time.monotonic()``, from the beginning. ``epoch`` is
    that of its conversation's claim when it began.

    Args:
        keeper: its owner, which a call may need in its first step: a handler can close its own thread there.
        loop: the event loop that runs.
        listener: whose handler it is.
        delivery: that it is called with.
    """

    def __init__(
        self, keeper: Keeper[T], loop: asyncio.AbstractEventLoop, listener: Listener, delivery: Delivery
    ) -> None:
        super().__init__(loop=loop)
        self._keeper = keeper
        self.listener = listener
        self.delivery = delivery
        self.said: T | None = None
        self.stage = Stage.RUNNING
        self.due, self.epoch = 0.0, 0
        self.until = monotonic() + listener.deadline
        self._ended: asyncio.Future[None] | None = None
        self._giving_up: asyncio.TimerHandle | None = None

    @property
    def stopped(self) -> bool:
        """True once it was told to end."""
        return self.stage is not Stage.RUNNING

    async def ended(self) -> Stage:
        """Wait until there is no need to wait; gives the stage by then. A waiter that gives up cancels the call."""
        self._ended = self._loop.create_future()
        self.due = self._loop.time() + self.until - monotonic()
        self._keeper.watch(self)
        try:
            await self._ended
        except asyncio.CancelledError:
            self.stop()
            self._spare()
            raise
        self._spare()
        stage, self.stage = self.stage, Stage.OVER
        return stage

    def returned(self, said: T) -> None:
        """The handler has come back. One that never yielded is late all the same when its time was over."""
        self.said = said
        if self.stage is Stage.RUNNING and monotonic() > self.until:
            self.stage = Stage.LATE
        if self._ended is not None:
            self._end()

    def stop(self) -> None:
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
        self._giving_up = self._loop.call_later(self._keeper.grace, self._give_up)
        self.cancel()
        self.add_done_callback(lambda _: self._end())  # cancelled, it may report nothing

    def _spare(self) -> None:
        """It has ended, or none waits for its end."""
        if self._giving_up is not None:
            self._giving_up.cancel()

    def _give_up(self) -> None:
        if self._ended is not None and not self._ended.done():
            self._keeper.abandon(self)
            self._end()

    def _end(self) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)
