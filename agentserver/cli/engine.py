"""``agentserver engine``: the database that servers of an organism share.

Owns the words of what is printed. Refuses to know tables, and to print the address of the database.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from agentserver.characters.printing import format_amount
from agentserver.cli import project
from agentserver.cli.reading import refusing, when
from agentserver.cli.verbs import Verbs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from agentserver.engines.postgres.options import PostgresOptions
    from agentserver.engines.postgres.status import EngineState


@click.group("engine", cls=Verbs, short_help="Look after the database that servers share.")
def command() -> None:
    """Look after the database that servers of an organism share (engine: in its YAML)."""


@contextmanager
def _database(ctx: click.Context, organism: Path | None) -> Iterator[PostgresOptions]:
    """The database of an organism, which need not load. Ends the command when it has none, or what is done fails."""
    path = project.located(organism)
    seen = project.glimpse(ctx, path)
    keys = seen.engine
    if keys is None:
        mistakes = seen.unread or seen.mistakes
        project.refuse(ctx, mistakes or f"{path}: has no engine:, so its conversations are in no database")
    with refusing(ctx):
        from agentserver.assembly import postgres_options

        yield postgres_options(keys)


@command.command("migrate", short_help="Make or upgrade the tables.")
@project.organism_option
@click.pass_context
def migrate(ctx: click.Context, organism: Path | None) -> None:
    """Make the schema and its tables, or upgrade them. Run twice, it finds nothing to do the second time.

    One command or server does so at a time. Its user of the database has to own the schema, or be able to create it.
    """
    import anyio

    with _database(ctx, organism) as options:
        from agentserver.engines.postgres.status import migrate as migrated

        made = anyio.run(migrated, options)
    project.say(f"schema {options.schema}: {'made its tables' if made else 'has the tables of this version'}")


@command.command("status", short_help="Show servers, their leases, what waits, and how safe commits are.")
@project.organism_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.pass_context
def status(ctx: click.Context, organism: Path | None, *, as_json: bool) -> None:
    """Show the servers that share the database, their work, and how safe its commits are."""
    import anyio

    with _database(ctx, organism) as options:
        from agentserver.engines.postgres.status import read_state

        found = anyio.run(read_state, options)
    if as_json:
        click.echo(json.dumps(_fields(found)))
        return
    for line in _lines(found, options.schema):
        project.say(line)


def _fields(found: EngineState) -> dict[str, object]:
    lists = {
        name: [each._asdict() for each in getattr(found, name)]
        for name in ("standbys", "servers", "history", "losses")
    }
    return {**found._asdict(), **lists, "work": found.work._asdict()}


def _lines(found: EngineState, schema: str) -> Iterator[str]:
    yield f"database: Postgres {found.version}, schema {schema}, {found.size} bytes"
    for standby in found.standbys:
        yield f"standby {standby.name}: {standby.state or 'not shown to this user'}, {standby.sync or '-'}"
    yield from (f"warning: {line}" for line in found.weak)
    for each in found.servers:
        lease = f"its lease ends in {each.lease:.1f} s" if each.lease > 0 else "its lease is over"
        claimed = format_amount(each.conversations, "conversation")
        yield f"server {each.number} {each.name}: since {when(each.began)}, {lease}, {claimed}"
    if not found.servers:
        yield "no server has a lease"
    work = found.work
    yield f"conversations: {work.open} open; dead letters: {work.dead}"
    yield f"queued: {work.queued}, the oldest of {when(work.oldest)}; inbox: {work.inbox}, since {when(work.waiting)}"
    for part in found.history:
        kept = format_amount(part.conversations, "conversation")
        yield f"history {part.number}: of conversations since {when(part.began)}, {kept} kept, {part.size} bytes"
    for loss in found.losses:
        lost = format_amount(len(loss.conversations), "conversation")
        yield f"lost: {loss.name} found steps of {lost} missing at {when(loss.at)}: {', '.join(loss.conversations)}"
    if found.losses:
        yield "no message is accepted until agentserver engine accept-loss"


@command.command("accept-loss", short_help="Go on though the database has lost messages.")
@project.organism_option
@click.pass_context
def accept_loss(ctx: click.Context, organism: Path | None) -> None:
    """Go on with a database that has lost what was acknowledged, as a standby may that was behind when it took over.

    Servers accept nothing after they have noticed. What was lost is gone for good after this: look for the former
    primary first.
    """
    import anyio

    with _database(ctx, organism) as options:
        from agentserver.engines.postgres.status import accept_loss as accepted

        losses = anyio.run(accepted, options)
    for name, conversations in losses:
        project.say(f"accepted what {name} misses of {', '.join(conversations)}")
    if not losses:
        project.say("no server has noticed a loss")
