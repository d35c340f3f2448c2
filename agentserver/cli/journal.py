"""``agentserver journal``: how much it holds, checking, shrinking, copying and restoring it.

Owns the lock under which a verb changes a journal. What is done to it is for engines/sqlite/care/maintenance.py.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentserver.characters.printing import format_amount
from agentserver.cli import project
from agentserver.cli.reading import (
    Source,
    journal_option,
    located,
    one_conversation,
    reading,
    recorded_conversation,
    refusing,
    source,
    when,
)
from agentserver.cli.verbs import Verbs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentserver.engines.moving import Moved
    from agentserver.ports import EngineReader


@contextmanager
def changing(ctx: click.Context, organism: Path | None, journal: Path | None) -> Iterator[Any]:
    """Open a journal or a database for a verb that changes what no server works on.

    A journal is refused while a server has it.
    """
    kept = source(ctx, organism, journal)
    if kept.shared is None:
        with writing(ctx, located(ctx, organism, journal)) as connection:
            yield connection
        return
    from agentserver.engines.postgres import command as database  # with an extra that most do without

    with refusing(ctx), database.changing(kept.shared) as connection:
        yield connection


@contextmanager
def writing(ctx: click.Context, path: Path) -> Iterator[Any]:
    """Open the journal for a verb that changes it; refused while a server has it."""
    from agentserver.engines.sqlite.file import JournalOptions, open_writing
    from agentserver.engines.sqlite.lock import Lock

    if not path.is_file():
        project.refuse(
            ctx, f"{path}: there is no journal; agentserver run begins it, and --journal names another one"
        )
    with refusing(ctx), Lock(path), closing(open_writing(JournalOptions(path))) as connection:
        yield connection


@click.group("journal", cls=Verbs, short_help="Count, check, shrink, copy or restore the journal.")
def command() -> None:
    """Look after the journal in which conversations are kept."""


def _limit(ctx: click.Context, organism: Path | None) -> int | None:
    """The limit that the organism puts on its journal, where there is an organism."""
    file = project.found(organism)
    return None if file is None else project.glimpse(ctx, file).limit


@command.command("stats")
@journal_option
@click.pass_context
def stats(ctx: click.Context, organism: Path | None, journal: Path | None) -> None:
    """Print what the journal holds."""
    from agentserver.engines.sqlite.care import maintenance as journal_care

    kept = source(ctx, organism, journal)
    if kept.path is None:
        _tell_totals(ctx, kept)
        return
    path = kept.path
    with refusing(ctx):
        found = journal_care.stats(path)
    project.say(f"{path}: {found.size} bytes, {found.log} more in its log, {found.free} of them free")
    limit = _limit(ctx, organism) if journal is None else None
    if limit is not None:
        project.say(f"limit: {found.held} of {limit} bytes are in use, {100 * found.held / limit:.1f} %")
    project.say(
        f"conversations: {found.open} open, {found.closed} finished; the oldest of {when(found.oldest)}"
    )
    project.say(
        f"steps: {found.steps}; queued: {found.queued}; dead: {found.dead}; not fetched: {found.unread}; "
        f"ids of senders: {found.receipts}"
    )


def _tell_totals(ctx: click.Context, kept: Source) -> None:
    """Count what an engine without a file holds."""
    with reading(ctx, kept) as reader:
        found, dead = list(reader.conversations()), len(reader.dead())
    opened = sum(one.closed is None for one in found)
    oldest = when(min((one.opened for one in found), default=None))
    project.say(f"conversations: {opened} open, {len(found) - opened} finished; the oldest of {oldest}")
    steps, queued = sum(one.steps for one in found), sum(one.waiting for one in found)
    unread = sum(one.unread for one in found)
    project.say(f"steps: {steps}; queued: {queued}; dead: {dead}; not fetched: {unread}")


@command.command("vacuum")
@journal_option
@click.pass_context
def vacuum(ctx: click.Context, organism: Path | None, journal: Path | None) -> None:
    """Give back the space that aged-out conversations have left. The server must not be running."""
    from agentserver.engines.sqlite.care import maintenance as journal_care

    path = located(ctx, organism, journal)
    before = path.stat().st_size if path.is_file() else 0
    with writing(ctx, path) as connection:
        journal_care.vacuum(connection)
    project.say(f"{path}: {before} bytes before, {path.stat().st_size} now")


@command.command("restore")
@click.argument("copy", type=click.Path(path_type=Path, dir_okay=False))
@journal_option
@click.pass_context
def restore(ctx: click.Context, copy: Path, organism: Path | None, journal: Path | None) -> None:
    """Put COPY, which export has made, in the journal's place. The server must not be running.

    The copy is checked first. The previous journal is kept beside the new one, under the name that is printed.
    """
    from agentserver.engines.sqlite.care import restore as journal_restore

    path = located(ctx, organism, journal)
    with refusing(ctx):
        kept = journal_restore.restore(copy, path)
    project.say(f"{path}: restored from {copy}, {path.stat().st_size} bytes")
    if kept is not None:
        project.say(f"the journal of before: {kept}")


@command.command("verify")
@journal_option
@click.pass_context
def verify(ctx: click.Context, organism: Path | None, journal: Path | None) -> None:
    """Check that everything in the journal is what was written; exit code 1 if not. The server may be running."""
    kept, found = source(ctx, organism, journal), 0
    with refusing(ctx):
        for line in _faults(ctx, kept):
            found += 1
            project.say(line)
    whole = kept.path is not None or kept.shared is not None
    sound = "everything is what was written" if whole else "as far as steps are sealed, nothing was changed"
    project.say(f"{kept}: {f'{found} faults' if found else sound}")
    ctx.exit(1 if found else 0)


def _faults(ctx: click.Context, kept: Source) -> Iterator[str]:
    if kept.shared is not None:
        from agentserver.engines.postgres import command as database  # with an extra that most do without

        return database.find_faults(kept.shared)
    if kept.path is not None:
        from agentserver.engines.sqlite.proof.verify import findings

        return findings(kept.path)
    return _altered(ctx, kept)


def _altered(ctx: click.Context, kept: Source) -> Iterator[str]:
    """Conversations of an engine without a file that are not what was written."""
    with reading(ctx, kept) as reader:
        found = [(one.id, _fault(reader, one.id)) for one in reader.conversations()]
    return (f"conversation {key}: {fault}" for key, fault in found if fault)


def _fault(reader: EngineReader, conversation: str) -> str:
    """The damage to one conversation; empty when it is as it was written."""
    from agentserver.core.encoding.snapshot import UnreadableError

    try:
        step = reader.altered(recorded_conversation(reader, conversation))
    except UnreadableError as error:
        return str(error)
    return "" if step is None else f"step {step} is not what was written"


@command.command("accept-loss", short_help="Go on though the journal has lost messages.")
@journal_option
@click.pass_context
def accept_loss(ctx: click.Context, organism: Path | None, journal: Path | None) -> None:
    """Go on with a journal that has lost what was committed, or with none. The server must not be running.

    A server does not start when the head that is kept beside the journal shows that commits are missing. What they held
    is gone for good after this: look for the file, its -wal and a backup first.
    """
    from agentserver.engines.sqlite.lock import Lock
    from agentserver.engines.sqlite.proof import head

    path = located(ctx, organism, journal)
    with refusing(ctx), Lock(path):
        lost = head.accept(path)
    project.say(f"{path}: the next start takes it as it is" if lost else f"{path}: nothing is kept beside it")


@command.command("export")
@click.argument("target", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("conversations", nargs=-1)
@journal_option
@click.pass_context
def export(
    ctx: click.Context,
    target: Path,
    conversations: tuple[str, ...],
    organism: Path | None,
    journal: Path | None,
) -> None:
    """Copy the journal, or CONVERSATIONS of it, to TARGET, as it is at one moment. The server may be running.

    The database that servers share is copied whole, and becomes a journal for one server. A copy that was cut short
    goes on when the command is given again.
    """
    from agentserver.engines.sqlite.care import restore as journal_restore

    kept = source(ctx, organism, journal)
    if kept.shared is not None:
        if conversations:
            project.refuse(ctx, "a database is copied whole: name no conversations")
        from agentserver.engines import moving  # with an extra that most do without

        with refusing(ctx):
            moved = moving.export_journal(kept.shared, target, _progress)
        project.say(f"{target}: {_moved(moved)}, {target.stat().st_size} bytes")
        return
    path = located(ctx, organism, journal)
    with reading(ctx, source(ctx, organism, path)) as reader:
        wanted = [one_conversation(ctx, reader, prefix) for prefix in conversations]
    with refusing(ctx):
        journal_restore.export(path, target, wanted)
    project.say(f"{target}: {target.stat().st_size} bytes")


@command.command("import", short_help="Move a journal into the database that servers share.")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@project.organism_option
@click.pass_context
def import_journal(ctx: click.Context, file: Path, organism: Path | None) -> None:
    """Copy the journal FILE, or a copy of one, into the database of the organism's engine:, with its principals.

    It is verified first, and the head of each conversation's chain is compared at the end. No server may have either.
    One that was cut short goes on when the command is given again. FILE stays as it is; agentserver journal export
    leads back.
    """
    kept = source(ctx, organism, None)
    if kept.shared is None:
        instead = "agentserver journal restore puts a copy in the place of a journal"
        project.refuse(ctx, f"the organism has no engine:, into which a journal is moved; {instead}")
    if not file.is_file():
        project.refuse(ctx, f"{file}: there is no journal")
    from agentserver.engines import moving  # with an extra that most do without

    with refusing(ctx):
        moved = moving.import_journal(file, kept.shared, _progress)
        _import_principals(ctx, project.located(organism), file)
    project.say(f"{kept}: {_moved(moved)} from {file}")


def _import_principals(ctx: click.Context, main: Path, journal: Path) -> None:
    """Copy the principals beside a journal into the database of an organism, where that has none."""
    from agentserver.assembly import shared_principals
    from agentserver.gateways.principals.document import beside

    keys = project.glimpse(ctx, main).engine
    try:
        data = beside(journal).read().data
        if data and keys is not None:
            with closing(shared_principals(keys)) as store:
                store.change(lambda kept: kept or data)
    except (OSError, ValueError) as error:
        project.refuse(ctx, f"the conversations are there, their principals are not: {error}")


def _progress(done: int, every: int) -> None:
    if done == every or done % 1000 == 0:
        project.say(f"{done} of {every} conversations", err=True)


def _moved(moved: Moved) -> str:
    told = format_amount(moved.moved, "conversation")
    return f"{told} and {moved.before} of before" if moved.before else told
