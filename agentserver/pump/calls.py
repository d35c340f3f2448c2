"""Running call of a handler: a task that takes its first step at once, with a deadline and a grace period.

The task follows "Extending Asyncio" of Python's documentation. A call that does not wait costs no turn of the event
loop, and still has a task and a context of its own.
"""

from __future__ import annotations

import asyncio
from asyncio import base_tasks
from asyncio.tasks import _enter_task, _leave_task, _register_task
from enum import Enum
from time import monotonic
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from contextvars import Context
    from types import FrameType
    from typing import TextIO

    from agentserver.core.blueprint import Listener
    from agentserver.core.messages import Delivery


_end = asyncio.Future.set_result


class PromptTask(asyncio.Future[None]):
    """Task for asyncio, its timeouts and task groups, and anyio.

    ``cancels`` counts its cancellations, minus the ones that were undone.
    """

    # Most tasks end before any of these is set.
    _coro: Coroutine[Any, Any, None] | None = None
    _context: Context | None = None
    _name = ""
    _cancel_args: tuple[Any, ...] = ()
    cancels = 0
    # anyio reads these two of any task, to find out whether it can be cancelled now.
    _must_cancel = False
    _fut_waiter: asyncio.Future[Any] | None = None

    def begin(
        self, work: Coroutine[Any, Any, None], context: Context, outer: asyncio.Task[Any] | None
    ) -> bool:
        """Take the first step of the work. Returns whether the work is done.

        Args:
            work: coroutine that runs.
            context: that it runs in.
            outer: the current task; None in a callback of the loop.
        """
        self._coro, self._context = work, context
        loop = self._loop
        if outer is not None:
            _leave_task(loop, outer)
        _enter_task(loop, self)  # type: ignore[arg-type]  # asyncio asks for a task of its own class nowhere
        try:
            pending = context.run(work.send, None)
        except StopIteration:
            self._context = None  # it may refer to this task
            _end(self, None)
            return True
        except BaseException as error:  # noqa: BLE001 - what a task raises is for the one who waits for it
            self._context = None
            self._fail(error)
            return True
        finally:
            _leave_task(loop, self)  # type: ignore[arg-type]
            if outer is not None:
                _enter_task(loop, outer)
        _register_task(self)  # type: ignore[arg-type]
        self._wait_for(pending)
        return False

    def _step(self, error: BaseException | None = None) -> None:
        """Resume with the result of the awaited future, or with its exception."""
        work, loop = self._coro, self._loop
        assert work is not None
        if self._must_cancel:
            self._must_cancel = False
            if not isinstance(error, asyncio.CancelledError):
                error = asyncio.CancelledError(*self._cancel_args)
        self._fut_waiter = None
        _enter_task(loop, self)  # type: ignore[arg-type]
        try:
            pending = work.send(None) if error is None else work.throw(error)
        except StopIteration:
            self._context = None
            if self._must_cancel:
                super().cancel()
            else:
                _end(self, None)
        except BaseException as raised:  # noqa: BLE001 - as above
            self._context = None
            self._fail(raised)
        else:
            self._wait_for(pending)
        finally:
            _leave_task(loop, self)  # type: ignore[arg-type]

    def _fail(self, error: BaseException) -> None:
        if isinstance(error, asyncio.CancelledError):
            super().cancel()
        else:
            super().set_exception(error)

    def _wait_for(self, pending: Any) -> None:
        """Resume when the yielded future is done; a bare yield lets the loop turn once."""
        if pending is None:
            self._loop.call_soon(self._step, context=self._context)
            return
        try:
            self._attach(pending)
        except BaseException as error:  # noqa: BLE001 - what the work waits for is its own: so is what that raises
            self._loop.call_soon(self._step, error, context=self._context)
            return
        self._fut_waiter = pending
        if self._must_cancel and self._cancels(pending):
            self._must_cancel = False

    def _attach(self, pending: Any) -> None:
        if not getattr(pending, "_asyncio_future_blocking", False) or pending is self:
            raise RuntimeError(f"a task cannot wait for {type(pending).__name__}")
        if pending.get_loop() is not self._loop:
            raise RuntimeError("a task cannot wait for a future of another event loop")
        pending._asyncio_future_blocking = False  # noqa: SLF001 - the protocol between tasks and futures
        pending.add_done_callback(self._wake, context=self._context)

    def _cancels(self, pending: Any) -> bool:
        """Cancel the awaited future. Returns False if that is impossible."""
        try:
            return bool(pending.cancel(*self._cancel_args))
        except BaseException:  # noqa: BLE001 - as above; who cancels has other tasks to look after
            return False

    def _wake(self, done: asyncio.Future[Any]) -> None:
        try:
            done.result()
        except BaseException as error:  # noqa: BLE001 - handed to the work, which waited for it
            self._step(error)
        else:
            self._step()

    # What others ask of a task

    def cancel(self, msg: Any | None = None) -> bool:
        """Raise CancelledError in the work when it resumes. Returns False if it is done."""
        if self.done():
            return False
        self.cancels += 1
        self._cancel_args = () if msg is None else (msg,)
        if self._fut_waiter is None or not self._cancels(self._fut_waiter):
            self._must_cancel = True
        return True

    def cancelling(self) -> int:
        """Return ``cancels``."""
        return self.cancels

    def uncancel(self) -> int:
        """Undo one cancellation."""
        self.cancels = max(0, self.cancels - 1)
        return self.cancels

    def get_coro(self) -> Coroutine[Any, Any, None] | None:
        """Return the work."""
        return self._coro

    def get_context(self) -> Context | None:
        """Return the context that the work runs in; None once it is done."""
        return self._context

    def get_stack(self, *, limit: int | None = None) -> list[FrameType]:
        """Return the frames of the work, for tools that list all tasks."""
        found: list[FrameType] = base_tasks._task_get_stack(self, limit)  # type: ignore[arg-type]  # noqa: SLF001 - as Task does
        return found

    def print_stack(self, *, limit: int | None = None, file: TextIO | None = None) -> None:
        """Print the frames of the work."""
        base_tasks._task_print_stack(self, limit, file)  # type: ignore[arg-type]  # noqa: SLF001 - as Task does

    def get_name(self) -> str:
        """Return the name."""
        return self._name or f"call-{id(self):x}"

    def set_name(self, value: object) -> None:
        """Set the name."""
        self._name = str(value)

    def set_result(self, result: object) -> NoReturn:  # noqa: ARG002 - the signature of a task
        """Refuse: only its work ends a task."""
        raise RuntimeError("a task does not take a result")

    def set_exception(self, exception: object) -> NoReturn:  # noqa: ARG002 - as above
        """Refuse: only its work ends a task."""
        raise RuntimeError("a task does not take an exception")


