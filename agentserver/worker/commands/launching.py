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
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from agentserver.mcp.client.process import Launch, plain
from agentserver.worker.commands.becoming import Becoming
from agentserver.worker.commands.programs import parts
from agentserver.worker.planning import system
from agentserver.worker.scratch import Scratch
from agentserver.worker.wall.raising import Wall, WallError, missing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from agentserver.payload.foreign.servers import CommandIsolation, McpServer

__all__ = ["launched", "walled"]

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
    start = (sys.executable, "-I", "-B", "-m", "agentserver.worker.commands", becoming.written())
    watch = None if scratch is None else partial(_watch, server.name, scratch, isolation.disk)
    return Launch(start, env, watch)


def _found(name: str, directory: Path) -> Path:
    found = directory / name if os.sep in name else Path(shutil.which(name) or name)
    if not found.is_file():
        raise FileNotFoundError(f"there is no program {name}")
    return found.absolute()


async def _watch(name: str, scratch: Scratch, disk: int, group: int) -> None:
    """Kill a program, and what it has started, when there is more in its folder than it may write."""
    while True:
        await anyio.sleep(LOOK)
        if scratch.touched and await anyio.to_thread.run_sync(scratch.size, disk) > disk:
            logger.error("%s wrote more than %d bytes and is ended", name, disk)
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
            return
