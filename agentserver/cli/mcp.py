"""``agentserver mcp``: locks the tools of MCP servers, and serves the organism as one.

Text of a server is shown as foreign, on lines of its own. ``mcp serve`` reserves standard output for the protocol.
"""

from __future__ import annotations

import json
import os
import sys
from difflib import unified_diff
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from agentserver.characters.printing import clean_lines
from agentserver.cli import host, project
from agentserver.cli.process import ExitCode
from agentserver.cli.project import Verbs
from agentserver.extras import require

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import TextIO

    from agentserver.mcp.client.connection import ServerFound
    from agentserver.payload.foreign.lock import LockedTool, McpServer, ServerLock


@click.command("serve", short_help="Offer listeners to MCP hosts as tools.")
@project.add_organism_argument
def serve(organism: Path | None) -> None:
    """Offer what mcp_server: of ORGANISM exposes to an MCP host. Needs the extra mcp.

    Serves one host over standard input and output, whose conversation ends with the process. Only the
    protocol is written to standard output. agentserver serve offers the same tools over HTTP at /mcp to
    principals.

    A message that needs an approval waits in the journal for agentserver approve and agentserver deny.
    """
    wire = _reserve_protocol_output()
    loaded = project.load(organism)
    serving = loaded.serving
    if serving is None:
        project.refuse(
            f"{loaded.files[0]}: has no mcp_server:, which lists the exposed listeners (docs/mcp-server.md)",
        )
    require("agentserver mcp serve", "mcp")
    from agentserver.core.state.principals import HOST, Principal
    from agentserver.mcp.serving import transport  # slow to import, so before the event loop runs

    server = project.build_server(loaded, durable=True)
    with project.refuse_on(ValueError):
        offering = transport.ServedOrganism.build(server, serving)
    ending = host.make_shutdown(server)
    protocol = offering.build_protocol(lambda: Principal(HOST), loaded.name)

    async def hosts() -> None:
        await transport.over_streams(protocol, wire)
        await offering.rooms.close()

    host.run_server(server, ending, partial(host.run_until_signal, ending, hosts))


def _reserve_protocol_output() -> TextIO:
    """Reserve standard output for the protocol, and send all other output to standard error."""
    sys.stdout.flush()
    descriptor = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(descriptor, "w", encoding="utf-8")


LINES = 60
"""Most lines to show of one text of a server."""
WIDTH = 200

_server = click.option("--server", "only", metavar="NAME", help="Only this server; all by default.")


@click.command("lock", short_help="Record the tools of MCP servers.")
@project.add_organism_argument
@_server
def lock(organism: Path | None, only: str | None) -> None:
    """Connect once to each server of ORGANISM and write its tools to schemas/mcp/NAME.json.

    Everything else reads only that file, and a tool that has changed when the server is connected is never
    called. Text after a bar is the server's own, which anyone may have written: read it before you commit the
    file.
    """
    from agentserver.config.code.tools import lock_path
    from agentserver.payload.foreign.lock import LockError, write_lock

    servers, directory = _find_servers(organism, only)
    for server in servers:
        found = _ask_server(server, directory)
        project.say(*_iter_server_lines(server, found))
        path = directory / lock_path(server.name)
        with project.refuse_on(LockError, prefix=f"{server.name}: "):
            text = write_lock(found.lock)
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            project.say(f"{path}: unchanged")
        else:
            project.write(path, text)
            project.say(f"wrote {path}")


@click.command("diff", short_help="Compare the tools of MCP servers with their record.")
@project.add_organism_argument
@_server
def diff(organism: Path | None, only: str | None) -> None:
    """Connect once to each server of ORGANISM and compare its tools with schemas/mcp/NAME.json.

    Exit code 1 when a tool was changed, removed or added.
    """
    from agentserver.config.code.tools import lock_path
    from agentserver.payload.foreign.lock import LockError, read_lock

    servers, directory = _find_servers(organism, only)
    changed = False
    for server in servers:
        path = directory / lock_path(server.name)
        try:
            agreed = read_lock(path.read_bytes())
        except OSError as error:
            project.refuse(f"{path}: {error.strerror}; run: agentserver mcp lock --server {server.name}")
        except LockError as error:
            project.refuse(f"{path} {error}")
        lines = list(_change_lines(server.name, agreed, _ask_server(server, directory).lock))
        project.say(*lines or (f"{server.name}: unchanged",))
        changed = changed or bool(lines)
    project.exit_command(ExitCode.FOUND if changed else 0)


