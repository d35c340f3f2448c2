"""``agentserver conversations``: what the journal knows of.

Owns the filters and the columns.
"""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from agentserver.cli import project
from agentserver.cli.reading import journal_option, reading, source, when

if TYPE_CHECKING:
    from pathlib import Path

    from agentserver.core.encoding.recorded import Summary


@click.command("conversations", short_help="List the conversations of the journal.")
@journal_option
@click.option("--open", "only_open", is_flag=True, help="Only those that are not finished.")
@click.option("--principal", help="Only those of this principal.")
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="At most so many.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.pass_context
def command(ctx: click.Context, /, organism: Path | None, journal: Path | None, **asked: Any) -> None:
    """List the conversations of the journal, the one where something happened last first."""
    with reading(ctx, source(ctx, organism, journal)) as reader:
        wanted = (
            one
            for one in reader.conversations()
            if (one.closed is None or not asked["only_open"]) and asked["principal"] in (None, one.principal)
        )
        aside = frozenset(one.id for one in reader.aside())
        found = [*islice(wanted, asked["limit"])]
        if not found:
            project.say("there are no such conversations", err=True)
        for summary in found:
            click.echo(json.dumps(summary._asdict()) if asked["as_json"] else _line(summary, aside))


def _line(one: Summary, aside: frozenset[str]) -> str:
    from agentserver.characters.printing import escape_unseen
    from agentserver.spending import NOTHING_SPENT, Amount

    state = "aside" if one.id in aside else "open" if one.closed is None else "finished"
    charged = Amount(one.tokens, one.money)
    spent = f"  {charged}" if charged != NOTHING_SPENT else ""
    return (
        f"{one.id}  {when(one.touched)}  {state:8}  {one.steps:5} steps  {one.waiting} waiting  "
        f"{one.unread} not fetched  {escape_unseen(one.principal)}{spent}"
    )
