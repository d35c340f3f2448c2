"""``agentserver memory``: the notes that outlive conversations, listed, shown and erased by an operator."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

import click

from agentserver.cli import project, reading
from agentserver.cli.project import Verbs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agentserver.engines.journal.connection import Connection
    from agentserver.engines.journal.notes import NoteEntry
    from agentserver.notes import Note

T = TypeVar("T")

EXCERPT = 60
"""Characters of a note in a list."""


@click.group("memory", cls=Verbs, short_help="List, show and erase notes that outlive conversations.")
def command() -> None:
    """List, show and erase the notes that listeners keep beyond conversations."""


@command.command("list")
@click.option("--principal", default="", help="Only notes written in conversations of this principal.")
@click.option("--source", default="", help="Only notes with words of this listener, site or host.")
@reading.journal_option
@reading.list_options
def list_command(
    given: reading.JournalArguments, *, principal: str, source: str, lists: reading.ListPrinter
) -> None:
    """List notes, oldest first, with the sources of a stranger's words."""
    from agentserver.engines.journal.notes import list_notes
    from agentserver.notes import NoteFilter

    chosen = NoteFilter(principal, source)
    found = _use_notes(given, lambda connection: list_notes(connection, chosen, most=lists.limit + 1))
    lists.print(found, _line, _fields, "there are no such notes")


@command.command("show")
@click.argument("note")
@reading.journal_option
def show_command(given: reading.JournalArguments, note: str) -> None:
    """Show a NOTE with the author of each part."""
    from agentserver.characters.printing import escape_unseen
    from agentserver.engines.journal.notes import list_notes
    from agentserver.notes import NoteFilter

    found = _use_notes(given, lambda connection: list_notes(connection, NoteFilter(id=note), most=1))
    if not found:
        project.refuse(f"there is no note {note!r}")
    (one,) = found
    lines = [_line(one), f"conversation {one.conversation}, written by {one.listener}"]
    lines += [f"source: {' '.join(filter(None, source))}" for source in one.sources]
    lines += [f"readers: {', '.join(group) or 'none'}" for group in one.readers]
    lines += [f"{span.field} ({span.author}): {span.text}" for span in one.spans]
    for line in lines:
        click.echo(escape_unseen(line))


@command.command("forget")
@click.argument("note", default="")
@click.option("--principal", default="", help="All notes written in conversations of this principal.")
@click.option("--source", default="", help="All notes with words of this listener, site or host.")
@reading.journal_option
def forget_command(given: reading.JournalArguments, *, note: str, principal: str, source: str) -> None:
    """Erase a NOTE, or all that meet every condition, for good. The log keeps who did it, and when.

    A running server need not stop. A note whose sources are not all known is erased with every source. The messages of
    past conversations are not touched: their retention ends them.
    """
    from agentserver.engines.journal.notes import forget_notes
    from agentserver.notes import NoteFilter

    chosen, by = NoteFilter(principal, source, note), f"operator {project.user()}"
    if not any(chosen):
        project.refuse("name a note, --principal or --source")
    count = _use_notes(given, lambda connection: forget_notes(connection, chosen, by, time.time()))
    click.echo(f"{count} erased")


@command.command("log")
@reading.journal_option
@reading.list_options
def log_command(given: reading.JournalArguments, *, lists: reading.ListPrinter) -> None:
    """List which notes were written, replaced and erased, by whom and when, oldest first. It has no texts."""
    from agentserver.engines.journal.notes import read_log

    lists.print(_use_notes(given, read_log), _format_entry, _entry_fields, "no note was ever written")


def _format_entry(entry: NoteEntry) -> str:
    return f"{reading.format_time(entry.at)}  {entry.action}  {entry.note}  {entry.by}"


def _entry_fields(entry: NoteEntry) -> Mapping[str, object]:
    return {**entry._asdict(), "digest": bytes(entry.digest).hex()}


def _use_notes(given: reading.JournalArguments, work: Callable[[Connection], T]) -> T:
    """Run a function with the connection to the notes. Ends the command if there are none."""
    kept = reading.find_source(given)
    if kept.shared is None and kept.path is None:
        project.refuse("this engine keeps no notes")
    with reading.report_storage_errors():
        if kept.shared is not None:
            from agentserver.engines.postgres.operations import open_database  # needs an extra

            with open_database(kept.shared) as connection:
                return work(connection)
        from agentserver.engines.sqlite.maintenance import leave

        assert kept.path is not None  # checked above
        return leave(kept.path, work)


def _line(note: Note) -> str:
    sources = ", ".join(source.place or source.name for source in note.sources)
    origin = f"stranger: {sources}" if note.has_stranger else "clean"
    text = " ".join(" ".join(span.text for span in note.spans).split())[:EXCERPT]
    return f"{note.id}  {reading.format_time(note.at)}  {note.scope} {note.owner}  [{origin}]  {text}"


def _fields(note: Note) -> Mapping[str, object]:
    return {
        "id": note.id,
        "at": note.at,
        "scope": note.scope,
        "owner": note.owner,
        "name": note.name,
        "principal": note.principal,
        "listener": note.listener,
        "conversation": note.conversation,
        "spans": [span._asdict() for span in note.spans],
        "sources": [source._asdict() for source in note.sources],
        "readers": note.readers,
    }