command = Verbs(
    "mcp",
    commands=[lock, diff, serve],
    short_help="Lock the tools of MCP servers; serve as one.",
    help="Lock the tools of MCP servers, which become listeners, and serve the organism as an MCP server.",
)


def _find_servers(organism: Path | None, only: str | None) -> tuple[tuple[McpServer, ...], Path]:
    """Find the selected servers and the project directory. Ends the command when none is found."""
    from agentserver.config.findings import did_you_mean
    from agentserver.config.glimpse import read_servers

    path = project.find_organism_or_raise(organism)
    project.read_glimpse(path)
    found, directory, mistakes = read_servers(path, os.environ)
    if mistakes:
        project.refuse(*(each.format_with_code() for each in mistakes))
    chosen = tuple(each for each in found if only in (None, each.name))
    if not chosen:
        hint = did_you_mean(only or "", (each.name for each in found))
        project.refuse(f"{path}: mcp: has no server {only or ''}".rstrip() + (f" ({hint})" if hint else ""))
    return chosen, directory


def _ask_server(server: McpServer, directory: Path) -> ServerFound:
    from agentserver.mcp.client.connection import LostError, ask
    from agentserver.worker.commands import check_walls, open_launch

    with project.refuse_on(LostError):
        check_walls((server,))
        return ask(server, directory, open_launch)


def _iter_server_lines(server: McpServer, found: ServerFound) -> Iterator[str]:
    from agentserver.payload.foreign.lock import forms
    from agentserver.payload.foreign.mapping import UnmappableError

    yield f"{server.name}: {found.lock.server}, protocol {found.lock.protocol}"
    if found.instructions:
        yield "  its instructions, which never reach a prompt:"
        yield from _iter_foreign_lines(found.instructions)
    for tool in found.lock.tools:
        yield f"  {tool.name}:"
        yield from _iter_foreign_lines(tool.description)
        yield from _iter_description_lines("arguments", tool.takes)
        yield from _iter_description_lines("result", tool.gives)
        try:
            tool_forms = forms(server.name, tool)
        except UnmappableError as error:
            yield f"    cannot be a listener: {error}"
            continue
        for part, mapped in (("arguments", tool_forms.takes), ("result", tool_forms.gives)):
            for note in mapped.notes if mapped is not None else ():
                yield f"    {part}{note.pointer}: JSON as text, since it {note.reason}"


def _iter_description_lines(part: str, schema: Any) -> Iterator[str]:
    """Yield the descriptions inside a schema, which models see with their fields."""
    from agentserver.hygiene.json.tree import iter_positions

    for pointer, each in iter_positions(schema):
        description = each.get("description") if isinstance(each, dict) else None
        if isinstance(description, str):
            yield f"    {part}{pointer}:"
            yield from _iter_foreign_lines(description)


def _iter_foreign_lines(text: str) -> Iterator[str]:
    """Yield a foreign text, on lines that mark it as foreign."""
    for line in clean_lines(text, WIDTH, LINES).split("\n"):
        yield f"    | {line}"


def _change_lines(server: str, agreed: ServerLock, found: ServerLock) -> Iterator[str]:
    from agentserver.payload.foreign.lock import describe_differences

    for tool in agreed.tools:
        now = found.find_tool(tool.name)
        for words in describe_differences(tool, now):
            yield f"{server}.{tool.name}: {words}"
        if now is not None:
            for line in unified_diff(
                _collect_tool_lines(tool), _collect_tool_lines(now), "locked", "now", lineterm="", n=1
            ):
                yield from _iter_foreign_lines(line)
    for tool in found.tools:
        if agreed.find_tool(tool.name) is None:
            yield f"{server}.{tool.name}: is new"


def _collect_tool_lines(tool: LockedTool) -> list[str]:
    return json.dumps(tool.value, indent=2, sort_keys=True).splitlines()
