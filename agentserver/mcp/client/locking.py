"""A server asked once what it is: what a lock is written of, and compared with.

Owns the one connection. Refuses to know files and to call a tool.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

from agentserver.extras import require
from agentserver.mcp.client.connection import STARTING, LostError, connected, listed, told
from agentserver.payload.foreign.lock import ServerLock

if TYPE_CHECKING:
    from pathlib import Path

    from agentserver.mcp.client.process import Launcher
    from agentserver.payload.foreign.servers import McpServer


@dataclass(frozen=True, slots=True)
class ServerFound:
    """A server as it is now: what may be locked, and the instructions that it would like models to follow."""

    lock: ServerLock
    instructions: str = ""


def ask(server: McpServer, directory: Path, launcher: Launcher) -> ServerFound:
    """Connect to a server, ask for its tools and leave it.

    Args:
        server: how it is reached.
        directory: in which its program starts.
        launcher: says how.

    Raises MissingExtraError; LostError where nothing can be learnt of it in STARTING seconds.
    """
    require("mcp:", "mcp")
    import mcp  # noqa: F401 - here, and not while others wait for the loop

    return anyio.run(_ask, server, directory, launcher)


async def _ask(server: McpServer, directory: Path, launcher: Launcher) -> ServerFound:
    from mcp import MCPError

    try:
        with anyio.fail_after(STARTING):
            async with connected(server, directory, anyio.Event(), launcher) as client:
                tools = await listed(client)
                info = client.server_info
                name = "a server that does not name itself" if info is None else f"{info.name} {info.version}"
                lock = ServerLock(name, client.protocol_version, tuple(tools.values()))
                return ServerFound(lock, client.instructions or "")
    except (ExceptionGroup, ValueError, RuntimeError, OSError, MCPError) as error:
        raise LostError(f"{server.name}: {told(error)}") from None
