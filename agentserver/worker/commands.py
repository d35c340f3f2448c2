"""Starts programs of MCP servers, behind a wall where the organism asks for one.

A walled program may read the files that the kernel opens to start it, an ELF's loader (elf(5)) or a script's
interpreter (execve(2)), and the libraries near it.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import struct
import sys
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import anyio
import anyio.to_thread

from agentserver.mcp.client.process import Launch, plain
from agentserver.worker.exec_walled import ProgramStart
from agentserver.worker.planning import list_system
from agentserver.worker.scratch import UNBOUNDED, Scratch
from agentserver.worker.wall.raising import Wall, WallError, list_missing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from agentserver.payload.foreign.lock import CommandIsolation, McpServer

__all__ = ["Parts", "check_walls", "list_parts", "open_launch"]

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


def list_parts(program: Path, project: Path, search: str | None) -> Parts:
    """List the files that a program needs to start.

    Args:
        program: an existing file, by an absolute path.
        project: excluded from the libraries, with its folders.
        search: the ``PATH`` of the program.

    Raises OSError for an unreadable file.
    """
    run = tuple(dict.fromkeys(_run(program, search, DEEP)))
    folders = (folder for each in run for folder in (each.parent, each.resolve().parent))
    candidates = (
        folder.parent / name
        for folder in folders
        if folder.name == "bin" and not project.is_relative_to(folder.parent)
        for name in _BESIDE
    )
    return Parts(run, tuple(path for path in dict.fromkeys(candidates) if path.exists()))


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
    loader = _find_loader(head)
    if loader is not None:
        yield loader


def _find_loader(head: bytes) -> Path | None:
    """Return the loader of a 64-bit ELF file; None for any other file."""
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


START = b"agentserver.worker.exec_walled"
LOOK = 0.5
"""Seconds between two looks at what a program has written."""

logger = logging.getLogger("agentserver.worker")


def check_walls(servers: Iterable[McpServer]) -> None:
    """Check that this system can hold these programs. Raises WallError."""
    for server in servers:
        if server.isolation is not None:
            lacks = list_missing(ports=bool(server.isolation.ports), fork=server.isolation.fork)
            if lacks:
                raise WallError(f"{server.name} needs a wall, and this system lacks " + "; ".join(lacks))


@asynccontextmanager
async def open_launch(server: McpServer, directory: Path) -> AsyncIterator[Launch]:
    """Prepare the start of a server's program, and clean up afterwards.

    Raises WallError if it asks for a wall and this system has none, OSError for a missing program.
    """
    isolation = server.isolation
    if isolation is None:
        async with plain(server, directory) as launch:
            yield launch
        return
    check_walls((server,))
    scratch = await anyio.to_thread.run_sync(Scratch) if isolation.scratch else None
    try:
        yield await anyio.to_thread.run_sync(_make_plan_start, server, isolation, directory, scratch)
    finally:
        if scratch is not None:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(scratch.remove)


def _make_plan_start(
    server: McpServer, isolation: CommandIsolation, directory: Path, scratch: Scratch | None
) -> Launch:
    env = {**server.env, **({} if scratch is None else {"TMPDIR": str(scratch.path)})}
    search = env.get("PATH")
    program, *others = (_find_program(name, directory) for name in (server.command[0], *isolation.programs))
    needed = [list_parts(each, directory, search) for each in (program, *others)]
    named = (directory / word for word in server.command[1:] if "\0" not in word)
    handed = (path for path in named if path.is_file() and path.resolve().is_relative_to(directory))
    wall = Wall(
        memory=isolation.memory,
        cpu=None,
        files=isolation.files,
        disk=isolation.disk,
        read=(
            *list_system(net=bool(isolation.ports)),
            *(path for each in needed for path in each.read),
            *handed,
            *(directory / path for path in isolation.read),
        ),
        scratch=None if scratch is None else scratch.path,
        ports=isolation.ports,
        commands=tuple(path for each in needed for path in each.run),
        fork=isolation.fork,
    )
    becoming = ProgramStart(wall, os.getpid(), (str(program), *server.command[1:]), tuple(env))
    start = (sys.executable, "-I", "-B", "-m", START.decode(), becoming.to_argument())
    watch = None if scratch is None else _Watch(server.name, scratch, isolation).watch
    return Launch(start, env, watch)


def _find_program(name: str, directory: Path) -> Path:
    found = directory / name if os.sep in name else Path(shutil.which(name) or name)
    if not found.is_file():
        raise FileNotFoundError(f"there is no program {name}")
    return found.absolute()


@dataclass(eq=False, slots=True)
class _Watch:
    """Watches the disk usage of a program until the kernel limits it.

    Args:
        name: of the server.
        scratch: its folder.
        isolation: its limits.
    """

    name: str
    scratch: Scratch
    isolation: CommandIsolation
    _is_told: bool = False

    async def watch(self, group: int) -> None:
        """Kill a program and its children when it exceeds its disk limit."""
        while not self.scratch.bounded:
            await anyio.sleep(LOOK)
            breach = await anyio.to_thread.run_sync(self._look, group)
            if breach:
                logger.error("%s is ended: %s", self.name, breach)
                with suppress(ProcessLookupError):
                    os.killpg(group, signal.SIGKILL)
                return

    def _look(self, group: int) -> str:
        with suppress(FileNotFoundError, ProcessLookupError):
            self.scratch.adopt(group)
            if not (self.scratch.bounded or self._is_told) and _has_become(group):
                self._is_told = True
                logger.warning("%s", f"the disk limit of {self.name} is measured: {UNBOUNDED}")
        return self.scratch.describe_breach(
            self.isolation.disk, *(_list_members(group) if self.isolation.fork else (group,))
        )


def _has_become(process: int) -> bool:
    """Tell whether a process has raised its wall and run its program."""
    return START not in Path(f"/proc/{process}/cmdline").read_bytes()


def _list_members(group: int) -> Iterator[int]:
    """List the processes of a group; no process can leave it behind the wall."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(path.read_text(errors="replace").rpartition(")")[2].split()[2]) == group:
                yield int(path.parent.name)
