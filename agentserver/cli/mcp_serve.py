"""``agentserver mcp serve``: an organism as an MCP server; and ``mcp token``, for those who reach it by HTTP.

Owns standard output, which belongs to the protocol: everything else that is printed goes to standard error. What a call
is, is for agentserver/mcp/serving.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING

import click

from agentserver.cli import project, session
from agentserver.extras import require

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import TextIO

    from agentserver.assembly import Server
    from agentserver.config.organism import McpServing
    from agentserver.mcp.serving.offering import Offering

PRINCIPAL = "mcp"
"""The principal whose words the host at standard input says."""


@click.command("serve", short_help="Offer listeners to MCP hosts as tools.")
@project.organism_argument
@click.option("--http", is_flag=True, help="By HTTP on this machine, instead of standard input and output.")
@click.option("--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="Of --http.")
@click.pass_context
def serve(ctx: click.Context, organism: Path | None, *, http: bool, port: int) -> None:
    """Offer what mcp_server: of ORGANISM exposes to hosts of the Model Context Protocol. Needs the extra mcp.

    On standard input and output there is one host, whose conversation ends with the process. By --http a host shows a
    bearer token at http://127.0.0.1:PORT/mcp, and the conversation is its principal's, however often it connects: what
    it was answered in one connection is known in the next. Nothing but the protocol is written to standard output.

    What needs an approval waits in the journal for agentserver approve and agentserver deny.
    """
    wire = None if http else _wire()
    loaded = project.load(ctx, organism)
    serving = loaded.serving
    if serving is None:
        project.refuse(
            ctx, f"{loaded.files[0]}: has no mcp_server:, which says what is exposed (docs/mcp-server.md)"
        )
    known = _tokens(ctx, loaded.project, serving) if http else {}
    require("agentserver mcp serve", "mcp")
    from agentserver.mcp.serving import transport  # takes its time, in which no event loop may wait

    server = project.server(ctx, loaded, durable=True)
    offering = _offering(ctx, server, serving)
    ending = session.ending_of(server)
    protocol = offering.protocol(transport.caller if wire is None else lambda: PRINCIPAL, loaded.name)

    async def hosts() -> None:
        if wire is not None:
            await transport.over_streams(protocol, wire)
            await offering.rooms.close()
            return
        try:
            await transport.over_http(transport.application(protocol, known, offering.most), port, _told)
        finally:
            offering.rooms.leave()

    session.run(ctx, ending, partial(session.served, server, ending, hosts))


@click.command("token", short_help="Make a token for a principal of mcp serve --http.")
@click.argument("name")
def token(name: str) -> None:
    """Print a new token, and the line with its digest for the file that mcp_server: tokens: names.

    The token is shown here and nowhere else. NAME is the principal's on the record.
    """
    from agentserver import bearer
    from agentserver.core.state import principals
    from agentserver.mcp.serving import tokens

    why = principals.unfit(name, frozenset())
    if why:
        raise click.ClickException(f"{name!r} {why}, so no principal can bear it")
    made = bearer.fresh()
    project.say(tokens.line(name, made))
    project.say(f"its token: {made}", err=True)


def _wire() -> TextIO:
    """Standard output for the protocol alone.

    Whatever else writes to it, code of the organism included, writes to standard error from here on.
    """
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(kept, "w", encoding="utf-8")


def _tokens(ctx: click.Context, root: Path, serving: McpServing) -> Mapping[str, str]:
    if serving.tokens is None:
        project.refuse(ctx, "mcp_server: has no tokens:, without which nobody could be known by HTTP")
    try:
        return known_tokens(root / serving.tokens)
    except ValueError as error:
        project.refuse(ctx, str(error))


def known_tokens(path: Path) -> Mapping[str, str]:
    """The principals of a file, by the digest of their token. Raises ValueError, which names the file."""
    from agentserver.mcp.serving import tokens

    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: {getattr(error, 'strerror', None) or 'is no text'}") from None
    try:
        known = tokens.read(text)
    except ValueError as error:
        raise ValueError(f"{path}:{error}") from None
    if not known:
        raise ValueError(f"{path}: holds no token; agentserver mcp token NAME makes one")
    return known


def _told(port: int) -> None:
    project.say(f"http://127.0.0.1:{port}/mcp", err=True)


def _offering(ctx: click.Context, server: Server, serving: McpServing) -> Offering:
    from agentserver.mcp.serving.offering import Offering

    try:
        return Offering.of(server, serving)
    except ValueError as error:
        project.refuse(ctx, str(error))
