"""Files below a folder, and none beside it. Internal.

Owns the way down: one folder after the other, each opened in the one before it and never through a link, so that no
name leads out, also when somebody exchanges a folder for a link meanwhile. Refuses files with a second name (hard
links), which may lie elsewhere too, and what is no plain file. Every function here blocks.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import time
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

UNFINISHED: Final = ".unfinished-"
"""The beginning of the names of files that are being written."""


DEPTH: Final = 32
"""Folders in one another that are listed."""

_LOOKS, _PAUSE = 5, 0.01


class OutsideError(ValueError):
    """The name leads nowhere below the folder."""


class TooLargeError(ValueError):
    """There is more than was asked for."""


def parts(name: str) -> tuple[str, ...]:
    """The folders and the file of a relative name. Raises OutsideError for any other name."""
    found = tuple(name.split("/"))
    odd = any(part in {"", ".", ".."} or "\0" in part or part.startswith(UNFINISHED) for part in found)
    if odd or PurePosixPath(name).is_absolute():
        raise OutsideError(name)
    return found


@contextmanager
def open_folder(root: str, names: tuple[str, ...], *, make: bool = False) -> Iterator[int]:
    """The descriptor of a folder below ``root``. ``make`` makes those that are missing.

    Raises OutsideError for a link on the way, else OSError. ``root`` itself may be a link: it is the operator's.
    """
    with contextlib.ExitStack() as opened:
        at = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        opened.callback(os.close, at)
        for name in names:
            if make:
                _make(name, at)
            at = _open(name, _FOLDER, at)
            opened.callback(os.close, at)
        yield at


def _make(name: str, at: int) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, dir_fd=at)


def _open(name: str, flags: int, at: int) -> int:
    try:
        return os.open(name, flags, dir_fd=at)
    except OSError as error:
        link = error.errno == errno.ELOOP or (error.errno == errno.ENOTDIR and _is_link(name, at))
        if link:
            raise OutsideError(name) from None
        raise


def _is_link(name: str, at: int) -> bool:
    with contextlib.suppress(OSError):
        return stat.S_ISLNK(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode)
    return False


def read_file(root: str, name: str, size: int) -> bytes:
    """The content of a file below ``root``. Raises OutsideError, TooLargeError beyond ``size`` bytes, or OSError."""
    *above, last = parts(name)
    with open_folder(root, tuple(above)) as at:
        data = _content(last, size, at)
    if len(data) > size:
        raise TooLargeError(name)
    return data


def _content(name: str, size: int, at: int) -> bytes:
    """The content of a plain file, as far as a byte beyond ``size``."""
    found = _open(name, _FILE, at)
    try:
        if not _plain(found):
            raise OutsideError(name)
        with os.fdopen(found, "rb", closefd=False) as file:
            return file.read(size + 1)
    finally:
        os.close(found)


def _plain(file: int) -> bool:
    """True for a plain file of one name. One that is being written has two for a moment."""
    for _ in range(_LOOKS):
        facts = os.fstat(file)
        if not stat.S_ISREG(facts.st_mode):
            return False
        if facts.st_nlink <= 1:
            return True
        time.sleep(_PAUSE)
    return False


def write_file(root: str, name: str, data: bytes, *, replace: bool, make: bool) -> None:
    """Write a file below ``root``, whole or not at all.

    Args:
        root: the folder.
        name: of the file, below it.
        data: its content.
        replace: whether it may be there already. A file with the same content may in any case.
        make: whether to make the folders that are missing.

    Raises OutsideError, FileExistsError when it is there and may not be, else OSError.
    """
    *above, last = parts(name)
    with open_folder(root, tuple(above), make=make) as at:
        unfinished = f"{UNFINISHED}{secrets.token_hex(8)}"
        try:
            with os.fdopen(os.open(unfinished, _NEW, 0o666, dir_fd=at), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if replace:
                os.rename(
                    unfinished, last, src_dir_fd=at, dst_dir_fd=at
                )  # a link there is replaced, not followed
            else:
                os.link(unfinished, last, src_dir_fd=at, dst_dir_fd=at, follow_symlinks=False)
        except FileExistsError:
            if not _has_content(last, data, at):
                raise
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(unfinished, dir_fd=at)
        os.fsync(at)


def _has_content(name: str, data: bytes, at: int) -> bool:
    """True when a plain file there has this content: it was written before, and nobody heard of it."""
    with contextlib.suppress(OSError, OutsideError):
        return _content(name, len(data), at) == data
    return False


def list_tree(root: str, most: int) -> tuple[list[tuple[str, int]], bool]:
    """The names and sizes of the plain files below ``root``, in order, and whether there are more than ``most``."""
    found: list[tuple[str, int]] = []
    with open_folder(root, ()) as top:
        whole = _walk(top, "", found, most)
    return sorted(found), not whole


def _walk(at: int, above: str, found: list[tuple[str, int]], most: int) -> bool:
    """Add the files of a folder and of those in it; False when there are more, or deeper ones."""
    for name in sorted(os.listdir(at)):
        mode, size = _facts(name, at)
        if stat.S_ISDIR(mode):
            if not _walk_folder(name, at, f"{above}{name}/", found, most):
                return False
        elif stat.S_ISREG(mode) and not name.startswith(UNFINISHED):
            if len(found) == most:
                return False
            found.append((f"{above}{name}", size))
    return True


def _walk_folder(name: str, at: int, path: str, found: list[tuple[str, int]], most: int) -> bool:
    if path.count("/") > DEPTH:
        return False
    try:
        inner = _open(name, _FOLDER, at)
    except (OSError, OutsideError):  # it went, or was exchanged for a link, meanwhile
        return True
    try:
        return _walk(inner, path, found, most)
    finally:
        os.close(inner)


def _facts(name: str, at: int) -> tuple[int, int]:
    """The mode and the size of what is there; zeros for a file with a second name, and for what is gone."""
    with contextlib.suppress(OSError):
        facts = os.stat(name, dir_fd=at, follow_symlinks=False)
        if not stat.S_ISREG(facts.st_mode) or facts.st_nlink <= 1:
            return facts.st_mode, facts.st_size
    return 0, 0
