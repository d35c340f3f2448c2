"""Keys of processes and connections: with an equal key a running one may stay over a reload.

A key covers the configuration of a walled worker or of an MCP server's program, and the files that it may run. Code
counts by its content, since a deployment may rewrite it and reset times; other files count by size, times and inode.
"""

from __future__ import annotations

import os
import shutil
import stat
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from agentserver.payload.foreign.servers import McpServer
    from agentserver.worker.planning import WorkerPlan


FILES: Final = 20_000
"""Files that are looked at. Where there are more, no mark is equal to another."""

_CODE: Final = (".py", ".js", ".mjs", ".cjs", ".ts", ".sh", ".rb")
_CODE_BYTES: Final = 1 << 22
"""Bytes up to which a file of code counts by its content."""

_OUTPUT: Final = frozenset({"out", "node_modules", "__pycache__"})
"""Folders of generated files. Hidden ones do not count either."""


def mark_files(paths: Iterable[Path]) -> str | None:
    """Mark files and everything in folders; None if there are too many."""
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


def worker_key(project: Path, planned: WorkerPlan) -> str:
    """Say what the workers of a listener depend on: of the project they read what their wall lets them read."""
    from agentserver.worker.planning import readable

    pythons = {*readable(net=True)}
    own = [path for path in planned.wall.read if path.is_relative_to(project) and path not in pythons]
    return _key(repr(planned), own)


def connection_key(project: Path, server: McpServer) -> str:
    """Say what the connection to an MCP server depends on; of a program also its files in the project."""
    agreed = [(each.listener, each.agreed) for each in server.tools]
    said = (
        server.name,
        server.command,
        server.url,
        server.token,
        sorted(server.env.items()),
        server.restarts,
    )
    return _key(repr((project, said, server.isolation, agreed)), _program(project, server))


def _program(project: Path, server: McpServer) -> Iterator[Path]:
    """Return the files that a command names, and their neighbours in the project, which a script may import."""
    for word in filter(None, server.command):
        module = word.partition(".")[0] or word
        for path in (project / word, project / module, project / f"{module}.py"):
            if "\0" in word or not path.exists():
                continue
            if path.is_relative_to(project):
                yield path if path.is_dir() else path.parent
            elif path.is_file():
                yield path
    found = shutil.which(server.command[0]) if server.command else None
    if found is not None:
        yield Path(found).resolve()
    if server.isolation is not None:
        yield from (project / path for path in server.isolation.read)


def _key(said: str, files: Iterable[Path]) -> str:
    """A digest, which shows none of the secrets in an environment. Where files cannot be marked it is equal to none."""
    mark = mark_files(files) or token_hex(16)
    return sha256(f"{said}\n{mark}".encode(errors="surrogateescape")).hexdigest()
