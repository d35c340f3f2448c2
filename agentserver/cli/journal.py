"""``agentserver journal``: counts, checks, shrinks, copies and repairs the journal."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING

import click

from agentserver.characters.printing import format_amount
from agentserver.cli import listing, project, reading
from agentserver.cli.process import ExitCode
from agentserver.cli.project import Verbs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from agentserver.config.yaml.secrets import Secrets
    from agentserver.core.encoding.history import SuspendedConversation
    from agentserver.engines.moving import MoveCounts
    from agentserver.ports import EngineReader


@click.group("journal", cls=Verbs, short_help="Inspect, check, shrink, copy or restore the journal.")
def command() -> None:
    """Manage the journal in which conversations are stored."""


@command.command("stats")
@reading.add_journal_option
@listing.add_record_options
def stats(storage: reading.Storage, *, shows: listing.RecordPrinter) -> None:
    """Print the size and contents of the journal."""
    row = _measure_file(storage) if storage.is_file else _count_totals(storage)
    shows.print(row, [listing.make_time_column(name) if name == "oldest" else name for name in row])


def _measure_file(storage: reading.Storage) -> dict[str, object]:
    """Measure a journal's file, and find the limit of its organism, if one is known."""
    from agentserver.engines.sqlite import maintenance

    found = maintenance.collect_stats(storage.path)
    file = project.find_organism(storage.organism) if storage.journal is None else None
    limit = None if file is None else project.read_glimpse(file).limit
    return {"journal": str(storage.path), **found._asdict(), "limit": limit}


def _count_totals(storage: reading.Storage) -> dict[str, object]:
    """Count the contents of an engine without a file."""
    with storage.open() as reader:
        found, dead = list(reader.conversations()), len(reader.dead())
    opened = sum(one.closed is None for one in found)
    return {
        "open": opened,
        "closed": len(found) - opened,
        "steps": sum(one.steps for one in found),
        "queued": sum(one.waiting for one in found),
        "dead": dead,
        "unread": sum(one.unread for one in found),
        "oldest": min((one.opened for one in found), default=None),
    }


@command.command("vacuum")
@reading.add_journal_option
def vacuum(storage: reading.Storage) -> None:
    """Return the space of deleted conversations to the file system. The server must not be running."""
    from agentserver.engines.sqlite import maintenance

    path = storage.path
    before = path.stat().st_size if path.is_file() else 0
    with storage.open_file_to_change() as connection:
        maintenance.vacuum(connection)
    project.say(f"{path}: {before} bytes before, {path.stat().st_size} now")


@command.command("restore")
@click.argument("copy", type=project.FILE)
@reading.add_journal_option
def restore(storage: reading.Storage, copy: Path) -> None:
    """Replace the journal with COPY, which export has made. The server must not be running.

    The copy is checked first. The previous journal is kept next to the new one, under the printed name.
    """
    from agentserver.engines.sqlite import maintenance

    path = storage.path
    previous = maintenance.restore(copy, path)
    project.say(f"{path}: restored from {copy}, {path.stat().st_size} bytes")
    if previous is not None:
        project.say(f"previous journal: {previous}")


@command.command("verify")
@reading.add_journal_option
def verify(storage: reading.Storage) -> None:
    """Verify that nothing in the journal was altered; exit code 1 if something was. The server may be running."""
    found = 0
    for line in _find_faults(storage):
        found += 1
        project.say(line)
    complete = storage.is_file or storage.shared is not None
    sound = "nothing was altered" if complete else "no sealed step was altered"
    project.say(f"{storage}: {f'{found} faults' if found else sound}")
    project.exit_command(ExitCode.FOUND if found else 0)


def _find_faults(storage: reading.Storage) -> Iterator[str]:
    if storage.shared is not None:
        from agentserver.engines.postgres import operations as database  # needs an extra

        return database.find_faults(storage.shared)
    if storage.is_file:
        from agentserver.engines.sqlite.maintenance import find_findings

        return find_findings(storage.path)
    return _find_altered(storage)


