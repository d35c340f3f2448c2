"""``agentserver journal``: how much it holds, checking, shrinking, copying and restoring it.

Owns the options by which every verb finds a journal. What is done to it is for engines/journal_care.py.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from agentserver.cli import project

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from agentserver.core.guard import CoreGuard
    from agentserver.ports import EngineReader

F = TypeVar("F", bound="Callable[..., Any]")
T = TypeVar("T")


def journal_option(function: F) -> F:
    """Which journal: a file, or the one of an organism."""
    named = click.option(
        "--journal",
        type=click.Path(path_type=Path, dir_okay=False),
        help="The journal's file; the organism's own when left out.",
    )
    return named(project.organism_option(function))


def located(ctx: click.Context, organism: Path | None, journal: Path | None) -> Path:
    """The journal that is meant: the one that is named, or that of the organism, which need not load.

    Where there is no organism it is the one that a new organism would have. Ends the command when there is none.
    """
    from agentserver.config.organism import Journal

    if journal is not None:
        return journal
    default = Path(Journal().path)
    file = project.found(organism)
    if file is None and default.is_file():
        return default
    file = project.located(organism)
    seen = project.glimpse(ctx, file)
    if seen.unkept:
        project.refuse(ctx, "the organism keeps no journal; name one with --journal")
    if seen.journal is None:
        told = seen.astray or seen.unread or f"{file}: journal: it cannot be read"
        more = "which journal the organism has is not known: name it with --journal"
        project.refuse(ctx, *told.split("\n"), more)
    return seen.journal


@contextmanager
def refusing(ctx: click.Context) -> Iterator[None]:
    """End the command with what the journal could not do."""
    import sqlite3

    from agentserver.core.snapshot import UnreadableError
    from agentserver.ports import EngineError

    try:
        yield
    except (EngineError, UnreadableError) as error:
        project.refuse(ctx, str(error))
    except sqlite3.Error as error:
        project.refuse(ctx, f"the journal cannot be read: {error}")


@contextmanager
def reading(ctx: click.Context, path: Path, guards: Sequence[CoreGuard] = ()) -> Iterator[EngineReader]:
    """The journal, to be read while a server may be writing it."""
    from agentserver.engines import journal_reader

    with refusing(ctx), journal_reader.reading(path, guards) as reader:
        yield reader


@contextmanager
def writing(ctx: click.Context, path: Path) -> Iterator[Any]:
    """The journal's connection, for a verb that changes it; refused while a server has it."""
    from agentserver.engines.journal_file import Place, open_writing
    from agentserver.engines.journal_lock import Lock

    if not path.is_file():
        project.refuse(ctx, f"{path}: there is no journal")
    with refusing(ctx), Lock(path), closing(open_writing(Place(path))) as connection:
        yield connection


def legible(reader: EngineReader, read: Callable[[str], T]) -> Iterator[T]:
    """Read each conversation at work. One that cannot be read, or is aside, is left out and mentioned."""
    from agentserver.core.snapshot import UnreadableError

    for key in reader.at_work():
        try:
            found = read(key)
        except UnreadableError as error:
            project.say(f"left out: conversation {key}: {error}", err=True)
        else:
            yield found
    aside = len(reader.aside())
    if aside:
        project.say(f"left out: {aside} set aside, which agentserver journal aside lists", err=True)


def one_conversation(ctx: click.Context, reader: EngineReader, prefix: str) -> str:
    """The conversation whose id begins so. Ends the command unless there is exactly one."""
    found = reader.find(prefix)
    if len(found) != 1:
        project.refuse(ctx, f"{len(found) or 'no'} conversations begin with {prefix!r}")
    return found[0]


def when(at: float | None) -> str:
    """A time as people read it."""
    return "-" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")


@click.group("journal", short_help="Count, check, shrink, copy or restore the journal.")
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
    from agentserver.engines import journal_care

    path = located(ctx, organism, journal)
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


@command.command("vacuum")
@journal_option
@click.pass_context
def vacuum(ctx: click.Context, organism: Path | None, journal: Path | None) -> None:
    """Give back the space that aged-out conversations have left. The server must not be running."""
    from agentserver.engines import journal_care

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

    The copy is checked first. The journal of before is kept beside the new one, under the name that is printed.
    """
    from agentserver.engines import journal_restore

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
    from agentserver.engines.journal_verify import findings

    path = located(ctx, organism, journal)
    found = 0
    with refusing(ctx):
        for line in findings(path):
            found += 1
            project.say(line)
    project.say(f"{path}: {f'{found} faults' if found else 'everything is what was written'}")
    ctx.exit(1 if found else 0)


@command.command("accept-loss", short_help="Go on though the journal has lost messages.")
@journal_option
@click.pass_context
def accept_loss(ctx: click.Context, organism: Path | None, journal: Path | None) -> None:
    """Go on with a journal that has lost what was committed, or with none. The server must not be running.

    A server does not start when the head that is kept beside the journal shows that commits are missing. What they held
    is gone for good after this: look for the file, its -wal and a backup first.
    """
    from agentserver.engines import journal_head
    from agentserver.engines.journal_lock import Lock

    path = located(ctx, organism, journal)
    with refusing(ctx), Lock(path):
        lost = journal_head.accept(path)
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
    """Copy the journal, or CONVERSATIONS of it, to TARGET, as it is at one moment. The server may be running."""
    from agentserver.engines import journal_restore

    path = located(ctx, organism, journal)
    with reading(ctx, path) as reader:
        wanted = [one_conversation(ctx, reader, prefix) for prefix in conversations]
    with refusing(ctx):
        journal_restore.export(path, target, wanted)
    project.say(f"{target}: {target.stat().st_size} bytes")
