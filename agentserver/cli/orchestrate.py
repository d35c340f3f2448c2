"""``agentserver orchestrate``: the bridge from a managed agent's session to the agents that it hands work to.

Owns what is said when the service's SDK or a key is missing. The loop and its variables are handoff's.
"""

from __future__ import annotations

import os
from contextlib import closing
from functools import partial
from typing import Any

import click

from agentserver.cli.logs import Logging, configure

KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")


@click.command("orchestrate", short_help="Hand over what a managed agent asks for.")
@click.pass_context
def command(ctx: click.Context) -> None:
    """Listen to a managed agent's session and hand its requests over until the session ends.

    Every attempt goes on the record, out/handoff-audit.jsonl. Needs the extra agentserver[managed].

    \b
    SOURCE_SESSION_ID  the session that is listened to; required
    AGENT_IDS          JSON object from target to session id, {} when unset
    SOURCE_AGENT       the sender's name on the record, unknown when unset
    ENVIRONMENT_ID     when set, AGENT_IDS has agent ids, and each handoff
                       gets a session of its own
    ANTHROPIC_API_KEY  as the SDK reads it, like its other variables
    """  # noqa: D301 - click's mark for lines to leave as they are
    from agentserver.config import Secrets
    from agentserver.handoff.edge import orchestrate

    options = ctx.obj if isinstance(ctx.obj, Logging) else Logging()
    configure(options, Secrets.of(os.environ.get(name, "") for name in KEYS))
    ctx.exit(orchestrate.main(os.environ, partial(click.echo, err=True), _run))


def _run(*settings: Any, **more: Any) -> None:
    from agentserver.handoff.edge import orchestrate

    with closing(_client()) as client:
        orchestrate.run(*settings, client=client, **more)


def _client() -> Any:
    """The service, with a way to authenticate. Raises click.ClickException without the SDK, EnvironmentFault."""
    from agentserver.handoff.edge import orchestrate

    try:
        return orchestrate.connect()
    except ModuleNotFoundError as error:
        if error.name != "anthropic":
            raise
        raise click.ClickException(
            "managed agents need an extra: pip install 'agentserver[managed]'"
        ) from None
