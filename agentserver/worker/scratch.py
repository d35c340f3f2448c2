"""Scratch folders of workers, measured and removed by descriptors, regardless of their depth and modes.

The walk follows no link, reopens nothing by a name that could have been swapped, and does not recurse: a process can
nest folders arbitrarily. Everything here blocks, and must not run on the event loop.
"""

from __future__ import annotations

import errno
import logging
import os
import secrets
import stat
import tempfile
import time
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "DEEPEST",
    "FOLDER",
    "MOST_FILES",
    "UNBOUNDED",
    "Measure",
    "Scratch",
    "clear",
    "measure",
    "measure_unlinked",
]

MOST_FILES = 10_000
DEEPEST = 64
"""Folders in one another that are measured; each costs two descriptors meanwhile."""
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NAME = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_BATCH = 1_000
_BLOCK = 512
_GONE = (FileNotFoundError, NotADirectoryError, ProcessLookupError)


class Measure(NamedTuple):
    """The size of a tree as far as it was walked.

    Args:
        bytes: on disk.
        breach: the reason why the walk ended early; empty for a whole tree.
    """

    bytes: int
    breach: str = ""


def measure(place: int, maximum: int) -> Measure:
    """Measure what lies below a folder; the walk ends once it is known to be too much.

    Args:
        place: a descriptor of the folder.
        maximum: bytes.
    """
    total = 0
    try:
        for seen, each in enumerate(_walk_sizes(place), 1):
            total += each
            if total > maximum:
                break
            if seen > MOST_FILES:
                return Measure(total, f"it made more than {MOST_FILES} files and folders")
    except _DeepError:
        return Measure(total, f"it nested folders more than {DEEPEST} deep")
    except OSError as error:
        return Measure(total, f"its folder cannot be measured: {error.strerror}")
    return Measure(total)


class _DeepError(Exception):
    """A folder lies deeper than is walked."""


def _walk_sizes(place: int) -> Iterator[int]:
    """Yield the bytes of each entry. Raises OSError for an unreadable folder, _DeepError."""
    levels = [_Level(".", place)]
    try:
        while levels:
            entry = next(levels[-1].entries, None)
            if entry is None:
                levels.pop().close()
                continue
            with suppress(*_GONE):  # meanwhile
                yield from _visit(entry, levels)
    finally:
        for level in levels:
            level.close()


def _visit(entry: os.DirEntry[str], levels: list[_Level]) -> Iterator[int]:
    """Return the bytes of an entry, and descend into a folder."""
    found = entry.stat(follow_symlinks=False)
    yield found.st_blocks * _BLOCK
    if stat.S_ISDIR(found.st_mode):
        if len(levels) > DEEPEST:
            raise _DeepError
        levels.append(_Level(entry.name, levels[-1].folder))


class _Level:
    """A folder that is being walked. Raises OSError when it cannot be read."""

    def __init__(self, name: str, place: int) -> None:
        self.folder = os.open(name, FOLDER, dir_fd=place)
        self.entries = os.scandir(self.folder)

    def close(self) -> None:
        """Close its descriptors."""
        self.entries.close()
        os.close(self.folder)


def measure_unlinked(pid: int, below: Path, largest: int) -> Measure:
    """Measure the files of a process that have no name any longer, but that it has open or mapped.

    Args:
        pid: of the process; an ended one holds nothing.
        below: the folder in which it makes files.
        largest: bytes of one file. One that is only mapped counts as that many, since it cannot be inspected.
    """
    try:
        opened = dict(_list_open(Path(f"/proc/{pid}/fd")))
        mapped = set(_list_mapped(Path(f"/proc/{pid}/maps").read_text(errors="replace"), str(below)))
    except _GONE:
        return Measure(0)
    except OSError as error:
        return Measure(0, f"its open files cannot be measured: {error.strerror}")
    return Measure(sum(opened.values()) + len(mapped - opened.keys()) * largest)


def _list_open(folder: Path) -> Iterator[tuple[int, int]]:
    """Yield the inode and the bytes of each unlinked file that is open."""
    for each in folder.iterdir():
        with suppress(*_GONE):
            found = each.stat()
            if stat.S_ISREG(found.st_mode) and not found.st_nlink:
                yield found.st_ino, found.st_blocks * _BLOCK


