"""The files that the kernel opens to start a program, and the libraries that lie beside it.

Owns the two ways in which a file names another that runs it: an ELF's loader (elf(5)) and a script's first line
(execve(2)). Refuses to start anything. Reads files.
"""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Parts", "parts"]

DEEP = 4
"""Scripts whose interpreter is a script: the kernel follows as many."""
HEAD = 1 << 16
_LOADER = 3
"""PT_INTERP: the entry of a program's table that names its loader."""
_BESIDE = ("lib", "lib64", "share", "pyvenv.cfg")


class Parts(NamedTuple):
    """The files that a program needs to start.

    Args:
        run: the file, its interpreter and its loader.
        read: the libraries of the folder that its ``bin`` lies in.
    """

    run: tuple[Path, ...]
    read: tuple[Path, ...]


def parts(program: Path, project: Path, search: str | None) -> Parts:
    """The files that a program needs to start.

    Args:
        program: an existing file, by an absolute path.
        project: whose own folders are no libraries.
        search: the ``PATH`` that the program is given.

    Raises OSError for one that cannot be read.
    """
    run = tuple(dict.fromkeys(_run(program, search, DEEP)))
    folders = (folder for each in run for folder in (each.parent, each.resolve().parent))
    beside = (
        folder.parent / name
        for folder in folders
        if folder.name == "bin" and not project.is_relative_to(folder.parent)
        for name in _BESIDE
    )
    return Parts(run, tuple(path for path in dict.fromkeys(beside) if path.exists()))


def _run(program: Path, search: str | None, deep: int) -> Iterator[Path]:
    yield program
    with program.open("rb") as file:
        head = file.read(HEAD)
    if head.startswith(b"#!") and deep:
        named = head[2:].split(b"\n", 1)[0].decode(errors="replace").split()
        if named:
            yield from _run(Path(named[0]), search, deep - 1)
        if len(named) > 1 and Path(named[0]).name == "env":
            found = shutil.which(named[1], path=search)
            if found:
                yield from _run(Path(found), search, deep - 1)
    loader = _loader(head)
    if loader is not None:
        yield loader


def _loader(head: bytes) -> Path | None:
    """The loader that an ELF of 64 bits names; None of any other file."""
    if not head.startswith(b"\x7fELF\x02\x01"):
        return None
    try:
        (table,) = struct.unpack_from("<Q", head, 32)
        size, count = struct.unpack_from("<HH", head, 54)
        for number in range(count):
            kind, _, start, _, _, length = struct.unpack_from("<IIQQQQ", head, table + number * size)
            if kind == _LOADER:
                return Path(head[start : start + length].rstrip(b"\0").decode())
    except (struct.error, UnicodeDecodeError):
        return None
    return None
