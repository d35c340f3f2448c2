"""``agentserver replay``: would everything be decided as it was?

Owns the report. The comparison is for engines/replay.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from agentserver.cli import project
from agentserver.cli.journal import journal_option, located, one_conversation, reading

if TYPE_CHECKING:
    from pathlib import Path

DIFFERENT = 1


@click.command("replay", short_help="Decide recorded conversations again and compare.")
@click.argument("conversation", required=False)
@journal_option
@click.pass_context
def command(
    ctx: click.Context, conversation: str | None, organism: Path | None, journal: Path | None
) -> None:
    """Decide CONVERSATION, or every conversation of the journal, again under the organism as it is now.

    No handler runs: what handlers answered is in the journal. Prints the first step of each conversation that would
    be decided otherwise, or that is not what was written; exit code 1 when there is one.
    """
    from agentserver.engines.journal_care import broken_link
    from agentserver.engines.replay import replay

    rules = project.server(ctx, project.load(ctx, organism)).rules
    different = total = steps = 0
    with reading(ctx, located(ctx, organism, journal)) as reader:
        keys = (
            [one.id for one in reader.conversations()]
            if conversation is None
            else [one_conversation(ctx, reader, conversation)]
        )
        for key in keys:
            story = reader.story(key)
            total, steps = total + 1, steps + len(story.steps)
            changed = broken_link(story)
            if changed is not None:
                different += 1
                click.echo(f"{key}: step {changed} is not what was written")
                continue
            found = replay(story, rules)
            if found is not None:
                different += 1
                click.echo(f"{key}: step {found.version}: then {found.then}; now {found.now}")
    click.echo(f"{total} conversations, {steps} steps; {different} differ")
    ctx.exit(DIFFERENT if different else 0)
