"""``agentserver memory``: notes that outlive conversations, listed, shown, erased and moved by an operator."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import click

from agentserver.cli import listing, project, reading
from agentserver.cli.project import Verbs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from agentserver.engines.journal.connection import Connection
    from agentserver.notes import Note

F = TypeVar("F", bound="Callable[..., object]")

SOURCES = listing.Column(
    "sources",
    lambda row: (
        "clean"
        if not row["stranger"]
        else f"stranger: {', '.join(each['place'] or each['name'] for each in row['sources'])}"
    ),
)
"""Column of a note's sources, if a stranger wrote any of it."""

COLUMNS = ("id", listing.make_time_column("at"), "scope", "owner", SOURCES)

TEXT = listing.Column(
    "text", lambda row: " ".join(" ".join(each["text"] for each in row["spans"]).split())[:60]
)
"""Column of the beginning of a note."""

FORM = "agentserver-note"
"""Member of each line of an export, with the number of its form."""

LATEST = 221_845_392_000
"""Time after that of every note: the year 9000, in seconds since 1970. It has a date in every time zone."""

LINE = 1 << 23
"""Bytes of a line of an export."""


def _add_filter_options(subject: str) -> Callable[[F], F]:
    """Add the options that choose notes; ``subject`` begins their help."""
    words = click.option("--source", default="", help=f"{subject} with words of this listener, site or host.")
    chosen = click.option(
        "--principal", default="", help=f"{subject} written in conversations of this principal."
    )
    return lambda function: chosen(words(function))


@click.group("memory", cls=Verbs, short_help="List, show, erase and move notes that outlive conversations.")
def command() -> None:
    """List, show, erase, export and import the notes that listeners keep beyond conversations."""


@command.command("list")
@_add_filter_options("Only notes")
@reading.add_journal_option
@listing.add_list_options
def list_command(
    storage: reading.Storage, *, principal: str, source: str, lists: listing.ListPrinter
) -> None:
    """List notes, oldest first, with the sources of a stranger's words."""
    from agentserver.engines.journal.notes import list_notes
    from agentserver.notes import NoteFilter

    chosen = NoteFilter(principal, source)
    found = storage.use_connection(
        lambda connection, _: list_notes(connection, chosen, limit=lists.limit + 1)
    )
    lists.print(map(_describe, found), (*COLUMNS, TEXT), "there are no such notes")


@command.command("show")
@click.argument("note")
@reading.add_journal_option
@listing.add_record_options
def show_command(storage: reading.Storage, note: str, *, shows: listing.RecordPrinter) -> None:
    """Show a NOTE with the author of each part."""
    from agentserver.engines.journal.notes import list_notes
    from agentserver.notes import NoteFilter

    found = storage.use_connection(lambda connection, _: list_notes(connection, NoteFilter(id=note), limit=1))
    if not found:
        project.refuse(f"there is no note {note!r}")
    (one,) = found
    lines = [f"source: {' '.join(filter(None, source))}" for source in one.sources]
    lines += [f"readers: {', '.join(group) or 'none'}" for group in one.readers]
    lines += [f"{span.field} ({span.author}): {span.text}" for span in one.spans]
    shows.print(_describe(one), (*COLUMNS, "conversation", "listener"), lines)


@command.command("forget")
@click.argument("note", default="")
@_add_filter_options("All notes")
@reading.add_journal_option
def forget_command(storage: reading.Storage, *, note: str, principal: str, source: str) -> None:
    """Erase a NOTE, or all that meet every condition, for good. The log keeps who did it, and when.

    A running server need not stop. A note whose sources are not all known is erased with every source. The messages of
    past conversations are not touched: their retention ends them.
    """
    from agentserver.engines.journal.notes import forget_notes
    from agentserver.notes import Eraser, EraserRole, NoteFilter

    chosen = NoteFilter(principal, source, note)
    if not chosen.has_condition:
        project.refuse("name a note, --principal or --source")
    by = Eraser(EraserRole.OPERATOR, _name_operator())
    count = storage.use_connection(lambda connection, at: forget_notes(connection, chosen, by, at))
    click.echo(f"{count} erased")


@command.command("export")
@project.output_option
@_add_filter_options("Only notes")
@reading.add_journal_option
def export_command(storage: reading.Storage, *, output: Path | None, principal: str, source: str) -> None:
    """Write notes as JSON lines, each with the author of its parts, its sources and its readers."""
    from agentserver.codec import write_json
    from agentserver.engines.journal.notes import NOTES, list_notes
    from agentserver.notes import NoteFilter

    chosen = NoteFilter(principal, source)
    found = storage.use_connection(lambda connection, _: list_notes(connection, chosen, limit=sys.maxsize))
    lines = [write_json({FORM: 1, **NOTES.plain(note)}).decode("utf-8", "backslashreplace") for note in found]
    if lines or output is not None:
        project.write(output, "".join(f"{line}\n" for line in lines), private=True)
    project.say(f"{len(lines)} exported", err=True)


