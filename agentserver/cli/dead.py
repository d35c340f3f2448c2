"""``agentserver dead``: deliveries that their listeners could not deal with.

Owns the listing and who may be queued again. What a dead letter is, the engine says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from agentserver.cli import project
from agentserver.cli.journal import journal_option, located, reading, when, writing

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from agentserver.engines.journal_reader import DeadLetter


@click.group("dead", short_help="List, show, queue again or discard dead letters.")
def command() -> None:
    """Deliveries that were given up: their listener crashed, was late, or is not there any more."""


def _chosen(ctx: click.Context, letters: Sequence[DeadLetter], prefix: str) -> DeadLetter:
    found = [letter for letter in letters if letter.delivery.id.startswith(prefix)]
    if len(found) != 1:
        project.refuse(ctx, f"{len(found) or 'no'} dead letters begin with {prefix!r}")
    return found[0]


@command.command("list")
@journal_option
@click.pass_context
def listing(ctx: click.Context, organism: Path | None, journal: Path | None) -> None:
    """List the dead letters, oldest first."""
    from agentserver.gateways.terminal import visible

    with reading(ctx, located(ctx, organism, journal)) as reader:
        for letter in reader.dead():
            delivery = letter.delivery
            local = delivery.root.rpartition("}")[2]
            click.echo(
                f"{delivery.id}  {when(letter.at)}  {delivery.sender} -> {delivery.to} {local}  "
                f"{visible(letter.reason)[:200]}"
            )


@command.command("show")
@click.argument("delivery")
@journal_option
@click.pass_context
def show(ctx: click.Context, delivery: str, organism: Path | None, journal: Path | None) -> None:
    """Show one dead letter: why it was given up, and its message."""
    from agentserver.gateways.terminal import visible_lines

    with reading(ctx, located(ctx, organism, journal)) as reader:
        letter = _chosen(ctx, reader.dead(), delivery)
    one = letter.delivery
    state = "open" if letter.open else "finished"
    for text in (
        f"delivery {one.id}, given up {when(letter.at)}",
        f"from {one.sender} to {one.to}, hop {one.hop}",
        f"in conversation {one.conversation} of {letter.principal}, which is {state}",
        letter.reason,
        one.message.decode("utf-8", "backslashreplace"),
    ):
        for row in visible_lines(text):
            click.echo(row)


@command.command("discard")
@click.argument("delivery")
@journal_option
@click.pass_context
def discard(ctx: click.Context, delivery: str, organism: Path | None, journal: Path | None) -> None:
    """Take one off the list. What is recorded of it stays. The server must not be running."""
    from agentserver.engines import journal_care
    from agentserver.engines.journal_reader import Reader

    with writing(ctx, located(ctx, organism, journal)) as connection:
        letter = _chosen(ctx, Reader(connection).dead(), delivery)
        journal_care.discard(connection, letter.delivery.id)
    click.echo(f"{letter.delivery.id} is discarded")


@command.command("requeue")
@click.argument("delivery")
@journal_option
@click.pass_context
def requeue(ctx: click.Context, delivery: str, organism: Path | None, journal: Path | None) -> None:
    """Queue one again on its thread; the next run takes it up. The server must not be running.

    Possible while its conversation is open and its thread lives: elsewhere nobody waits for what would come of it.
    """
    from agentserver.assembly import SystemClock
    from agentserver.core.requeue import requeue as again
    from agentserver.engines.journal_reader import Reader
    from agentserver.engines.journal_writer import Writer

    loaded = project.load(ctx, organism)
    rules = project.server(ctx, loaded).rules
    path = journal or located(ctx, organism, journal)
    with writing(ctx, path) as connection:
        reader = Reader(connection, rules.guards)
        letter = _chosen(ctx, reader.dead(), delivery)
        conversation = reader.load(letter.delivery.conversation)
        if conversation is None:
            project.refuse(ctx, "its conversation is finished: nobody waits for what would come of it")
        try:
            outcome = again(conversation, letter.delivery, rules, SystemClock().moment())
        except LookupError as error:
            project.refuse(ctx, str(error.args[0]))
        (trouble,) = Writer(connection, path, rules.guards).commit([outcome])
        if trouble is not None:
            project.refuse(ctx, str(trouble))
    click.echo(f"{letter.delivery.id} is queued again")
