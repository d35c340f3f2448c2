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
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SUFFIX: Final = ".principals"
MOST: Final = 4_000_000
"""Bytes of the file."""

_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

State: TypeAlias = tuple[int, ...]
"""A file's as the operating system tells it: another one means that it may hold something else."""


class UnusableError(ValueError):
    """The file is there and cannot be used. The text says why."""


class Contents(NamedTuple):
    """The file as it was read.

    Args:
        state: of the file that was read; None when there is none.
        data: what it holds.
    """

    state: State | None
    data: bytes


NONE: Final = Contents(None, b"")


def beside(kept: Path) -> Path:
    """The file of principals that belongs to a journal, or to the organism's own file where it keeps no journal.

    It lies beside the real file, so that every name of it leads there.
    """
    real = kept.resolve()
    return real.with_name(f"{real.name}{SUFFIX}")


def state(path: Path) -> State | None:
    """The state of the file; None when there is none, or nobody can tell."""
    try:
        return _state(os.stat(path, follow_symlinks=False))  # noqa: PTH116 - a Path makes it three times as dear
    except OSError:
        return None


def read(path: Path) -> Contents:
    """The file, or NONE when there is none.

    Raises UnusableError for a link, for one that others may read or write, and for one that cannot be read.
    """
    try:
        with _opened(path) as descriptor:
            facts = os.fstat(descriptor)
            why = _unusable(facts)
            data = b"" if why else _content(descriptor)
    except FileNotFoundError:
        return NONE
    except OSError as error:
        raise UnusableError(f"{path}: {error.strerror}") from None
    if why or len(data) > MOST:
        raise UnusableError(f"{path}: {why or f'has more than {MOST} bytes'}")
    return Contents(_state(facts), data)


@contextmanager
def changing(path: Path) -> Iterator[None]:
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


def replace(path: Path, data: bytes) -> None:
    """Put a new file of mode 0600 where the path says; within ``changing``. Raises OSError.

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
