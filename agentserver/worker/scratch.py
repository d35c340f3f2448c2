"""The folder that one worker writes to: made, measured, emptied and removed.

Owns the question of whether it was touched, which costs the event loop one look at what the system has in memory.
Refuses to know who writes. What is not said to be for the event loop reads or changes files.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

__all__ = ["Scratch"]

MOST_FILES = 10_000
TICK = 50_000_000
"""Nanoseconds by which the times that a file system writes may be behind, several times over."""


class Scratch:
    """A fresh folder. Raises OSError when there is no room for it."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="agentserver-"))
        self._place = os.open(self.path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._unchanged: int | None = None

    @property
    def touched(self) -> bool:
        """False when nothing can have been made in it since it was seen to be empty. For the event loop."""
        return os.fstat(self._place).st_mtime_ns != self._unchanged

    def empty(self) -> None:
        """Remove everything in it."""
        changed = os.fstat(self._place).st_mtime_ns
        found = list(self.path.iterdir())
        for each in found:
            if each.is_dir() and not each.is_symlink():
                shutil.rmtree(each, ignore_errors=True)
            else:
                each.unlink(missing_ok=True)
        # What is made within one tick of the file system's clock leaves the folder's time as it was.
        settled = time.time_ns() - changed > TICK
        self._unchanged = changed if settled and not found else None

    def size(self, most: int) -> int:
        """Bytes below it; at least one more than ``most`` when it holds too many files to count."""
        total = 0
        for seen, (place, _, names) in enumerate(os.walk(self.path)):
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

    def remove(self) -> None:
        """Remove it."""
        os.close(self._place)
        shutil.rmtree(self.path, ignore_errors=True)
