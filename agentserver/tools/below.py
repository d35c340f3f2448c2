"""Reads and writes files below a folder, and nothing outside it. Internal.

Opens one folder after the other, each relative to the one before and never through a link, so no name leads out, even
if a folder is exchanged for a link in a race. Refuses hard-linked files, which may also be elsewhere, and everything
that is not a plain file. Every function blocks.
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
"""Prefix of the names of unfinished files."""


DEPTH: Final = 32
"""Nested folders that are listed."""

_LOOKS, _PAUSE = 5, 0.01


class OutsideError(ValueError):
    """Refusal of a name that does not lead below the folder."""


class TooLargeError(ValueError):
    """Refusal of more data than was requested."""


def split_parts(name: str) -> tuple[str, ...]:
    """Split a relative name into folders and file. Raises OutsideError for any other name."""
    found = tuple(name.split("/"))
    odd = any(part in {"", ".", ".."} or "\0" in part or part.startswith(UNFINISHED) for part in found)
    if odd or PurePosixPath(name).is_absolute():
        raise OutsideError(name)
    return found


@contextmanager
def open_folder(root: str, names: tuple[str, ...], *, make: bool = False) -> Iterator[int]:
    """Open a folder below ``root`` and yield its descriptor; ``make`` creates missing folders.

    Raises OutsideError for a link on the way, else OSError. ``root`` itself may be a link, because the operator chose
    it.
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
    """Read a file below ``root``.

    Raises OutsideError, TooLargeError above ``size`` bytes, or OSError.
    """
    *above, last = split_parts(name)
    with open_folder(root, tuple(above)) as at:
        data = _read_content(last, size, at)
    if len(data) > size:
        raise TooLargeError(name)
    return data


def _read_content(name: str, size: int, at: int) -> bytes:
    """Read a plain file, up to one byte more than ``size``."""
    found = _open(name, _FILE, at)
    try:
        if not _is_plain(found):
            raise OutsideError(name)
        with os.fdopen(found, "rb", closefd=False) as file:
            return file.read(size + 1)
    finally:
        os.close(found)


def _is_plain(file: int) -> bool:
    """Check for a plain file with one name. A file that is being written has two names for a moment."""
    for _ in range(_LOOKS):
        facts = os.fstat(file)
        if not stat.S_ISREG(facts.st_mode):
            return False
        if facts.st_nlink <= 1:
            return True
        time.sleep(_PAUSE)
    return False


def write_file(root: str, name: str, data: bytes, *, replace: bool, make: bool) -> None:
    """Write a file below ``root`` atomically.

    Args:
        root: the folder.
        name: of the file, relative to ``root``.
        data: its content.
        replace: whether an existing file may be overwritten. A file with the same content always may.
        make: whether to create missing folders.

    Raises OutsideError, FileExistsError for an existing file that may not be replaced, else OSError.
    """
    *above, last = split_parts(name)
    with open_folder(root, tuple(above), make=make) as at:
        unfinished = f"{UNFINISHED}{secrets.token_hex(8)}"
        try:
            with os.fdopen(os.open(unfinished, _NEW, 0o666, dir_fd=at), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if replace:
                os.rename(unfinished, last, src_dir_fd=at, dst_dir_fd=at)  # a link is replaced, not followed
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
    """Check for a plain file with this content: an earlier write whose result was lost."""
    with contextlib.suppress(OSError, OutsideError):
        return _read_content(name, len(data), at) == data
    return False


def list_tree(root: str, maximum: int) -> tuple[list[tuple[str, int]], bool]:
    """List names and sizes of the plain files below ``root``, sorted, and whether there are more than ``maximum``."""
    found: list[tuple[str, int]] = []
    with open_folder(root, ()) as top:
        whole = _walk(top, "", found, maximum)
    return sorted(found), not whole


def _walk(at: int, above: str, found: list[tuple[str, int]], maximum: int) -> bool:
    """Collect the files of a folder and its subfolders; False if there are too many, or too deep ones."""
    for name in sorted(os.listdir(at)):
        mode, size = _find_facts(name, at)
        if stat.S_ISDIR(mode):
            if not _walk_folder(name, at, f"{above}{name}/", found, maximum):
                return False
        elif stat.S_ISREG(mode) and not name.startswith(UNFINISHED):
            if len(found) == maximum:
                return False
            found.append((f"{above}{name}", size))
    return True


def _walk_folder(name: str, at: int, path: str, found: list[tuple[str, int]], maximum: int) -> bool:
    if path.count("/") > DEPTH:
        return False
    try:
        inner = _open(name, _FOLDER, at)
    except (OSError, OutsideError):  # removed or replaced by a link in the meantime
        return True
    try:
        return _walk(inner, path, found, maximum)
    finally:
        os.close(inner)


def _find_facts(name: str, at: int) -> tuple[int, int]:
    """Look up mode and size; zeros for a hard-linked or missing file."""
    with contextlib.suppress(OSError):
        facts = os.stat(name, dir_fd=at, follow_symlinks=False)
        if not stat.S_ISREG(facts.st_mode) or facts.st_nlink <= 1:
            return facts.st_mode, facts.st_size
    return 0, 0