def _list_mapped(maps: str, below: str) -> Iterator[int]:
    """Yield the inode of each unlinked file that is mapped (proc(5))."""
    for line in maps.splitlines():
        _, _, _, _, inode, *path = line.split(maxsplit=5)
        if path and path[0].startswith(below) and path[0].endswith(" (deleted)"):
            yield int(inode)


def clear(place: int, maximum: int | None = None) -> bool:
    """Remove the content of a folder; True if it had any.

    The folders in it are moved up to it one by one, so that nothing is ever removed from more than one level below.

    Args:
        place: a descriptor of the folder.
        maximum: maximum number of entries, in case a process keeps making some; None for all.

    Raises OSError if something cannot be removed, or if there are more.
    """
    removed = 0
    while names := _collect_names(place):
        removed += len(names)
        if maximum is not None and removed > maximum:
            raise OSError(errno.EBUSY, f"more than {maximum} files and folders")
        for name in names:
            with suppress(FileNotFoundError):
                _remove(name, place)
    return removed > 0


def _collect_names(place: int) -> list[str]:
    with os.scandir(place) as entries:
        return [entry.name for entry in islice(entries, _BATCH)]


def _remove(name: str, place: int) -> None:
    """Remove a file, or a folder once its own folders have been moved up to ``place``."""
    if not _open_up(name, place):
        os.unlink(name, dir_fd=place)
        return
    folder = os.open(name, FOLDER, dir_fd=place)
    try:
        while names := _collect_names(folder):
            for inner in names:
                _take_out(inner, folder, place)
    finally:
        os.close(folder)
    os.rmdir(name, dir_fd=place)


def _take_out(name: str, folder: int, place: int) -> None:
    """Remove a file, or move a folder up to ``place``."""
    if _open_up(name, folder):
        os.rename(name, secrets.token_hex(16), src_dir_fd=folder, dst_dir_fd=place)
    else:
        os.unlink(name, dir_fd=folder)


def _open_up(name: str, place: int) -> bool:
    """Make a folder accessible to this process; False for any other file."""
    seen = os.open(name, _NAME, dir_fd=place)
    try:
        mode = os.fstat(seen).st_mode
        if stat.S_ISDIR(mode) and mode & stat.S_IRWXU != stat.S_IRWXU:
            os.chmod(f"/proc/self/fd/{seen}", stat.S_IRWXU)  # noqa: PTH101 - by descriptor, not by a name
        return stat.S_ISDIR(mode)
    finally:
        os.close(seen)


UNBOUNDED = (
    "this system gives a process no file system of its own (user namespaces are switched off or restricted)"
)

TICK = 50_000_000
"""Nanoseconds by which the times that a file system writes may be behind, several times over."""
ROUNDED = 1 << 16
"""Overhead of a file system in bytes: rounding and metadata.

The kernel refuses writes beyond the limit; the process then has a file of that size, and continues."""
MOST_REMOVED = 4 * MOST_FILES
"""Files that are removed between two calls; the process may keep making some."""

logger = logging.getLogger("agentserver.worker")


class Scratch:
    """A fresh folder. Raises OSError when there is no room for it."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="agentserver-")).resolve()
        self._place = os.open(self.path, FOLDER)
        self._unchanged: int | None = None
        self.bounded = False
        """True once the process has its own file system here, whose size the kernel limits."""

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
        # A change within one tick of the file system's clock leaves the folder's time as it was.
        settled = time.time_ns() - changed > TICK
        self._unchanged = changed if settled and not found else None

    def describe_breach(self, disk: int, *pids: int) -> str:
        """Describe how processes exceed its limit; empty within the limit, and where the kernel enforces it.

        Args:
            disk: bytes in total, and of one file.
            pids: of the processes.
        """
        if self.bounded:
            return ""
        maximum = disk + ROUNDED
        found = [measure(self._place, maximum), *(measure_unlinked(pid, self.path, disk) for pid in pids)]
        if sum(each.bytes for each in found) > maximum:
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
