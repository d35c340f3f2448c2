"""The file of principals, on the disk.

Owns where it lies, that it is its owner's alone, and that it is changed by one at a time and whole or not at all.
Everything here blocks. Refuses to know what is in it.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from agentserver.ports.principals import KeptPrincipals, UnusableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SUFFIX: Final = ".principals"
MOST: Final = 4_000_000
"""Bytes of the file."""

_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

State: TypeAlias = tuple[int, ...]
"""A file's as the operating system tells it: another one means that it may hold something else."""


NONE: Final = KeptPrincipals(None, b"")


@dataclass(frozen=True, slots=True)
class PrincipalFile:
    """A file of principals, which need not be there: their store where one server works on an organism."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def edition(self) -> State | None:
        """Look at the state of the file; None when there is none, or nobody can tell."""
        try:
            return _state(os.stat(self.path, follow_symlinks=False))  # noqa: PTH116 - a Path makes it three times as dear
        except OSError:
            return None

    def read(self) -> KeptPrincipals:
        """Read the file; NONE when there is none.

        Raises UnusableError for a link, for one that others may read or write, and for one that cannot be read.
        """
        try:
            with _opened(self.path) as descriptor:
                facts = os.fstat(descriptor)
                why = _unusable(facts)
                data = b"" if why else _content(descriptor)
        except FileNotFoundError:
            return NONE
        except OSError as error:
            raise UnusableError(f"{self}: {error.strerror}") from None
        if why or len(data) > MOST:
            raise UnusableError(f"{self}: {why or f'has more than {MOST} bytes'}")
        return KeptPrincipals(_state(facts), data)

    def change(self, change: Callable[[bytes], bytes]) -> None:
        """Put what ``change`` makes of the file in its place. Raises UnusableError, OSError, and what it raises."""
        with _changing(self.path):
            _replace(self.path, change(self.read().data))


def beside(kept: Path) -> PrincipalFile:
    """The file of principals that belongs to a journal, or to the organism's own file where it keeps no journal.

    It lies beside the real file, so that every name of it leads there.
    """
    real = kept.resolve()
    return PrincipalFile(real.with_name(f"{real.name}{SUFFIX}"))


@contextmanager
def _changing(path: Path) -> Iterator[None]:
    """Be the only one who changes the file. The folder is locked, since the file itself is replaced.

    Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = os.open(path.parent, _FOLDER)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
        os.fsync(folder)
    finally:
        os.close(folder)


def _replace(path: Path, data: bytes) -> None:
    """Put a new file of mode 0600 where the path says; within ``_changing``. Raises OSError.

    Where root does it, the file is the folder's owner's, whose server has to read it.
    """
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    with ExitStack() as stack:
        stack.callback(_remove, name)
        with os.fdopen(descriptor, "wb") as file:
            if os.geteuid() == 0:
                owner = path.parent.stat()
                os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)  # noqa: PTH105 - mkstemp gives a text
        stack.pop_all()


def _remove(name: str) -> None:
    os.unlink(name)  # noqa: PTH108 - mkstemp gives a text


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, _READ)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _unusable(facts: os.stat_result) -> str:
    if not stat.S_ISREG(facts.st_mode):
        return "is no plain file"
    return (
        "others may read or write it; chmod 600 makes it its owner's alone" if facts.st_mode & 0o077 else ""
    )


def _content(descriptor: int) -> bytes:
    with open(descriptor, "rb", closefd=False) as file:
        return file.read(MOST + 1)


def _state(facts: os.stat_result) -> State:
    return (facts.st_dev, facts.st_ino, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size)
