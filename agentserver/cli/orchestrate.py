"""``agentserver orchestrate``: the bridge from a managed agent's session to the agents that it hands work to.

Owns what is said when the service's SDK or a key is missing. The loop and its variables are handoff's.
"""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentserver.cli import project
from agentserver.cli.logs import Logging, configure
from agentserver.extras import MissingExtraError, require

if TYPE_CHECKING:
    from agentserver.assembly import Server

KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")


@click.command("orchestrate", short_help="Hand over what a managed agent asks for.")
@click.option(
    "--organism",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Hand requests to the listeners of this organism, by its intents, instead of to managed agents.",
)
@click.pass_context
def command(ctx: click.Context, organism: Path | None) -> None:
    """Listen to a managed agent's session and hand its requests over until the session ends.

    Every attempt goes on the record, out/handoff-audit.jsonl or the organism's own. Needs the extra managed.

    \b
    SOURCE_SESSION_ID  the session that is listened to; required
    AGENT_IDS          JSON object from target to session id, {} when unset
    SOURCE_AGENT       the sender's name on the record, unknown when unset
    ENVIRONMENT_ID     when set, AGENT_IDS has agent ids, and each handoff
                       gets a session of its own
    ANTHROPIC_API_KEY  as the SDK reads it, like its other variables
    """  # noqa: D301 - click's mark for lines to leave as they are
    from agentserver.config.yaml.secrets import Secrets
    from agentserver.handoff.managed import orchestrate

    options = ctx.obj if isinstance(ctx.obj, Logging) else Logging()
    configure(options, Secrets.of(os.environ.get(name, "") for name in KEYS))
    start = _run if organism is None else partial(_into, _server(ctx, organism))
    ctx.exit(orchestrate.main(os.environ, partial(click.echo, err=True), start))


def _run(*settings: Any, **more: Any) -> None:
    from agentserver.handoff.managed import orchestrate

    with closing(_client()) as client:
        orchestrate.run(*settings, client=client, **more)


def _server(ctx: click.Context, path: Path) -> Server:
    """The organism, which must have intents."""
    loaded = replace(project.load(ctx, path), strangers=True)
    server = project.server(ctx, loaded, durable=True)
    if server.rules.rewriter is None:
        project.refuse(ctx, f"{path}: has no intents, by which requests could be judged")
    return server


def _into(server: Server, session: str, _agents: object, source: str, **_more: object) -> None:
    """Run the organism for as long as the session lasts."""
    import anyio

    from agentserver.core.handoffs import Handoff
    from agentserver.core.state import principals
    from agentserver.gateways.bridge import Bridge
    from agentserver.handoff.edge.records import DEFAULT, AuditFile
    from agentserver.handoff.managed import agents
    from agentserver.handoff.managed.orchestrate import EnvironmentFault

    why = principals.unfit(source, principals.taken(server.rules.blueprint.listeners))
    if why:
        raise EnvironmentFault(f"SOURCE_AGENT {source!r} {why}")
    record = AuditFile(server.handoffs or DEFAULT, heads=server.heads)
    # The words of a managed agent are its model's, out of whatever it has read.
    agent = principals.Principal(source, principals.Trust.STRANGER)
    bridge = Bridge(server, server.rules.codecs.of(Handoff), agent, record)

    async def run() -> None:
        with closing(_client()) as client:
            async with server:
                await bridge.run(agents.ManagedOutput(client, session))

    anyio.run(run, backend="asyncio")


def _client() -> Any:
    """The service, with a way to authenticate. Raises click.ClickException without the SDK, EnvironmentFault."""
    from agentserver.handoff.managed import orchestrate

    try:
        require("a managed agent", "managed")
    except MissingExtraError as error:
        raise click.ClickException(str(error)) from None
    return orchestrate.connect()
