"""The process of a command: its signals and end, its log, and its cycle collector.

Python runs signal handlers between two instructions of the main thread, which a blocking call delays; the number of a
signal is written to a pipe at once. The thread that reads the pipe also keeps the time. Only code that never releases
the interpreter's lock can keep it from running.
"""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import os
import select
import signal
import sys
import termios
import threading
import time
import traceback
import warnings
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TextIO

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from types import FrameType, TracebackType
    from typing import NoReturn

    from agentserver.config.yaml.secrets import Secrets


class ExitCode(IntEnum):
    """Exit codes of all verbs; the help of the root command explains them. The code for success is 0."""

    FOUND = 1
    UNUSABLE = 2
    SILENT = 3
    WAITING = 4
    STALLED = 70
    INTERRUPTED = 130


HANDLED = (signal.SIGINT, signal.SIGTERM)

LAST = 0.8
"""Seconds that everything after the drain may take before the process is killed."""

_NOTED = 0x80
"""Flag on the number of a signal that the Python handler reports after the wake-up descriptor did."""

_BREATH = 0.01
"""Seconds for which the main thread releases the interpreter on a signal, so that the thread can run."""


PLAIN_PASTE = b"\x1b[?2004l"
"""Ends the bracketed paste mode that a prompt has enabled."""


class Terminal(NamedTuple):
    """Terminal at standard input, with the mode it had at the start."""

    descriptor: int
    mode: list[int | list[bytes | int]]

    def restore(self) -> None:
        """Undo the changes of a prompt, unless another process has the terminal now, which would stop this one."""
        with contextlib.suppress(OSError, termios.error):
            own = os.tcgetpgrp(self.descriptor) == os.getpgrp()
            if own and termios.tcgetattr(self.descriptor) != self.mode:
                termios.tcsetattr(self.descriptor, termios.TCSANOW, self.mode)
                os.write(self.descriptor, PLAIN_PASTE)


def _open_terminal() -> Terminal | None:
    descriptor = 0
    try:
        return Terminal(descriptor, termios.tcgetattr(descriptor))
    except termios.error:
        return None


