"""The lock of a journal, and the identity of its files."""

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
"""Suffixes of SQLite's log and index, of the head file and of the lock file."""

_SHARED: Final = struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 0x40000002, 510, 0)
"""An fcntl read lock of the bytes that SQLite locks exclusively."""


def find_companion(path: Path, suffix: str) -> Path:
    """Find a companion file next to the journal's real file, for any name of the journal."""
    real = path.resolve()
    return real.with_name(f"{real.name}{suffix}")


class Lock:
    """Exclusive lock of a journal, which the kernel releases when its process dies.

    It locks a file next to the journal's real file and the journal itself, so that symbolic links, other spellings and
    bind mounts are the same journal. A journal with several hard links is refused: its log is next to only one.

    A forked process does not inherit the lock, which would keep the journal from the next server.
    """

    def __init__(self, path: Path) -> None:
        self._journal = path
        self._path = find_companion(path, LOCK)
        self._descriptors: list[int] = []
        reference = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _let_go(reference()))

    def __enter__(self) -> Self:
        """Take the lock; creates a missing journal file.

        Raises EngineError when another server holds it or the files cannot be locked.
        """
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = self._open(self._path)
            owner = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
            self._take(descriptor, f"process {owner}" if owner.isdigit() else "another process")
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
            self._refuse_names()
            # SQLite's fcntl locks do not interfere with flock.
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
        """Release the lock. SQLite must have closed the journal: closing any descriptor drops SQLite's locks."""
        self._release()

    def spare_the_log(self) -> None:
        """Keep SQLite from deleting the log on close, which may belong to another journal."""
        fcntl.fcntl(self._descriptors[-1], fcntl.F_OFD_SETLK, _SHARED)

    def _refuse_names(self) -> None:
        """Refuse hard links, without opening the file: closing a descriptor would drop SQLite's locks."""
        names = self._journal.stat().st_nlink if self._journal.exists() else 1
        if names > 1:
            raise EngineError(
                f"{self._journal}: the file has {names} names (hard links), and its log is next to only one of them"
                ": remove the others"
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
                f"{self._journal} is in use by {owner}: a journal has one writer. Stop that process first;"
                " its live view requeues and discards dead letters meanwhile"
            ) from None

    def _release(self) -> None:
        while self._descriptors:
            os.close(self._descriptors.pop())


def _let_go(lock: Lock | None) -> None:
    if lock is not None:
        lock.__exit__(None, None, None)


class Files:
    """Files of an open journal, to detect their replacement.

    Args:
        path: of the journal; SQLite has read it, so that its log exists.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        # As texts, since each transaction looks at them twice.
        self._names = [*map(os.fspath, (path, find_companion(path, LOG), find_companion(path, INDEX)))]
        self._opened = self._collect_found()

    def _collect_found(self) -> list[tuple[int, int]]:
        found = []
        for name in self._names:
            status = os.stat(name)  # noqa: PTH116 - a text, as above
            found.append((status.st_dev, status.st_ino))
        return found

    def find_replacement(self) -> EngineError | None:
        """Make an error if files were replaced or removed; None otherwise."""
        try:
            if self._collect_found() == self._opened:
                return None
            event = "the file or its log was replaced"
        except OSError as error:
            event = f"{error.filename} was removed"
        return EngineError(
            f"{self._path}: {event} while it was in use. Nothing more is stored: put the file back, or restore a copy"
            " (agentserver journal restore), and start again"
        )
