"""``agentserver audit``: whether the record of handoffs is as it was written.

Owns the messages and the exit codes. The chain is handoff's.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from agentserver.cli import project

BROKEN = 1


@click.command("verify", short_help="Find records that were changed, removed or moved.")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.pass_context
def verify(ctx: click.Context, file: Path | None) -> None:
    """Follow the chain of the record of handoffs in FILE (out/handoff-audit.jsonl).

    Prints how many records it has and the last hash. Exit code 1, with the first line concerned, when a record
    was altered, removed, inserted or moved; 2 when the file cannot be read.
    """
    from agentserver.handoff.audit import Flaw
    from agentserver.handoff.edge.records import DEFAULT, verify_file

    file = file or DEFAULT
    try:
        found = verify_file(file, partial(click.echo, err=True))
    except OSError as error:
        project.refuse(ctx, f"{file}: {error.strerror}")
    if isinstance(found, Flaw):
        click.echo(f"{file}: the record in line {found.line} {found.detail}")
        ctx.exit(BROKEN)
    click.echo(
        f"{file}: intact, {found.count} record{'' if found.count == 1 else 's'}, last hash {found.hash}"
    )


command = click.Group(
    "audit",
    commands=[verify],
    short_help="Verify the record of handoffs.",
    help="The record of handoffs, which holds every attempt.",
)
