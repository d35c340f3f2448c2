"""One worker's process: its socket, what it has used, and its end.

Owns the process. Refuses to know what is asked of it.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from dataclasses import InitVar, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentserver.worker.channel import FrameSocket
from agentserver.worker.frames import FrameError

if TYPE_CHECKING:
    import socket

    from agentserver.worker import frames
    from agentserver.worker.channel import Heard
    from agentserver.worker.scratch import Scratch

__all__ = ["Worker", "WorkerError"]

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
    calls: int = 0
    lines: int = 0
    cleaning: asyncio.Task[None] | None = None
    breach: str = ""

    def __post_init__(self, end: socket.socket, longest: int) -> None:
        self._channel = FrameSocket(end, longest, self._hear)
        self._heard: list[Heard] = []
        self._waiting: asyncio.Future[None] | None = None
        self._began = 0, 0.0

    def _hear(self, heard: Heard) -> None:
        self._channel.rest()
        self._heard.append(heard)
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def read(self) -> frames.Frame:
        """The next frame. Raises WorkerError at the end of the process, and for a frame that is none."""
        if not self._heard:
            self._waiting = asyncio.get_running_loop().create_future()
            self._channel.listen()
            await self._waiting
        heard = self._heard.pop()
        if isinstance(heard, FrameError):
            raise WorkerError(f"it sent {heard}")
        if heard is None:
            self.kill()
            status = await self.process.wait()
            raise WorkerError(self.breach or f"it ended with status {status} in the middle of a call")
        return heard

    async def write(self, frame: frames.Frame) -> None:
        """Send a frame. Raises WorkerError when there is nobody to take it."""
        try:
            await self._channel.write(frame)
        except OSError as error:
            raise WorkerError(self.breach or f"it does not listen: {error}") from None

    @property
    def gone(self) -> bool:
        """True once it is known to have ended, or to have said what it was not asked for."""
        return self._channel.spent

    def kill(self) -> None:
        """End it at once, by a descriptor: the number may be another's by now, and asyncio waits for the end itself."""
        with suppress(ProcessLookupError):
            if self.handle != CLOSED:
                signal.pidfd_send_signal(self.handle, signal.SIGKILL)

    def close(self) -> None:
        """Let go of its socket and its descriptor."""
        self._channel.close()
        handle, self.handle = self.handle, CLOSED  # the number may be another process's by now
        os.close(handle)

    def taken(self, call: int, cpu: float, disk: int) -> str:
        """The reason why its call has taken too much; empty while it has not. Reads files: not for the event loop.

        Args:
            call: which of its calls is meant, from 1; its processor time counts from the first look at it.
            cpu: seconds of processor time.
            disk: bytes that may be written at one time.
        """
        used = self.used()
        if self._began[0] != call:
            self._began = call, used
        if used - self._began[1] > cpu:
            return f"it took more than {cpu:g} s of processor time"
        if self.threads() > THREADS:
            return f"it started more than {THREADS} threads"
        return "" if self.scratch is None else self.scratch.breach(disk, self.process.pid)

    def used(self) -> float:
        """Seconds of processor time so far; none when it is gone."""
        try:
            text = Path(f"/proc/{self.process.pid}/stat").read_text()
        except OSError:
            return 0.0
        user, system = text.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def threads(self) -> int:
        """The threads that it has."""
        try:
            text = Path(f"/proc/{self.process.pid}/stat").read_text()
        except OSError:
            return 0
        return int(text.rpartition(")")[2].split()[17])
