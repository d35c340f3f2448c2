"""``agentserver mcp``: the servers whose tools an organism uses, and the organism as such a server.

Owns the group, and how a server's words are shown: as a stranger's, on lines of their own.
"""

from __future__ import annotations

import json
import os
from difflib import unified_diff
from typing import TYPE_CHECKING, Any

import click

from agentserver.cli import mcp_serve, project
from agentserver.cli.verbs import Verbs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from agentserver.mcp.client.connection import ServerFound
    from agentserver.payload.foreign.lock import LockedTool, ServerLock
    from agentserver.payload.foreign.servers import McpServer

DIFFERENT = 1
LINES = 60
"""Most lines that are shown of one text of a server's."""
WIDTH = 200

_server = click.option("--server", "only", metavar="NAME", help="Only this one; all of them when left out.")


@click.command("lock", short_help="Write down what the tools of MCP servers are.")
@project.organism_argument
@_server
@click.pass_context
def lock(ctx: click.Context, organism: Path | None, only: str | None) -> None:
    """Connect once to each server of ORGANISM and write its tools to schemas/mcp/NAME.json.

    Everything else reads that file alone, and a tool that is another when the server is connected is never called. What
    is printed after a bar is the server's own text, which anybody may have written: read it before you commit the file.
    """
    from agentserver.config.code.tools import lock_path
    from agentserver.payload.foreign.lock import LockError, written

    servers, directory = _servers(ctx, organism, only)
    for server in servers:
        found = _asked(ctx, server, directory)
        for line in _shown(server, found):
            project.say(line)
        path = directory / lock_path(server.name)
        try:
            text = written(found.lock)
        except LockError as error:
            project.refuse(ctx, f"{server.name}: {error}")
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            project.say(f"{path}: as it was")
        else:
            project.write(path, text)
            project.say(f"wrote {path}")


@click.command("diff", short_help="Name what has changed in the tools of MCP servers.")
@project.organism_argument
@_server
@click.pass_context
def diff(ctx: click.Context, organism: Path | None, only: str | None) -> None:
    """Connect once to each server of ORGANISM and compare its tools with schemas/mcp/NAME.json.

    Exit code 1 when a tool is another, is gone or is new.
    """
    from agentserver.config.code.tools import lock_path
    from agentserver.payload.foreign.lock import LockError, locked

    servers, directory = _servers(ctx, organism, only)
    changed = False
    for server in servers:
        path = directory / lock_path(server.name)
        try:
            agreed = locked(path.read_bytes())
        except OSError as error:
            project.refuse(ctx, f"{path}: {error.strerror}; run: agentserver mcp lock --server {server.name}")
        except LockError as error:
            project.refuse(ctx, f"{path} {error}")
        lines = list(_changes(server.name, agreed, _asked(ctx, server, directory).lock))
        for line in lines or (f"{server.name}: as it was locked",):
            project.say(line)
        changed = changed or bool(lines)
    ctx.exit(DIFFERENT if changed else 0)


command = Verbs(
    "mcp",
    commands=[lock, diff, mcp_serve.serve],
    short_help="Lock the tools of MCP servers; serve as one.",
    help="The Model Context Protocol: servers whose tools are listeners, and the organism as a server of tools.",
)


def _servers(
    ctx: click.Context, organism: Path | None, only: str | None
) -> tuple[tuple[McpServer, ...], Path]:
    """The servers that were meant, and the project directory. Ends the command when there are none."""
    from agentserver.config.findings import did_you_mean
    from agentserver.config.glimpse import servers

    path = project.located(organism)
    project.glimpse(ctx, path)
    found, directory, mistakes = servers(path, os.environ)
    if mistakes:
        project.refuse(ctx, *(each.coded() for each in mistakes))
    chosen = tuple(each for each in found if only in (None, each.name))
    if not chosen:
        hint = did_you_mean(only or "", (each.name for each in found))
        project.refuse(
            ctx, f"{path}: mcp: has no server {only or ''}".rstrip() + (f" ({hint})" if hint else "")
        )
    return chosen, directory


def _asked(ctx: click.Context, server: McpServer, directory: Path) -> ServerFound:
    from agentserver.mcp.client.connection import LostError, ask
    from agentserver.worker.commands import check_walls, open_launch
    from agentserver.worker.wall.raising import WallError

    try:
        check_walls((server,))
        return ask(server, directory, open_launch)
    except (LostError, WallError) as error:
        project.refuse(ctx, str(error))


def _shown(server: McpServer, found: ServerFound) -> Iterator[str]:
    from agentserver.payload.foreign.lock import forms
    from agentserver.payload.foreign.mapping import UnmappableError

    yield f"{server.name}: {found.lock.server}, protocol {found.lock.protocol}"
    if found.instructions:
        yield "  its instructions, which no prompt is given:"
        yield from _theirs(found.instructions)
    for tool in found.lock.tools:
        yield f"  {tool.name}:"
        yield from _theirs(tool.description)
        yield from _inside("arguments", tool.takes)
        yield from _inside("result", tool.gives)
        try:
            made = forms(server.name, tool)
        except UnmappableError as error:
            yield f"    cannot be a listener: {error}"
            continue
        for what, mapped in (("arguments", made.takes), ("result", made.gives)):
            for note in mapped.notes if mapped is not None else ():
                yield f"    {what}{note.pointer}: JSON as text, since it {note.reason}"


def _inside(what: str, schema: Any) -> Iterator[str]:
    """The descriptions inside a schema: models are told them with the fields that they stand at."""
    from agentserver.hygiene.json.tree import positions

    for pointer, each in positions(schema):
        said = each.get("description") if isinstance(each, dict) else None
        if isinstance(said, str):
            yield f"    {what}{pointer}:"
            yield from _theirs(said)


def _theirs(text: str) -> Iterator[str]:
    """A stranger's text, on lines that show it to be one."""
    from agentserver.characters.printing import clean_lines

    for line in clean_lines(text, WIDTH, LINES).split("\n"):
        yield f"    | {line}"


def _changes(server: str, agreed: ServerLock, found: ServerLock) -> Iterator[str]:
    from agentserver.payload.foreign.lock import differences

    for tool in agreed.tools:
        now = found.tool(tool.name)
        for words in differences(tool, now):
            yield f"{server}.{tool.name}: {words}"
        if now is not None:
            for line in unified_diff(_text(tool), _text(now), "locked", "now", lineterm="", n=1):
                yield from _theirs(line)
    for tool in found.tools:
        if agreed.tool(tool.name) is None:
            yield f"{server}.{tool.name}: is new"


def _text(tool: LockedTool) -> list[str]:
    return json.dumps(tool.value, indent=2, sort_keys=True).splitlines()
