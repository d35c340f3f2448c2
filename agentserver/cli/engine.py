"""``agentserver engine``: the database that servers of an organism share. Its address is never printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from agentserver.characters.printing import format_amount
from agentserver.cli import project
from agentserver.cli.listing import RecordPrinter, add_record_options, format_time
from agentserver.cli.project import Verbs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from agentserver.engines.postgres.connection import PostgresOptions
    from agentserver.engines.postgres.operations import EngineState


@click.group("engine", cls=Verbs, short_help="Manage the database that servers share.")
def command() -> None:
    """Manage the database that servers of an organism share (engine: in its YAML)."""


def _find_database(organism: Path | None) -> PostgresOptions:
    """Find the database of an organism, which need not load. Ends the command without a database."""
    path = project.find_organism_or_raise(organism)
    seen = project.read_glimpse(path)
    keys = seen.engine
    if keys is None:
        mistakes = seen.unread or seen.mistakes
        project.refuse(mistakes or f"{path}: has no engine:, so its conversations are in no database")
    from agentserver.assembly import describe_postgres_options

    return describe_postgres_options(keys)


@command.command("migrate", short_help="Create or upgrade the tables.")
@project.add_organism_option
def migrate(organism: Path | None) -> None:
    """Create the schema and its tables, or upgrade them. A second run changes nothing.

    Only one command or server migrates at a time. The database user must own the schema or be able to create
    it.
    """
    import anyio

    options = _find_database(organism)
    from agentserver.engines.postgres import operations as database  # needs an extra

    changed = anyio.run(database.migrate, options)
    project.say(
        f"schema {options.schema}: {'tables created or upgraded' if changed else 'tables are up to date'}"
    )


@command.command("status", short_help="Show servers, leases, queued work, and the safety of commits.")
@project.add_organism_option
@add_record_options
def status(organism: Path | None, *, shows: RecordPrinter) -> None:
    """Show the servers that share the database, their work, and how safe its commits are."""
    import anyio

    options = _find_database(organism)
    from agentserver.engines.postgres import operations as database  # needs an extra

    found = anyio.run(database.read_state, options)
    shows.print(_build_status_fields(found), below=_iter_status_lines(found, options.schema))


def _build_status_fields(found: EngineState) -> dict[str, object]:
    lists = {
        name: [each._asdict() for each in getattr(found, name)]
        for name in ("standbys", "servers", "history", "losses")
    }
    return {**found._asdict(), **lists, "work": found.work._asdict()}


def _iter_status_lines(found: EngineState, schema: str) -> Iterator[str]:
    yield f"database: Postgres {found.version}, schema {schema}, {found.size} bytes"
    for standby in found.standbys:
        yield f"standby {standby.name}: {standby.state or 'not shown to this user'}, {standby.sync or '-'}"
    yield from (f"warning: {line}" for line in found.weak)
    for each in found.servers:
        lease = f"its lease ends in {each.lease:.1f} s" if each.lease > 0 else "its lease has expired"
        claimed = format_amount(each.conversations, "conversation")
        yield f"server {each.number} {each.name}: since {format_time(each.began)}, {lease}, {claimed}"
    if not found.servers:
        yield "no server has a lease"
    work = found.work
    yield f"conversations: {work.open} open; dead letters: {work.dead}"
    inbox = f"{work.inbox}, since {format_time(work.waiting)}"
    yield f"queued: {work.queued}, oldest from {format_time(work.oldest)}; inbox: {inbox}"
    for part in found.history:
        stored = format_amount(part.conversations, "conversation")
        since = f"conversations since {format_time(part.began)}"
        yield f"history {part.number}: {since}, {stored} stored, {part.size} bytes"
    for loss in found.losses:
        lost = format_amount(len(loss.conversations), "conversation")
        missing = f"{loss.name} found steps of {lost} missing at {format_time(loss.at)}"
        yield f"lost: {missing}: {', '.join(loss.conversations)}"
    if found.losses:
        yield "no message is accepted until agentserver engine accept-loss"


@command.command("accept-loss", short_help="Continue although the database has lost messages.")
@project.add_organism_option
def accept_loss(organism: Path | None) -> None:
    """Continue with a database that has lost acknowledged messages, as after failover to a lagging standby.

    Servers accept no message after they have noticed. This gives the lost messages up: look for the former primary
    first.
    """
    import anyio

    options = _find_database(organism)
    from agentserver.engines.postgres import operations as database  # needs an extra

    losses = anyio.run(database.accept_loss, options)
    for name, conversations in losses:
        project.say(f"accepted the loss that {name} noticed in {', '.join(conversations)}")
    if not losses:
        project.say("no server has noticed a loss")