T = TypeVar("T")


class Stage(Enum):
    """Stages of a call."""

    RUNNING = "running"
    LATE = "late"  # its deadline passed, and it was cancelled
    VOID = "void"  # its thread was closed or the server stops, and it was cancelled
    OVER = "over"  # none waits for it any more, though its task may still run


class Keeper(Protocol[T]):
    """Owner of calls that have to be waited for."""

    @property
    def grace(self) -> float:
        """Seconds that a call has to end once it is cancelled; then it is abandoned."""

    def watch(self, call: RunningCall[T]) -> None:
        """Call ``expire`` of a call at its deadline."""

    def abandon(self, call: RunningCall[T]) -> None:
        """Stop waiting for a call that does not end."""


class RunningCall(PromptTask, Generic[T]):
    """Call of a handler. Its result counts if it comes before the deadline and before a cancellation.

    ``loop_deadline`` is the deadline by the loop's clock, set once the call has to be waited for: the keeper calls
    ``expire`` then. ``deadline`` is the same by ``time.monotonic()``, from the start. ``epoch`` is the one of its
    conversation's claim at the start.

    Args:
        keeper: its owner, which a call may need in its first step: a handler can close its own thread there.
        loop: the event loop that runs.
        listener: whose handler it is.
        delivery: that it is called with.
    """

    # Most calls end before any of these but the outcome is set.
    outcome: T | None = None
    stage = Stage.RUNNING
    loop_deadline = 0.0
    epoch = 0
    _ended: asyncio.Future[None] | None = None
    _giving_up: asyncio.TimerHandle | None = None

    def __init__(
        self, keeper: Keeper[T], loop: asyncio.AbstractEventLoop, listener: Listener, delivery: Delivery
    ) -> None:
        super().__init__(loop=loop)
        self._keeper = keeper
        self.listener = listener
        self.delivery = delivery
        self.deadline = monotonic() + listener.deadline

    @property
    def stopped(self) -> bool:
        """True once it was cancelled."""
        return self.stage is not Stage.RUNNING

    async def wait_end(self) -> Stage:
        """Wait until the call ends or is abandoned. Returns its stage. Cancelling the waiter cancels the call."""
        self._ended = self._loop.create_future()
        self.loop_deadline = self._loop.time() + self.deadline - monotonic()
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

    def take_result(self, result: T) -> None:
        """Record the result. A handler that never yielded is late all the same after its deadline."""
        self.outcome = result
        if self.stage is Stage.RUNNING and monotonic() > self.deadline:
            self.stage = Stage.LATE
        if self._ended is not None:
            self._end()

    def stop(self) -> None:
        """Cancel the call; its result is void."""
        if self.stage is Stage.RUNNING:
            self._stop(Stage.VOID)
        elif self.stage is Stage.LATE:
            self.stage = Stage.VOID

    def expire(self) -> None:
        """Cancel the call at its deadline, unless that is done already."""
        if self.stage is Stage.RUNNING:
            self._stop(Stage.LATE)

    def _stop(self, stage: Stage) -> None:
        self.stage = stage
        self._giving_up = self._loop.call_later(self._keeper.grace, self._give_up)
        self.cancel()
        self.add_done_callback(lambda _: self._end())  # cancelled, it may report nothing

    def _spare(self) -> None:
        """Cancel the timer that would abandon the call."""
        if self._giving_up is not None:
            self._giving_up.cancel()

    def _give_up(self) -> None:
        if self._ended is not None and not self._ended.done():
            self._keeper.abandon(self)
            self._end()

    def _end(self) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)
