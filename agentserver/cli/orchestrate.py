"""``agentserver orchestrate``: the bridge from a managed agent's session to the agents that it hands work to.

Owns what is said when the service's SDK or a key is missing. The loop and its variables are handoff's.
"""

from __future__ import annotations

import json
import os
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentserver.cli import project, session
from agentserver.extras import require

if TYPE_CHECKING:
    from collections.abc import Collection

    from agentserver.assembly import Server
    from agentserver.handoff.intents import Vocabulary

KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")


@click.command("orchestrate", short_help="Hand over what a managed agent asks for.")
@click.option(
    "--organism",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Hand requests to the listeners of this organism, by its intents, instead of to managed agents.",
)
@click.option(
    "--vocabulary",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Judge by the intents of this organism, which does not run; those of the reference loop when left out.",
)
@click.option(
    "--dry-run",
    "dry",
    is_flag=True,
    help="Judge requests and print how; send, answer and record nothing.",
)
@click.option("--tool", is_flag=True, help="Print the definition of the tool handoff_request, and end.")
@click.pass_context
def command(
    ctx: click.Context, organism: Path | None, vocabulary: Path | None, *, dry: bool, tool: bool
) -> None:
    """Listen to a managed agent's session and hand its requests over until the session ends.

    Every attempt goes on the record, out/handoff-audit.jsonl or the organism's own. How far the session was listened
    to is kept in out/, so that what it asks meanwhile is heard at the next start. Needs the extra managed.

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

    if organism is not None and (vocabulary is not None or dry):
        raise click.UsageError("--organism has its own intents, and does not run dry")
    project.log_without(ctx, Secrets.of(os.environ.get(name, "") for name in KEYS))
    words = _words(ctx, organism or vocabulary)
    if tool:
        from agentserver.handoff.managed.tool import definition

        click.echo(json.dumps(definition(words), indent=2))
        return
    into = None if organism is None else partial(_into, ctx, _server(ctx, organism))
    start = into or partial(_run, words, dry)
    targets = words.targets if into is None else None
    ctx.exit(orchestrate.main(os.environ, partial(click.echo, err=True), start, targets))


def _words(ctx: click.Context, path: Path | None) -> Vocabulary:
    """The intents of an organism, or those of the reference loop."""
    from agentserver.handoff.reference import reference

    if path is None:
        return reference()
    loaded = project.load(ctx, path)
    if loaded.handoffs is None or not loaded.handoffs.vocabulary.intents:
        project.refuse(ctx, f"{path}: has no intents, by which requests could be judged")
    return loaded.handoffs.vocabulary


def _run(words: Vocabulary, dry: bool, session_id: str, agents: Any, source: str, **more: Any) -> None:  # noqa: FBT001
    from agentserver.core.state import principals
    from agentserver.handoff.edge.cursor import SessionCursor
    from agentserver.handoff.managed import orchestrate

    _fit(source, principals.taken(()))
    desk = orchestrate.Desk(words, cursor=SessionCursor(session_id))
    with closing(_client()) as client:
        if dry:
            orchestrate.rehearse(session_id, source, client=client, desk=desk, say=project.say)
        else:
            orchestrate.run(session_id, agents, source, client=client, desk=desk, **more)


def _fit(source: str, taken: Collection[str]) -> None:
    """Raise EnvironmentFault where no principal can bear the name of the source."""
    from agentserver.core.state import principals
    from agentserver.handoff.managed.orchestrate import EnvironmentFault

    why = principals.unfit(source, taken)
    if why:
        raise EnvironmentFault(f"SOURCE_AGENT {source!r} {why}")


def _server(ctx: click.Context, path: Path) -> Server:
    """The organism, which must have intents."""
    loaded = replace(project.load(ctx, path), strangers=True)
    server = project.server(ctx, loaded, durable=True)
    if server.rules.rewriter is None:
        project.refuse(ctx, f"{path}: has no intents, by which requests could be judged")
    return server


def _into(
    ctx: click.Context, server: Server, session_id: str, _agents: object, source: str, **_more: object
) -> None:
    """Run the organism for as long as the session lasts, or until a signal."""
    from agentserver.core.handoffs import Handoff
    from agentserver.core.state import principals
    from agentserver.gateways.bridge import Bridge
    from agentserver.handoff.edge.cursor import SessionCursor
    from agentserver.handoff.edge.records import DEFAULT, AuditFile
    from agentserver.handoff.managed import agents

    _fit(source, principals.taken(server.rules.blueprint.listeners))
    record = AuditFile(server.handoffs or DEFAULT, heads=server.heads)
    # The words of a managed agent are its model's, out of whatever it has read.
    agent = principals.Principal(source, principals.Trust.STRANGER)
    bridge = Bridge(server, server.rules.codecs.of(Handoff), agent, record)
    lost: list[agents.SourceLost] = []

    async def listen() -> None:
        try:
            await bridge.run(agents.ManagedOutput(client, session_id, cursor=SessionCursor(session_id)))
        except agents.SourceLost as error:
            lost.append(error)

    ending = session.ending_of(server)
    with closing(_client()) as client:
        try:
            session.run(ctx, ending, partial(session.served, server, ending, listen))
        except click.exceptions.Exit:
            if lost:
                raise lost[0] from None
            raise


def _client() -> Any:
    """The service, with a way to authenticate. Raises click.ClickException without the SDK, EnvironmentFault."""
    from agentserver.handoff.managed import orchestrate

    require("a managed agent", "managed")
    return orchestrate.connect()
