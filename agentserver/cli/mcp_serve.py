"""``agentserver mcp serve``: an organism as the MCP server of one host, at standard input and output.

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
    from pathlib import Path
    from typing import TextIO

    from agentserver.assembly import Server
    from agentserver.config.organism import McpServing
    from agentserver.mcp.serving.transport import ServedOrganism


@click.command("serve", short_help="Offer listeners to MCP hosts as tools.")
@project.organism_argument
@click.pass_context
def serve(ctx: click.Context, organism: Path | None) -> None:
    """Offer what mcp_server: of ORGANISM exposes to hosts of the Model Context Protocol. Needs the extra mcp.

    There is one host, at standard input and output, and its conversation ends with the process. Nothing but the
    protocol is written to standard output. By HTTP, agentserver serve offers the same tools at /mcp to principals.

    What needs an approval waits in the journal for agentserver approve and agentserver deny.
    """
    wire = _wire()
    loaded = project.load(ctx, organism)
    serving = loaded.serving
    if serving is None:
        project.refuse(
            ctx, f"{loaded.files[0]}: has no mcp_server:, which says what is exposed (docs/mcp-server.md)"
        )
    require("agentserver mcp serve", "mcp")
    from agentserver.core.state.principals import HOST, Principal
    from agentserver.mcp.serving import transport  # takes its time, in which no event loop may wait

    server = project.server(ctx, loaded, durable=True)
    offering = _offering(ctx, server, serving)
    ending = session.ending_of(server)
    protocol = offering.protocol(lambda: Principal(HOST), loaded.name)

    async def hosts() -> None:
        await transport.over_streams(protocol, wire)
        await offering.rooms.close()

    session.run(ctx, ending, partial(session.served, server, ending, hosts))


def _wire() -> TextIO:
    """Standard output for the protocol alone.

    Whatever else writes to it, code of the organism included, writes to standard error from here on.
    """
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(kept, "w", encoding="utf-8")


def _offering(ctx: click.Context, server: Server, serving: McpServing) -> ServedOrganism:
    from agentserver.mcp.serving.transport import ServedOrganism

    try:
        return ServedOrganism.build(server, serving)
    except ValueError as error:
        project.refuse(ctx, str(error))
