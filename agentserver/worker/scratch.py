"""The folder that one worker writes to: made, bounded, emptied and removed.

Owns the question of whether it was touched, which costs the event loop one look at what the system has in memory, and
the choice between the two ways to bound it. Refuses to know who writes. What is not said to be for the event loop reads
or changes files.
"""

from __future__ import annotations

import logging
import os
import tempfile
import time
from pathlib import Path

from agentserver.worker.tree import FOLDER, MOST_FILES, clear, measure, unlinked

__all__ = ["UNBOUNDED", "Scratch"]

UNBOUNDED = (
    "this system gives a process no file system of its own (user namespaces are switched off or restricted)"
)

TICK = 50_000_000
"""Nanoseconds by which the times that a file system writes may be behind, several times over."""
ROUNDED = 1 << 16
"""Bytes by which a file system rounds up what is written, and what it keeps of its own for it.

The kernel refuses to write beyond the limit: the process that it refused has a file of that size, and continues."""
MOST_REMOVED = 4 * MOST_FILES
"""Files that are removed between two calls, while the process may go on making some."""

logger = logging.getLogger("agentserver.worker")


class Scratch:
    """A fresh folder. Raises OSError when there is no room for it."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="agentserver-")).resolve()
        self._place = os.open(self.path, FOLDER)
        self._unchanged: int | None = None
        self.bounded = False
        """True once the process has a file system of its own here: the kernel bounds what it holds."""

    def adopt(self, pid: int) -> None:
        """Take the file system that a process has mounted here for itself, if it has one.

        Raises OSError when it cannot be reached, or the process is gone.
        """
        place = os.open(f"/proc/{pid}/root{self.path}", FOLDER)
        if os.fstat(place).st_dev == os.fstat(self._place).st_dev:
            os.close(place)
            return
        os.close(self._place)
        self._place, self.bounded = place, True

    @property
    def touched(self) -> bool:
        """False when nothing can have been made in it since it was seen to be empty. For the event loop."""
        return os.fstat(self._place).st_mtime_ns != self._unchanged

    def empty(self) -> None:
        """Remove everything in it. Raises OSError."""
        changed = os.fstat(self._place).st_mtime_ns
        found = clear(self._place, MOST_REMOVED)
        # What is made within one tick of the file system's clock leaves the folder's time as it was.
        settled = time.time_ns() - changed > TICK
        self._unchanged = changed if settled and not found else None

    def breach(self, disk: int, *pids: int) -> str:
        """The reason why processes keep too much in it; empty while they do not, and when the kernel bounds them.

        Args:
            disk: bytes that they may keep, and that one file may have.
            pids: of the processes.
        """
        if self.bounded:
            return ""
        most = disk + ROUNDED
        found = [measure(self._place, most), *(unlinked(pid, self.path, disk) for pid in pids)]
        if sum(each.bytes for each in found) > most:
            return f"it wrote more than {disk} bytes"
        return next((each.breach for each in found if each.breach), "")

    def remove(self) -> None:
        """Remove it; says so when something is left."""
        try:
            clear(self._place)
            self.path.rmdir()
        except OSError as error:
            logger.error("%s is left behind: %s", self.path, error)  # noqa: TRY400 - the system's own words say it
        finally:
            os.close(self._place)