def _find_altered(storage: reading.Storage) -> Iterator[str]:
    """Yield the altered conversations of an engine without a file."""
    with storage.open() as reader:
        found = [(one.id, _describe_fault(reader, one.id)) for one in reader.conversations()]
    return (f"conversation {key}: {fault}" for key, fault in found if fault)


def _describe_fault(reader: EngineReader, conversation: str) -> str:
    """Describe the damage to one conversation; empty if it is intact."""
    from agentserver.core.encoding.snapshot import UnreadableError

    try:
        step = reader.find_altered(reading.read_recorded_conversation(reader, conversation))
    except UnreadableError as error:
        return str(error)
    return "" if step is None else f"step {step} was altered"


@command.command("accept-loss", short_help="Continue although the journal has lost messages.")
@reading.add_journal_option
def accept_loss(storage: reading.Storage) -> None:
    """Continue with a journal that has lost commits, or is missing. The server must not be running.

    A server does not start when the head stored next to the journal shows that commits are missing. This gives
    them up for good: look for the file, its -wal and a backup first.
    """
    from agentserver.engines.sqlite import head
    from agentserver.engines.sqlite.lock import Lock

    path = storage.path
    with Lock(path):
        lost = head.accept(path)
    project.say(f"{path}: the next start accepts it" if lost else f"{path}: no head is stored next to it")


@command.command("export")
@click.argument("target", type=project.FILE)
@click.argument("conversations", nargs=-1)
@reading.add_journal_option
def export(
    storage: reading.Storage,
    target: Path,
    conversations: tuple[str, ...],
) -> None:
    """Copy a snapshot of the journal, or CONVERSATIONS of it, to TARGET. The server may be running.

    A database that servers share is copied whole, and becomes a journal for one server. Repeat the command to
    resume an interrupted copy.
    """
    from agentserver.engines.sqlite import maintenance

    if storage.shared is not None:
        if conversations:
            project.refuse("a database is copied whole: name no conversations")
        from agentserver.engines import moving  # needs an extra

        moved = moving.export_journal(storage.shared, target, _report_progress)
        project.say(f"{target}: {_describe_moved(moved)}, {target.stat().st_size} bytes")
        return
    path = storage.path
    with storage.open() as reader:
        chosen = [reading.find_conversation(reader, prefix) for prefix in conversations]
    maintenance.export(path, target, chosen)
    project.say(f"{target}: {target.stat().st_size} bytes")


@command.command("import", short_help="Copy a journal into the database that servers share.")
@click.argument("file", type=project.FILE)
@project.add_organism_option
def import_journal(file: Path, organism: Path | None) -> None:
    """Copy the journal FILE, with its principals, into the database of the organism's engine:.

    It is verified first, and the head of each conversation's chain is compared at the end. Neither may be in
    use by a server. Repeat the command to resume an interrupted import. FILE is not changed; agentserver
    journal export does the reverse.
    """
    storage = reading.Storage(organism)
    if storage.shared is None:
        instead = "agentserver journal restore replaces a journal with a copy"
        project.refuse(f"the organism has no engine: to import a journal into; {instead}")
    if not file.is_file():
        project.refuse(f"{file}: there is no journal")
    from agentserver.engines import moving  # needs an extra

    moved = moving.import_journal(file, storage.shared, _report_progress)
    _import_principals(project.find_organism_or_raise(organism), file)
    project.say(f"{storage}: {_describe_moved(moved)} from {file}")


def _import_principals(main: Path, journal: Path) -> None:
    """Copy the principals next to a journal into the database of an organism that has none."""
    from agentserver.assembly import open_shared_principals
    from agentserver.gateways.principals.document import locate_principal_file

    keys = project.read_glimpse(main).engine
    try:
        data = locate_principal_file(journal).read().data
        if data and keys is not None:
            with closing(open_shared_principals(keys)) as store:
                store.change(lambda kept: kept or data)
    except (OSError, ValueError) as error:
        project.refuse(f"conversations were imported, principals were not: {error}")


