"""One worker's process: its socket, what it has used, and its end.

Owns the process. Refuses to know what is asked of it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from agentserver.worker.frames import PIECE, FrameError, FrameReader, pack

if TYPE_CHECKING:
    import socket

    from agentserver.worker import frames

__all__ = ["Worker", "WorkerError", "empty", "folder", "remove"]


THREADS = 64
MOST_FILES = 10_000


class WorkerError(Exception):
    """A worker does not start, or is gone; the message says why, for the log."""


@dataclass(eq=False)
class Worker:
    """One process with its socket."""

    process: asyncio.subprocess.Process
    handle: int
    end: socket.socket
    reader: FrameReader
    scratch: Path | None
    turns: asyncio.Lock = field(default_factory=asyncio.Lock)
    calls: int = 0
    lines: int = 0
    began: float | None = None
    cleaning: asyncio.Task[None] | None = None
    breach: str = ""

    async def read(self) -> frames.Frame:
        """The next frame. Raises WorkerError at the end of the process, and for a frame that is none."""
        loop = asyncio.get_running_loop()
        try:
            while (frame := self.reader.next()) is None:
                data = await loop.sock_recv(self.end, PIECE)
                if not data:
                    raise ConnectionResetError
                self.reader.feed(data)
        except FrameError as error:
            raise WorkerError(f"it sent {error}") from None
        except OSError:
            self.kill()
            status = await self.process.wait()
            raise WorkerError(
                self.breach or f"it ended with status {status} in the middle of a call"
            ) from None
        return frame

    async def write(self, frame: frames.Frame) -> None:
        """Send a frame. Raises WorkerError when there is nobody to take it."""
        try:
            async with self.turns:
                await asyncio.get_running_loop().sock_sendall(self.end, pack(frame))
        except OSError as error:
            raise WorkerError(self.breach or f"it does not listen: {error}") from None

    def kill(self) -> None:
        """End it at once, by a descriptor: the number may be another's by now, and asyncio waits for the end itself."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.handle, signal.SIGKILL)

    def close(self) -> None:
        """Let go of its socket and its descriptor."""
        self.end.close()
        os.close(self.handle)

    def taken(self, cpu: float, disk: int) -> str:
        """The reason why its call has taken too much; empty while it has not. Reads files: not for the event loop."""
        if self.began is None:  # the first look at this call
            self.began = self.used()
        if self.used() - self.began > cpu:
            return f"it took more than {cpu:g} s of processor time"
        if self.threads() > THREADS:
            return f"it started more than {THREADS} threads"
        if self.scratch is not None and _size(self.scratch, disk) + _unlinked(self.process.pid) > disk:
            return f"it wrote more than {disk} bytes"
        return ""

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


def _size(folder: Path, most: int) -> int:
    """Bytes below a folder; at least one more than ``most`` when it holds too many files to count."""
    total = 0
    for seen, (place, _, names) in enumerate(os.walk(folder)):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_blocks * 512  # noqa: PTH118 - text in, text out
            except OSError:
                continue
        if seen + len(names) > MOST_FILES:
            return most + 1
        if total > most:
            break
    return total


def _unlinked(pid: int) -> int:
    """Bytes of the open files of a process that no folder names any more."""
    total = 0
    with suppress(OSError):
        for each in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                found = each.stat()
                total += found.st_blocks * 512 if stat.S_ISREG(found.st_mode) and not found.st_nlink else 0
    return total


def folder() -> Path:
    """A fresh folder for one worker. Not for the event loop."""
    return Path(tempfile.mkdtemp(prefix="agentserver-"))


def empty(folder: Path) -> None:
    """Remove everything in a folder. Not for the event loop."""
    for each in folder.iterdir():
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each, ignore_errors=True)
        else:
            each.unlink(missing_ok=True)


def remove(folder: Path) -> None:
    """Remove a folder. Not for the event loop."""
    shutil.rmtree(folder, ignore_errors=True)