class GracefulEnd:
    """Context manager around a session, which passes the first signal to it and ends the process with the next.

    A session that ignores a signal is killed after the drain.

    Args:
        drain: seconds that a session may take to end.
        before: called before the process is killed; must not wait for the event loop.
    """

    def __init__(self, drain: float, before: Callable[[], None] = lambda: None) -> None:
        import asyncio

        self._drain = drain
        self._before = before
        self._signals: asyncio.Queue[int] = asyncio.Queue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._owed: set[int] = set()
        self.interrupted = False
        """True after Ctrl-C until the session has acted on it."""
        self._unhandled: tuple[float, int] | None = None  # deadline and status
        self._end: tuple[float, int] | None = None
        self._handlers: dict[int, Any] = {}
        self._terminal = _open_terminal()
        self._reading, self._writing = os.pipe()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        """Install the signal handlers. Must be called in the main thread."""
        from agentserver.supervision import EndEffect, start_thread

        os.set_blocking(self._writing, False)
        self._handlers = {number: signal.signal(number, self._note) for number in HANDLED}
        self._wakeup = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        os.register_at_fork(
            before=self._fork, after_in_parent=self._unblock, after_in_child=self._reset_child
        )
        self._thread = start_thread(
            "waits for signals", EndEffect.SERVER, self._watch, lambda _: self._leave(ExitCode.STALLED)
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restore the signal handlers."""
        signal.set_wakeup_fd(self._wakeup)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handlers = {}
        os.close(self._writing)
        if self._thread is not None:
            self._thread.join()
        os.close(self._reading)

    async def run(self, session: Callable[[], Awaitable[int]]) -> int:
        """Await a session; then give the rest of the event loop LAST seconds."""
        status = 1
        try:
            status = await session()
        finally:
            self._limit(status, LAST)
        return status

    # For the session

    async def signals(self) -> AsyncIterator[int]:
        """Yield the signals that the session has to act on."""
        import asyncio

        self._loop = asyncio.get_running_loop()
        while True:
            number = await self._signals.get()
            self._unhandled = None
            yield number
            self.interrupted = False

    def begin(self, status: int) -> None:
        """Begin to end the session: the process ends after the drain, or with the next signal, at the latest."""
        self._limit(status, self._drain + LAST)

    def _limit(self, status: int, seconds: float) -> None:
        until = time.monotonic() + seconds
        self._end = (until if self._end is None else min(until, self._end[0]), status)
        with contextlib.suppress(BlockingIOError):
            os.write(self._writing, b"\0")

    # The main thread

    def _note(self, number: int, _frame: FrameType | None) -> None:
        """Notify the thread, also while a prompt has taken the wake-up descriptor."""
        self.interrupted |= number == signal.SIGINT
        with contextlib.suppress(BlockingIOError):
            os.write(self._writing, bytes([number | _NOTED]))
        select.select([], [], [], _BREATH)

    def _fork(self) -> None:
        """Block signals: none may reach a child while it still shares the pipe."""
        self._blocked = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED if self._handlers else ())

    def _unblock(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._blocked)

    def _reset_child(self) -> None:
        """Restore the default handlers in a child, which has no host."""
        if self._handlers:
            signal.set_wakeup_fd(-1)
            for number in HANDLED:
                signal.signal(number, signal.SIG_DFL)
        self._unblock()

    # The thread

    def _watch(self) -> None:
        while True:
            due = min(filter(None, (self._unhandled, self._end)), default=None)
            remaining = None if due is None else max(0.0, due[0] - time.monotonic())
            ready, _, _ = select.select([self._reading], [], [], remaining)
            if due is not None and not ready:
                if due not in (self._unhandled, self._end):
                    continue  # the session has received the signal in the meantime
                self._leave(due[1])
                return
            data = os.read(self._reading, 1)
            if not data:
                return
            number, noted = data[0] & ~_NOTED, bool(data[0] & _NOTED)
            if number not in HANDLED:
                continue
            if not (noted and number in self._owed):
                self._handle_signal(number)
            (self._owed.discard if noted else self._owed.add)(number)

    def _handle_signal(self, number: int) -> None:
        if self._loop is None or self._unhandled is not None or self._end is not None:
            self._leave(128 + number)
            return
        self._unhandled = (time.monotonic() + self._drain + LAST, 128 + number)
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            self._loop.call_soon_threadsafe(self._signals.put_nowait, number)

    def _leave(self, status: int) -> None:
        self._before()
        self.leave(status)

    def leave(self, status: int) -> NoReturn:
        """End the process at once."""
        end_process(status, self._terminal)


def exit_after_main(status: int) -> None:
    """End the process soon after its main thread, even if other threads still run."""

    def wait() -> None:
        threading.main_thread().join()
        time.sleep(LAST)
        end_process(status)

    threading.Thread(target=wait, name="ending", daemon=True).start()


def end_process(status: int, terminal: Terminal | None = None) -> NoReturn:
    """End the process at once, after a short attempt to flush logs and output.

    The terminal gets back the mode it had.
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


class Level(StrEnum):
    """Lowest severity that is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Format(StrEnum):
    """Format of log records."""

    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Logging:
    """Logging settings of the command line."""

    level: Level = Level.WARNING
    format: Format = Format.TEXT


MARGIN = "  | "
"""Mark before each line of a traceback, so that it cannot pass for a record."""

_EXTRAS = {"conversation": "conversation", "thread": "thread_id"}
"""Subjects of a record, and the attribute that names each; ``thread`` belongs to logging."""


def _format_time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


class TextFormatter(logging.Formatter):
    """Formatter that writes time, level, logger, message, and the conversation and thread if known."""

    def format(self, record: logging.LogRecord) -> str:
        """Format the message as one line, with the traceback below it behind a margin."""
        from agentserver.trace.terminal import cut, split_visible_lines

        subjects = " ".join(f"{key}={value}" for key, value in _iter_subjects(record))
        text = f"{_format_time(record)} {record.levelname:7} {record.name}: {record.getMessage()}"
        below = (
            f"{MARGIN}{line}"
            for part in _collect_traceback_parts(self, record)
            for line in split_visible_lines(part)
        )
        return "\n".join([cut(f"{text} [{subjects}]" if subjects else text), *below])


class JsonFormatter(logging.Formatter):
    """Formatter that writes one JSON object per line, with the subjects and the traceback if there are any."""

    def format(self, record: logging.LogRecord) -> str:
        """Format the record as an object."""
        fields = {
            "time": _format_time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **dict(_iter_subjects(record)),
        }
        tail = "\n".join(_collect_traceback_parts(self, record))
        return json.dumps({**fields, "traceback": tail} if tail else fields)


def _iter_subjects(record: logging.LogRecord) -> Iterator[tuple[str, str]]:
    return ((key, str(getattr(record, name))) for key, name in _EXTRAS.items() if hasattr(record, name))


def _collect_traceback_parts(formatter: logging.Formatter, record: logging.LogRecord) -> list[str]:
    traced = record.exc_text or (formatter.formatException(record.exc_info) if record.exc_info else "")
    return [part for part in (traced, record.stack_info) if part]


class _StandardError(logging.StreamHandler[TextIO]):
    """Handler that writes to the current standard error, which a prompt replaces while it runs.

    A prompt writes through the event loop, so a report that the loop is blocked bypasses it.
    """

    def emit(self, record: logging.LogRecord) -> None:
        if sys.stderr is sys.__stderr__ or not getattr(record, "held", False):
            super().emit(record)
        elif sys.__stderr__ is not None:
            sys.__stderr__.write(f"\n{self.format(record)}\n")
            sys.__stderr__.flush()

    @property
    def stream(self) -> TextIO:
        return sys.stderr

    @stream.setter
    def stream(self, value: TextIO) -> None:
        """Ignore the one assignment of the base class."""


def _format_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """Format a warning on one line, without the line of source that Python adds."""
    del line
    return f"{filename}:{lineno}: {category.__name__}: {message}"


def configure(options: Logging, secrets: Secrets) -> logging.Handler:
    """Log to standard error from now on, and redact uncaught exceptions too. Returns the handler."""
    from agentserver.config.yaml.secrets import RedactingFilter
    from agentserver.trace.terminal import split_visible_lines  # imported before an error needs it

    handler = _StandardError()
    handler.setFormatter(JsonFormatter() if options.format is Format.JSON else TextFormatter())
    redacting = RedactingFilter(secrets)
    handler.addFilter(redacting)
    logging.basicConfig(level=options.level.upper(), handlers=[handler], force=True)
    logging.getLogger("agentserver.http.access").setLevel(logging.INFO)  # it logs where the YAML asks for it
    if options.level != "debug":
        logging.getLogger("httpx").setLevel(logging.WARNING)  # a line for each request, such as of spans
    logging.captureWarnings(True)
    warnings.formatwarning = _format_warning

    def uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        text = redacting.redact("".join(traceback.format_exception(kind, error, trace)).rstrip("\n"))
        sys.stderr.write("".join(f"{line}\n" for line in split_visible_lines(text)))

    sys.excepthook = uncaught
    return handler


def hide_secrets(secrets: Secrets) -> None:
    """Redact further secrets from later log records."""
    from agentserver.config.yaml.secrets import RedactingFilter

    for handler in logging.getLogger().handlers:
        for each in handler.filters:
            if isinstance(each, RedactingFilter):
                each.hide(secrets)


def is_no_hop(record: logging.LogRecord) -> bool:
    """Filter out the events of a conversation, which a live view of hops already shows."""
    return record.name != "agentserver.pump" or not hasattr(record, "event")


SELDOM: Final = 100_000
"""Threshold of the youngest generation while a command starts."""

USUAL: Final = 2000
"""Threshold while a server runs. With 64 conversations at work, CPython's default of 700 promotes so many objects of
running steps that collecting them costs half as much again; a pause takes 2 to 3 ms."""


def collect_rarely() -> None:
    """Collect rarely while the command starts."""
    gc.set_threshold(SELDOM)


def collect_as_usual() -> None:
    """Freeze what the start has made, and collect as often as usual while the server runs.

    Does nothing unless ``collect_rarely`` was called.
    """
    if gc.get_threshold()[0] == SELDOM:
        gc.freeze()
        gc.set_threshold(USUAL)


def unfreeze_replaced() -> None:
    """Let the collector free what a reload has replaced."""
    gc.unfreeze()


def freeze_at_exit() -> None:
    """Freeze everything before the process exits."""
    gc.freeze()
