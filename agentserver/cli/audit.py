"""``agentserver audit``: whether the record of handoffs is as it was written.

Owns the messages and the exit codes. The chain is handoff's, its end the journal's.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentserver.cli import project
from agentserver.cli.verbs import Verbs

if TYPE_CHECKING:
    from agentserver.handoff.edge.heads import Heads

BROKEN = 1


@click.command("verify", short_help="Find records that were changed, removed or moved.")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@project.organism_option
@click.option(
    "--journal",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="The journal that keeps the end of FILE; the organism's own when left out.",
)
@click.pass_context
def verify(ctx: click.Context, file: Path | None, organism: Path | None, journal: Path | None) -> None:
    """Follow the chain of the record of handoffs in FILE, the organism's own when left out.

    Holds it against the end that the organism's journal keeps; where there is neither organism nor journal, against the
    note beside FILE. Prints how many records it has and the last hash. Exit code 1, with the first line concerned, when
    a record was altered, removed, added, inserted or moved; 2 when the file cannot be read.
    """
    from agentserver.handoff.audit import Flaw
    from agentserver.handoff.edge.records import DEFAULT, verify_file

    file, heads = _record(ctx, file or DEFAULT, organism, journal, named=file is not None)
    try:
        found = verify_file(file, partial(project.say, err=True), heads)
    except OSError as error:
        hint = "" if file.exists() else ": no handoff was recorded there; name the file of the record"
        project.refuse(ctx, f"{file}: {error.strerror or error}{hint}")
    if isinstance(found, Flaw):
        project.say(f"{file}: the record in line {found.line} {found.detail}")
        ctx.exit(BROKEN)
    project.say(
        f"{file}: intact, {found.count} record{'' if found.count == 1 else 's'}, last hash {found.hash}"
    )


def _record(
    ctx: click.Context, file: Path, organism: Path | None, journal: Path | None, *, named: bool
) -> tuple[Path, Heads | None]:
    """The file, and where its end is kept, as far as an organism or a journal says."""
    from agentserver.assembly import handoff_heads, handoff_record
    from agentserver.engines.sqlite.care.handoffs import JournalHeads

    if journal is not None:
        return file, _knowing(JournalHeads(journal, str(file)))
    if organism is None and not any(map(project.is_file, project.DEFAULTS)):
        return file, None
    loaded = project.load(ctx, organism)
    own = handoff_record(loaded)
    if own is None or (named and own.resolve() != file.resolve()):
        return file, None
    return file if own.resolve() == file.resolve() else own, _knowing(handoff_heads(loaded))


def _knowing(heads: Heads | None) -> Heads | None:
    """The same, unless it has not met the file yet: then the note beside the file is all there is."""
    try:
        return None if heads is None or heads.read() is None else heads
    except (OSError, ValueError):
        return heads


command = Verbs(
    "audit",
    commands=[verify],
    short_help="Verify the record of handoffs.",
    help="The record of handoffs, which holds every attempt.",
)
