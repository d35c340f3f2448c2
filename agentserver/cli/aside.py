"""``agentserver journal aside``: conversations that cannot go on, why, and what may be done about it.

Owns the listing and the words. What it means to be aside, the engine says.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import click

from agentserver.cli import project
from agentserver.cli.journal import changing
from agentserver.cli.reading import journal_option, reading, source_and_secrets, the_only, when
from agentserver.cli.verbs import Verbs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from agentserver.core.encoding.recorded import Aside


@click.group("aside", cls=Verbs, short_help="List, show, repair or discard conversations that are set aside.")
def command() -> None:
    """Conversations that a server could not go on with: it told their principals and served the others.

    One is set aside when it cannot be read, when a guard that remembers something of it is gone from the organism, or
    when nothing can be decided about it. Everything that is recorded of it stays.
    """


def _chosen(ctx: click.Context, found: Sequence[Aside], prefix: str) -> Aside:
    matching = [one for one in found if one.id.startswith(prefix)]
    return the_only(ctx, matching, f"conversations that are set aside begin with {prefix!r}")


@command.command("list")
@journal_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.pass_context
def listing(ctx: click.Context, organism: Path | None, journal: Path | None, *, as_json: bool) -> None:
    """List the conversations that are set aside, oldest first."""
    from agentserver.characters.printing import escape_unseen

    kept, secrets = source_and_secrets(ctx, organism, journal)
    with reading(ctx, kept) as reader:
        found = [one._replace(reason=secrets.redact(one.reason)) for one in reader.aside()]
    for one in found:
        line = f"{one.id}  {when(one.at)}  {one.waiting} waiting  {one.principal}  {one.reason[:200]}"
        click.echo(json.dumps(one._asdict()) if as_json else escape_unseen(line))


@command.command("show")
@click.argument("conversation")
@journal_option
@click.pass_context
def show(ctx: click.Context, conversation: str, organism: Path | None, journal: Path | None) -> None:
    """Show why CONVERSATION, the id or its beginning, is set aside. ``agentserver trace`` shows what happened in it."""
    from agentserver.trace.terminal import visible_lines

    kept, secrets = source_and_secrets(ctx, organism, journal)
    with reading(ctx, kept) as reader:
        one = _chosen(ctx, reader.aside(), conversation)
    for text in (
        f"conversation {one.id} of {one.principal}, set aside {when(one.at)}",
        f"deliveries that wait in it: {one.waiting}",
        one.reason,
    ):
        for row in visible_lines(secrets.redact(text), whole=True):
            click.echo(row)


@command.command("repair", short_help="Put back what the organism can read now.")
@click.argument("conversation")
@journal_option
@click.pass_context
def repair(ctx: click.Context, conversation: str, organism: Path | None, journal: Path | None) -> None:
    """Read CONVERSATION, the id or its beginning, with the present organism, and put it back when that succeeds.

    The next run takes up what waits in it. Its principal was told that what waits has failed, and is told again what
    comes of it. The server must not be running.
    """
    from agentserver.core.encoding.snapshot import UnreadableError
    from agentserver.engines.journal.care import aside as journal_aside
    from agentserver.engines.journal.reader import Reader

    rules = project.server(ctx, project.load(ctx, organism)).rules
    with changing(ctx, organism, journal) as connection:
        reader = Reader(connection, rules.guards)
        one = _chosen(ctx, reader.aside(), conversation)
        try:
            reader.load_aside(one.id)
        except UnreadableError as error:
            project.refuse(ctx, f"{one.id} stays aside: {error}")
        journal_aside.put_back(connection, one.id, time.time())
    click.echo(f"{one.id} is put back: the next run goes on with it")


@command.command("discard", short_help="End one that will not be repaired.")
@click.argument("conversation")
@journal_option
@click.pass_context
def discard(ctx: click.Context, conversation: str, organism: Path | None, journal: Path | None) -> None:
    """End CONVERSATION, the id or its beginning: what waits in it is dropped, what is recorded of it ages out.

    The server must not be running.
    """
    from agentserver.engines.journal.care import aside as journal_aside
    from agentserver.engines.journal.reader import Reader

    with changing(ctx, organism, journal) as connection:
        one = _chosen(ctx, Reader(connection).aside(), conversation)
        journal_aside.discard(connection, one.id, time.time())
    click.echo(f"{one.id} is discarded")
