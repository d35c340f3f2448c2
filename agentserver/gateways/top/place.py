"""The Unix socket by which a running server is followed: its place beside the journal, and who may use it.

Owns the file's name, its mode 0600, what an earlier server left of it, and paths too long for the operating system,
which takes 108 bytes (unix(7)). Everything here blocks. Refuses to know what is told.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

SUFFIX: Final = ".top"
_NAME: Final = 60
"""Bytes of the socket's own name; one of a longer journal is replaced by its hash."""

_CREDENTIALS: Final = struct.Struct("3i")


class TakenError(OSError):
    """Another server is followed at this place, or there is another file."""


def beside(path: Path) -> Path:
    """The socket's path for a server whose journal, or whose YAML where it keeps none, has this path."""
    name = f"{path.name}{SUFFIX}"
    if len(os.fsencode(name)) > _NAME:
        name = f"{sha256(os.fsencode(path.name)).hexdigest()[:32]}{SUFFIX}"
    return path.parent / name


@contextmanager
def _short(folder: Path) -> Iterator[str]:
    """A short path of a folder, however long its own is, where the system has one."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        short = f"/proc/self/fd/{descriptor}"
        yield short if Path(short).is_dir() else str(folder)
    finally:
        os.close(descriptor)


def listening(path: Path) -> socket.socket:
    """A socket that listens at a path, in place of one that no server listens at any more.

    It has its mode before it has its name: nobody else can reach it in between.

    Raises TakenError, or OSError where there can be none.
    """
    with suppress(FileNotFoundError, ConnectionRefusedError):
        connected(path).close()
        raise TakenError(f"{path}: another server is followed here")
    if path.exists() and mark(path) is None:
        raise TakenError(f"{path}: is no socket")
    with ExitStack() as closing:
        found = closing.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        with _short(path.parent) as short:
            unfinished = Path(short, f".{os.getpid()}{SUFFIX}")
            unfinished.unlink(missing_ok=True)
            os.fchmod(found.fileno(), 0o600)  # Linux gives the file this mode
            found.bind(str(unfinished))
            unfinished.chmod(0o600)
            found.listen(8)
            found.setblocking(False)
            unfinished.rename(Path(short, path.name))
        closing.pop_all()
        return found


def connected(path: Path) -> socket.socket:
    """A socket that is connected to the server at a path. Raises OSError where none listens, or another user's does."""
    with ExitStack() as closing:
        found = closing.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        with _short(path.parent) as short:
            found.connect(f"{short}/{path.name}")
        if not own(found):
            raise PermissionError(f"{path}: another user's server")
        closing.pop_all()
        return found


def own(peer: socket.socket) -> bool:
    """True when the other end is a process of the same user, or of root; also where the system does not tell."""
    kind = getattr(socket, "SO_PEERCRED", None)
    if kind is None:
        return True
    _, user, _ = _CREDENTIALS.unpack(peer.getsockopt(socket.SOL_SOCKET, kind, _CREDENTIALS.size))
    return user in {0, os.geteuid()}


def mark(path: Path) -> tuple[int, int] | None:
    """The file's identity, by which a server knows whether it is still its own; None when there is no socket."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISSOCK(found.st_mode) else None


def remove(path: Path, marked: tuple[int, int] | None) -> None:
    """Remove the socket, unless another server's stands in its place."""
    if marked is not None and mark(path) == marked:
        with suppress(OSError):
            path.unlink()
