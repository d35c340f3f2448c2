"""Servers of foreign tools, as they are declared: how each is reached, and the tools of it that are listeners."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentserver.payload.foreign.lock import LockedTool, ToolForms


@dataclass(frozen=True, slots=True)
class McpTool:
    """One tool as a listener: its name there, its lock, and its payloads."""

    listener: str
    agreed: LockedTool
    forms: ToolForms


@dataclass(frozen=True, slots=True)
class CommandIsolation:
    """The wall around a server's program.

    Args:
        memory: bytes of address space of one process.
        files: open files of one process at once.
        disk: bytes that it may have written at one time.
        read: further files and folders that it may read, relative to the project.
        scratch: whether it has a folder to write to.
        ports: TCP ports that it may connect to.
        fork: whether it may make processes.
        programs: further programs that it may start.
    """

    memory: int = 1_000_000_000
    files: int = 256
    disk: int = 16 * 10**6
    read: tuple[str, ...] = ()
    scratch: bool = True
    ports: tuple[int, ...] = ()
    fork: bool = False
    programs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class McpServer:
    """A server of the Model Context Protocol.

    Args:
        name: the prefix of its listeners' names.
        command: the program and its arguments; empty for one with a URL.
        url: of a server that is reached over HTTP.
        token: shown to such a server.
        env: all the environment that the program is given.
        restarts: how often in a row it is started again.
        tools: those that are listeners.
        isolation: the wall around the program; None without one.
    """

    name: str
    command: tuple[str, ...]
    url: str | None
    token: str | None = field(repr=False)
    env: Mapping[str, str] = field(repr=False)
    restarts: int
    tools: tuple[McpTool, ...]
    isolation: CommandIsolation | None = None
