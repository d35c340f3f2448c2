"""The end of a process that serves, also against its handlers.

Owns the process's signals and the thread that hears them, also while the event loop is held. Refuses to know what
a session does when it is told to end.

Python runs handlers of signals between two instructions of the main thread, where a blocking call may keep them
waiting; the number of a signal is written to a pipe at once. The thread that reads it also keeps the time. Only code
that holds the interpreter's lock without a break can keep it from running.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import sys
import termios
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple, Self

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Awaitable, Callable
    from types import FrameType, TracebackType
    from typing import NoReturn

HEARD = (signal.SIGINT, signal.SIGTERM)

LAST = 0.8
"""Seconds that everything after the drain may take; then the process ends as it is."""

STALLED = 70
"""The status of a process that ended because a handler held the event loop for too long (EX_SOFTWARE)."""

_NOTED = 0x80
"""Set on the number of a signal that comes a second time, from between two instructions of the main thread."""

_BREATH = 0.01
"""Seconds for which the main thread lets go of the interpreter when a signal comes, so that the thread may run."""


PLAIN_PASTE = b"\x1b[?2004l"
"""Ends the bracketed paste that a prompt has asked a terminal for."""


class Terminal(NamedTuple):
    """Standard input's terminal, and the mode that it had."""

    descriptor: int
    mode: list[int | list[bytes | int]]

    def restore(self) -> None:
        """Undo what a prompt has done, unless another process has the terminal now, which would stop this one."""
        with contextlib.suppress(OSError, termios.error):
            own = os.tcgetpgrp(self.descriptor) == os.getpgrp()
            if own and termios.tcgetattr(self.descriptor) != self.mode:
                termios.tcsetattr(self.descriptor, termios.TCSANOW, self.mode)
                os.write(self.descriptor, PLAIN_PASTE)


def _terminal() -> Terminal | None:
    descriptor = 0
    try:
        return Terminal(descriptor, termios.tcgetattr(descriptor))
    except termios.error:
        return None


class GracefulEnd:
    """A context manager around a session. Signals are the session's until it ends; then the next one is the process's.

    A session that does not hear a signal has the time of the drain for it; with the next one the process ends at once.

    Args:
        drain: seconds that a session may take to end.
        before: called before the process ends by force; must not wait for the event loop.
    """

    def __init__(self, drain: float, before: Callable[[], None] = lambda: None) -> None:
        import asyncio

        self._drain = drain
        self._before = before
        self._signals: asyncio.Queue[int] = asyncio.Queue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._owed: set[int] = set()
        self._unheard: tuple[float, int] | None = None  # until when, and with which status
        self._end: tuple[float, int] | None = None
        self._handlers: dict[int, Any] = {}
        self._terminal = _terminal()
        self._reading, self._writing = os.pipe()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        """Take the signals. Must be called in the main thread."""
        from agentserver.supervision import Ending, start_thread

        os.set_blocking(self._writing, False)
        self._handlers = {number: signal.signal(number, self._note) for number in HEARD}
        self._wakeup = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        os.register_at_fork(before=self._fork, after_in_parent=self._unblock, after_in_child=self._forked)
        self._thread = start_thread(
            "hears signals", Ending.SERVER, self._watch, lambda _: self._leave(STALLED)
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the signals back."""
        signal.set_wakeup_fd(self._wakeup)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handlers = {}
        os.close(self._writing)
        if self._thread is not None:
            self._thread.join()
        os.close(self._reading)

    async def run(self, session: Callable[[], Awaitable[int]]) -> int:
        """Await a session; what is then left of the loop has LAST seconds."""
        status = 1
        try:
            status = await session()
        finally:
            self._limit(status, LAST)
        return status

    # For the session

    async def signals(self) -> AsyncIterator[int]:
        """The signals that are the session's to deal with, until it begins to end."""
        import asyncio

        self._loop = asyncio.get_running_loop()
        while True:
            number = await self._signals.get()
            self._unheard = None
            yield number

    def begin(self, status: int) -> None:
        """The session ends: the process follows it after the drain, or with the next signal, at the latest."""
        self._limit(status, self._drain + LAST)

    def _limit(self, status: int, seconds: float) -> None:
        until = time.monotonic() + seconds
        self._end = (until if self._end is None else min(until, self._end[0]), status)
        with contextlib.suppress(BlockingIOError):
            os.write(self._writing, b"\0")

    # The main thread

    def _note(self, number: int, _frame: FrameType | None) -> None:
        """Tell the thread, which does not hear of it by itself while a prompt has taken the wake-up descriptor."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._writing, bytes([number | _NOTED]))
        select.select([], [], [], _BREATH)

    def _fork(self) -> None:
        """No signal may reach a child while it still shares the pipe."""
        self._blocked = signal.pthread_sigmask(signal.SIG_BLOCK, HEARD if self._handlers else ())

    def _unblock(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._blocked)

    def _forked(self) -> None:
        """A child has no session: its signals are its own."""
        if self._handlers:
            signal.set_wakeup_fd(-1)
            for number in HEARD:
                signal.signal(number, signal.SIG_DFL)
        self._unblock()

    # The thread

    def _watch(self) -> None:
        while True:
            due = min(filter(None, (self._unheard, self._end)), default=None)
            left = None if due is None else max(0.0, due[0] - time.monotonic())
            ready, _, _ = select.select([self._reading], [], [], left)
            if due is not None and not ready:
                if due not in (self._unheard, self._end):
                    continue  # the session has heard the signal meanwhile
                self._leave(due[1])
                return
            heard = os.read(self._reading, 1)
            if not heard:
                return
            number, noted = heard[0] & ~_NOTED, bool(heard[0] & _NOTED)
            if number not in HEARD:
                continue
            if not (noted and number in self._owed):
                self._hear(number)
            (self._owed.discard if noted else self._owed.add)(number)

    def _hear(self, number: int) -> None:
        if self._loop is None or self._unheard is not None or self._end is not None:
            self._leave(128 + number)
            return
        self._unheard = (time.monotonic() + self._drain + LAST, 128 + number)
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            self._loop.call_soon_threadsafe(self._signals.put_nowait, number)

    def _leave(self, status: int) -> None:
        self._before()
        self.leave(status)

    def leave(self, status: int) -> NoReturn:
        """End the process at once."""
        end_process(status, self._terminal)


def follow(status: int) -> None:
    """Let the process end soon after its main thread, though other threads may still run: they would be waited for."""

    def wait() -> None:
        threading.main_thread().join()
        time.sleep(LAST)
        end_process(status)

    threading.Thread(target=wait, name="ending", daemon=True).start()


def end_process(status: int, terminal: Terminal | None = None) -> NoReturn:
    """End the process at once, with what is logged and printed so far if that can be had without waiting.

    A terminal is left in the mode that it had.
    """
    flushing = threading.Thread(target=_flush, name="flush", daemon=True)
    flushing.start()
    flushing.join(0.2)
    if terminal is not None:
        terminal.restore()
    os._exit(status)


def _flush() -> None:
    for handler in logging.getLogger().handlers:
        handler.flush()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
