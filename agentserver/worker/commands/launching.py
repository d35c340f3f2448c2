"""The start of an MCP server's program, behind a wall where its entry asks for one.

Owns what such a program may run and read, its scratch folder, and the look at how much it has written there. Refuses to
start one without the wall that was asked for, and to know the protocol.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from agentserver.mcp.client.process import Launch, plain
from agentserver.worker.commands.becoming import Becoming
from agentserver.worker.commands.programs import parts
from agentserver.worker.planning import system
from agentserver.worker.scratch import UNBOUNDED, Scratch
from agentserver.worker.wall.raising import Wall, WallError, missing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from agentserver.payload.foreign.servers import CommandIsolation, McpServer

__all__ = ["launched", "walled"]

START = b"agentserver.worker.commands"
LOOK = 0.5
"""Seconds between two looks at what a program has written."""

logger = logging.getLogger("agentserver.worker")


def walled(servers: Iterable[McpServer]) -> None:
    """Raises WallError when this system cannot hold the program of one of them."""
    for server in servers:
        if server.isolation is not None:
            lacks = missing(ports=bool(server.isolation.ports), fork=server.isolation.fork)
            if lacks:
                raise WallError(f"{server.name} needs a wall, and this system lacks " + "; ".join(lacks))


@asynccontextmanager
async def launched(server: McpServer, directory: Path) -> AsyncIterator[Launch]:
    """The start of a server's program.

    Raises WallError where it asks for a wall and this system has none, OSError for a program that is not there.
    """
    isolation = server.isolation
    if isolation is None:
        async with plain(server, directory) as launch:
            yield launch
        return
    walled((server,))
    scratch = await anyio.to_thread.run_sync(Scratch) if isolation.scratch else None
    try:
        yield await anyio.to_thread.run_sync(_planned, server, isolation, directory, scratch)
    finally:
        if scratch is not None:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(scratch.remove)


def _planned(
    server: McpServer, isolation: CommandIsolation, directory: Path, scratch: Scratch | None
) -> Launch:
    env = {**server.env, **({} if scratch is None else {"TMPDIR": str(scratch.path)})}
    search = env.get("PATH")
    program, *others = (_found(name, directory) for name in (server.command[0], *isolation.programs))
    needed = [parts(each, directory, search) for each in (program, *others)]
    named = (directory / word for word in server.command[1:] if "\0" not in word)
    handed = (path for path in named if path.is_file() and path.resolve().is_relative_to(directory))
    wall = Wall(
        memory=isolation.memory,
        cpu=None,
        files=isolation.files,
        disk=isolation.disk,
        read=(
            *system(net=bool(isolation.ports)),
            *(path for each in needed for path in each.read),
            *handed,
            *(directory / path for path in isolation.read),
        ),
        scratch=None if scratch is None else scratch.path,
        ports=isolation.ports,
        commands=tuple(path for each in needed for path in each.run),
        fork=isolation.fork,
    )
    becoming = Becoming(wall, os.getpid(), (str(program), *server.command[1:]), tuple(env))
    start = (sys.executable, "-I", "-B", "-m", START.decode(), becoming.written())
    watch = None if scratch is None else _Watch(server.name, scratch, isolation).watch
    return Launch(start, env, watch)


def _found(name: str, directory: Path) -> Path:
    found = directory / name if os.sep in name else Path(shutil.which(name) or name)
    if not found.is_file():
        raise FileNotFoundError(f"there is no program {name}")
    return found.absolute()


@dataclass(eq=False, slots=True)
class _Watch:
    """The look at what a program keeps in its folder, until the kernel is seen to bound it.

    Args:
        name: of the server.
        scratch: its folder.
        isolation: what it may use.
    """

    name: str
    scratch: Scratch
    isolation: CommandIsolation
    _told: bool = False

    async def watch(self, group: int) -> None:
        """Kill a program, and what it has started, when it keeps more than it may."""
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
            if not (self.scratch.bounded or self._told) and _became(group):
                self._told = True
                logger.warning("%s", f"the disk limit of {self.name} is measured: {UNBOUNDED}")
        return self.scratch.breach(
            self.isolation.disk, *(_members(group) if self.isolation.fork else (group,))
        )


def _became(process: int) -> bool:
    """True once a process has raised its wall and become its program."""
    return START not in Path(f"/proc/{process}/cmdline").read_bytes()


def _members(group: int) -> Iterator[int]:
    """The processes of a group; none can leave it behind the wall."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(path.read_text(errors="replace").rpartition(")")[2].split()[2]) == group:
                yield int(path.parent.name)