def _report_progress(done: int, total: int) -> None:
    if done == total or done % 1000 == 0:
        project.say(f"{done} of {total} conversations", err=True)


def _describe_moved(moved: MoveCounts) -> str:
    amount = format_amount(moved.moved, "conversation")
    return f"{amount} and {moved.before} from before" if moved.before else amount


@command.group("suspended", cls=Verbs, short_help="List, show, repair or discard suspended conversations.")
def suspended_group() -> None:
    """Show and repair conversations that a server could not continue.

    A server suspends a conversation that it cannot read, that no decision can be made about, or that was
    watched by a guard which the organism no longer has. Its principal gets an error, other conversations
    continue, and everything recorded stays.
    """


def _find_suspended(found: Sequence[SuspendedConversation], prefix: str) -> SuspendedConversation:
    return reading.find_match(found, prefix, "suspended conversations begin with")


@suspended_group.command("list")
@reading.add_journal_option
@listing.add_list_options
def list_suspended(storage: reading.Storage, *, lists: listing.ListPrinter) -> None:
    """List the suspended conversations, oldest first."""
    with storage.open_redacted() as (reader, secrets):
        rows = [_describe_suspended(one, secrets) for one in reader.list_suspended()]
    lists.print(rows, SUSPENDED, "no conversation is suspended")


SUSPENDED = (listing.ID, listing.make_time_column("at"), "waiting", "principal", "reason")


def _describe_suspended(one: SuspendedConversation, secrets: Secrets) -> listing.Row:
    return {**one._asdict(), "reason": secrets.redact(one.reason)}


@suspended_group.command("show")
@click.argument("conversation")
@reading.add_journal_option
@listing.add_record_options
def show_suspended(storage: reading.Storage, conversation: str, *, shows: listing.RecordPrinter) -> None:
    """Show why CONVERSATION, an id or its beginning, is suspended.

    ``agentserver trace`` shows what happened in it.
    """
    with storage.open_redacted() as (reader, secrets):
        one = _find_suspended(reader.list_suspended(), conversation)
    shows.print(_describe_suspended(one, secrets), SUSPENDED)


@suspended_group.command("repair", short_help="Resume one that the organism can read now.")
@click.argument("conversation")
@reading.add_journal_option
def repair(storage: reading.Storage, conversation: str) -> None:
    """Read CONVERSATION, an id or its beginning, with the current organism, and resume it if that succeeds.

    The next run handles what waits in it. Its principal got an error for what waits, and then gets the outcome
    as well. The server must not be running.
    """
    from agentserver.core.encoding.snapshot import UnreadableError
    from agentserver.engines.journal import suspension
    from agentserver.engines.journal.reader import Reader

    rules = project.build_server(project.load(storage.organism)).rules
    with storage.open_to_change() as connection:
        reader = Reader(connection, rules.guards)
        one = _find_suspended(reader.list_suspended(), conversation)
        with project.refuse_on(UnreadableError, prefix=f"{one.id} stays suspended: "):
            reader.load_suspended(one.id)
        suspension.resume(connection, one.id, time.time())
    click.echo(f"{one.id} is resumed: the next run continues it")


@suspended_group.command("discard", short_help="End one for good.")
@click.argument("conversation")
@reading.add_journal_option
def discard_suspended(storage: reading.Storage, conversation: str) -> None:
    """End CONVERSATION, an id or its beginning: drop what waits in it, and let its records age out.

    The server must not be running.
    """
    from agentserver.engines.journal import suspension
    from agentserver.engines.journal.reader import Reader

    with storage.open_to_change() as connection:
        one = _find_suspended(Reader(connection).list_suspended(), conversation)
        suspension.discard_suspended(connection, one.id, time.time())
    click.echo(f"{one.id} is discarded")
