"""Marks of the files that a process runs: equal marks mean that it would run the same again.

Owns which files count, and what of each. Code counts by its content: a deployment may write it again and set times
back. Other files count by size, times and number, of which the kernel sets one.
"""

from __future__ import annotations

import os
import stat
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FILES: Final = 20_000
"""Files that are looked at. Where there are more, no mark is equal to another."""

_CODE: Final = (".py", ".js", ".mjs", ".cjs", ".ts", ".sh", ".rb")
_CODE_BYTES: Final = 1 << 22
"""Bytes up to which a file of code counts by its content."""

_OUTPUT: Final = frozenset({"out", "node_modules", "__pycache__"})
"""Folders that hold what was made. Hidden ones do not count either."""


def mark_files(paths: Iterable[Path]) -> str | None:
    """Mark files and all that folders hold; None where there are too many."""
    found = sha256()
    for number, path in enumerate(_files(paths)):
        if number >= FILES:
            return None
        found.update(f"{os.fspath(path)}\0{_mark(path)}\n".encode(errors="surrogateescape"))
    return found.hexdigest()


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in sorted(set(paths)):
        if not path.is_dir():
            yield path
            continue
        for folder, folders, names in os.walk(path):
            folders[:] = sorted(each for each in folders if each not in _OUTPUT and not each.startswith("."))
            yield from (Path(folder, name) for name in sorted(names))


def _mark(path: Path) -> str:
    try:
        told = path.stat()
        if path.suffix in _CODE and told.st_size <= _CODE_BYTES and stat.S_ISREG(told.st_mode):
            return sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        return f"unreadable: {error.errno}"
    return f"{told.st_size} {told.st_mtime_ns} {told.st_ctime_ns} {told.st_ino}"