@command.command("import")
@click.argument("file", type=project.FILE)
@click.option(
    "--stranger",
    default="",
    help="Count every word of the file as this source's, because the file may have been changed.",
)
@reading.add_journal_option
def import_command(storage: reading.Storage, *, file: Path, stranger: str) -> None:
    """Store the notes of a FILE that ``export`` has written, with the origins that it names: all of them, or none.

    A note that is stored already is skipped, and no note is replaced. Whoever can write the file decides what its notes
    are worth; name a --stranger for a file that others could have changed.
    """
    from agentserver.engines.journal.connection import transaction
    from agentserver.engines.journal.notes import SALT, import_note

    notes, by = _read_notes(file, stranger), _name_operator()

    def put(connection: Connection, at: float) -> int:
        added = 0
        with transaction(connection):
            for number, note in notes:
                try:
                    added += import_note(connection, note, os.urandom(SALT), by, at)
                except ValueError as error:
                    project.refuse(f"{file}:{number}: {error}", "nothing was imported")
        return added

    added = storage.use_connection(put)
    click.echo(f"{added} imported, {len(notes) - added} stored already")


def _read_notes(file: Path, stranger: str) -> list[tuple[int, Note]]:
    """Read the notes of a file with the number of each line. Ends the command at a line that is no note."""
    found: list[tuple[int, Note]] = []
    number = 0
    try:
        with file.open("rb") as stream:
            for number, line in ((at, each) for at, each in enumerate(stream, 1) if each.strip()):
                found.append((number, read_note(line, stranger)))
    except OSError as error:
        project.refuse(f"{file}: {error.strerror}")
    except ValueError as error:
        project.refuse(f"{file}:{number}: {error}", "write the file with agentserver memory export")
    return found


def read_note(line: bytes, stranger: str = "") -> Note:
    """Read a note of an export. Raises ValueError.

    A stranger's words without a source have an unknown one, which every erasure by source finds.

    Args:
        line: the JSON text.
        stranger: the source of all words, regardless of the text; empty to keep those in the text.
    """
    from agentserver.engines.journal.notes import NOTES
    from agentserver.foreign_json.reading import JsonLimits, parse_json_or_raise
    from agentserver.notes import UNKNOWN_SOURCE, NoteSource, SpanAuthor
    from agentserver.tools.pages import writable

    plain = parse_json_or_raise(line.strip(), JsonLimits(bytes=LINE))
    if not isinstance(plain, dict) or plain.pop(FORM, None) != 1:
        raise ValueError(f'no note of an export, which begins with {{"{FORM}":1')
    note = NOTES.value(plain)
    if not (note.id and note.owner and note.principal and note.spans):
        raise ValueError("/id, /owner, /principal and /spans must not be empty")
    if not 0 <= note.at < LATEST:
        raise ValueError("/at: must be a time before the year 9000, in seconds since 1970")
    if any(text != writable(text) for text in _list_texts(plain)):
        raise ValueError("a text has characters that no message can hold")
    if stranger:
        spans = tuple(span._replace(author=SpanAuthor.STRANGER) for span in note.spans)
        note = replace(note, spans=spans, sources=(NoteSource(stranger), *note.sources))
    if note.has_stranger and not note.sources:
        note = replace(note, sources=(NoteSource(UNKNOWN_SOURCE),))
    return note


def _list_texts(plain: object) -> Iterator[str]:
    """List the texts of a note in JSON: a later answer holds all of them."""
    if isinstance(plain, str):
        yield plain
    elif isinstance(plain, dict | list):
        for each in plain.values() if isinstance(plain, dict) else plain:
            yield from _list_texts(each)


def _name_operator() -> str:
    return f"operator {project.name_user()}"


@command.command("log")
@reading.add_journal_option
@listing.add_list_options
def log_command(storage: reading.Storage, *, lists: listing.ListPrinter) -> None:
    """List who wrote, replaced and erased notes, and when, oldest first, without their texts."""
    from agentserver.engines.journal.notes import read_log

    found = storage.use_connection(lambda connection, _: read_log(connection))
    rows = ({**entry._asdict(), "digest": bytes(entry.digest).hex()} for entry in found)
    lists.print(rows, (listing.make_time_column("at"), "action", "note", "by"), "no note was ever written")


def _describe(note: Note) -> listing.Row:
    names = ("id", "at", "scope", "owner", "name", "principal", "listener", "conversation", "readers")
    parts = {name: [each._asdict() for each in getattr(note, name)] for name in ("spans", "sources")}
    return {**{name: getattr(note, name) for name in names}, **parts, "stranger": note.has_stranger}
