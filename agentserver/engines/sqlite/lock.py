"""The journal's files as the operating system knows them: which they are, and the right to write them.

Owns the lock, the names of the files beside the journal, and the look at whether they are still the ones that were
opened. Refuses to know what is in them.
"""

from __future__ import annotations

import fcntl
import os
import struct
import weakref
from typing import TYPE_CHECKING, Final, Self

from agentserver.ports import EngineError

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

LOG, INDEX, HEAD, LOCK = "-wal", "-shm", ".head", ".lock"
"""Suffixes of the journal's name for SQLite's log and its index, for the head, and for the lock."""

_SHARED: Final = struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 0x40000002, 510, 0)
"""A read lock, as fcntl takes it, of the bytes that SQLite locks to have a file for itself."""


def beside(path: Path, suffix: str) -> Path:
    """The file that belongs to a journal: beside the journal's real file, so that every name of it leads there."""
    real = path.resolve()
    return real.with_name(f"{real.name}{suffix}")


class Lock:
    """The right to write a journal, held by one server at a time. The kernel takes it back from one that is killed.

    A file beside the journal's real file is locked, and the journal itself: a symbolic link, another spelling or a
    bind mount is the same journal. One that has several names (hard links) is refused: its log stands beside one.

    A copy of the process (fork) has no part in it: it would keep the journal from the next server.
    """

    def __init__(self, path: Path) -> None:
        self._journal = path
        self._path = beside(path, LOCK)
        self._descriptors: list[int] = []
        held = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _let_go(held()))

    def __enter__(self) -> Self:
        """Take it; the journal's file is made when there is none.

        Raises EngineError when another server has it or it cannot be had.
        """
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            mine = self._open(self._path)
            owner = os.pread(mine, 32, 0).decode("ascii", "replace").strip()
            self._take(mine, f"process {owner}" if owner.isdigit() else "another process")
            os.ftruncate(mine, 0)
            os.pwrite(mine, str(os.getpid()).encode(), 0)
            self._refuse_names()
            # SQLite's own locks are of another kind (fcntl), which this one (flock) does not touch.
            self._take(self._open(self._journal), "another process, under another name")
        except OSError as error:
            self._release()
            raise EngineError(f"{error.filename or self._path}: {error.strerror}") from error
        except EngineError:
            self._release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go of it. SQLite must have closed the journal: closing any descriptor of it drops SQLite's locks."""
        self._release()

    def spare_the_log(self) -> None:
        """Have SQLite remove no log when it closes the journal: the one at that name may be another journal's."""
        fcntl.fcntl(self._descriptors[-1], fcntl.F_OFD_SETLK, _SHARED)

    def _refuse_names(self) -> None:
        """Asked of the name, not of a descriptor, which could not be closed if this process has the file already."""
        names = self._journal.stat().st_nlink if self._journal.exists() else 1
        if names > 1:
            raise EngineError(
                f"{self._journal}: the file has {names} names (hard links), and its log stands beside one of them"
                " only: remove the others"
            )

    def _open(self, path: Path) -> int:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._descriptors.append(descriptor)
        return descriptor

    def _take(self, descriptor: int, owner: str) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if descriptor != self._descriptors[0]:
                self._descriptors.remove(descriptor)  # left open: closing it might drop SQLite's locks
            raise EngineError(
                f"{self._journal} is in use by {owner}: two servers cannot share a journal"
            ) from None

    def _release(self) -> None:
        while self._descriptors:
            os.close(self._descriptors.pop())


def _let_go(held: Lock | None) -> None:
    if held is not None:
        held.__exit__(None, None, None)


class Files:
    """The files of an open journal, which must stay the ones that stand at their names.

    Args:
        path: of the journal; SQLite has read it, so that its log is there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._names = (path, beside(path, LOG), beside(path, INDEX))
        self._opened = self._found()

    def _found(self) -> list[tuple[int, int]]:
        found = [name.stat() for name in self._names]
        return [(each.st_dev, each.st_ino) for each in found]

    def replaced(self) -> EngineError | None:
        """The error to raise when other files stand at the names, or none; None when they are the same."""
        try:
            if self._found() == self._opened:
                return None
            what = "another file was put in its place, or in that of its log,"
        except OSError as error:
            what = f"{error.filename} was removed"
        return EngineError(
            f"{self._path}: {what} while it was in use. Nothing more is kept: put the file back, or restore a copy"
            " (agentserver journal restore), and start again"
        )
