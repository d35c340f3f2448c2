"""Prints every list and record of the command line: a table for people, JSON objects for programs.

A verb gives rows, which are JSON objects, and declares the columns that people see of them.
"""

from __future__ import annotations

import json
import sys
import unicodedata
from datetime import UTC, datetime
from functools import wraps
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from agentserver.cli import project

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import TypeAlias

    Row: TypeAlias = Mapping[str, Any]
    """Item of a list, as a JSON object."""
    Verb: TypeAlias = Callable[..., object]
    """Function of a command."""

CELL = 200
"""Most characters of a cell."""

SHORT_ID = 8
"""Fewest characters of an id on a terminal."""

EMPTY = "-"
"""Cell without a value."""

MARGIN = "\n    "
"""Break within the value of a record."""


class Column(NamedTuple):
    """Column of a table.

    Args:
        name: of the column; also that of the row's value, unless it is formatted.
        form: formats the column of a row; None if it is the row's value itself.
        shortens: whether a terminal shows as much of each value as distinguishes it, because verbs accept that.
    """

    name: str
    form: Callable[[Row], object] | None = None
    shortens: bool = False

    def text(self, row: Row) -> str:
        """Format this column of a row."""
        value = row[self.name] if self.form is None else self.form(row)
        if isinstance(value, bool):
            return "yes" if value else "no"
        text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
        return EMPTY if text is None or text == "" else str(text)

    def cell(self, row: Row) -> str:
        """Format this column of a row as a cell of a table."""
        from agentserver.characters.printing import escape_unseen, truncate

        return escape_unseen(truncate(self.text(row), CELL))


def make_time_column(name: str) -> Column:
    """Make the column of a time."""
    return Column(name, lambda row: format_time(row[name]))


ID = Column("id", shortens=True)
"""Column of an id whose beginning is enough for verbs."""

MESSAGE = Column("message", lambda row: f"{row['sender']} -> {row['to']} {row['root']}")
"""Column of a message's way."""


def format_time(at: float | None) -> str:
    """Format a time for people, in UTC."""
    return "-" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")


def add_list_options(function: Verb) -> Verb:
    """Add the options that all listing verbs share. The verb takes a printer as ``lists``.

    A group lists only if none of its verbs is invoked.
    """

    @wraps(function)
    def verb(*args: Any, as_json: bool, limit: int, **options: Any) -> object:
        if click.get_current_context().invoked_subcommand is not None:
            return None
        return function(*args, lists=ListPrinter(as_json, limit), **options)

    limit = click.option(
        "--limit", type=click.IntRange(min=1), default=100, show_default=True, help="Largest number to list."
    )
    return limit(add_json_option("Print one JSON object per line.")(verb))


def add_json_option(text: str) -> Callable[[Verb], Verb]:
    """Add the option for JSON, which the verb takes as ``as_json``."""
    return click.option("--json", "as_json", is_flag=True, help=text)


def add_record_options(function: Verb) -> Verb:
    """Add the option of verbs that show one record. The verb takes a printer as ``shows``."""

    @wraps(function)
    def verb(*args: Any, as_json: bool, **options: Any) -> object:
        return function(*args, shows=RecordPrinter(as_json), **options)

    return add_json_option("Print one JSON object.")(verb)


class RecordPrinter(NamedTuple):
    """Printer of one record.

    Args:
        as_json: whether to print JSON.
    """

    as_json: bool

    def print(self, row: Row, columns: Sequence[str | Column] = (), below: Iterable[str] = ()) -> None:
        """Print the columns that are not empty, a line each, and further lines below; or the row as JSON.

        A text of several lines continues behind a margin, so that it cannot pass for another value.
        """
        from agentserver.characters.printing import escape_unseen

        if self.as_json:
            click.echo(json.dumps(row))
            return
        texts = ((column.name, column.text(row)) for column in _make_columns(columns))
        for text in chain((f"{name}: {text}" for name, text in texts if text != EMPTY), below):
            click.echo(MARGIN.join(map(escape_unseen, text.split("\n"))))


class ListPrinter(NamedTuple):
    """Printer of all lists. A note on standard error reports an empty or shortened list.

    On a terminal, the columns that are not empty are aligned below their names, ids are shortened to what
    distinguishes them, and lines are cut to its width.
    Elsewhere a line has the cells alone, with a tab between two of them.

    Args:
        as_json: whether to print JSON.
        limit: largest number of rows to print.
    """

    as_json: bool
    limit: int

    def print(self, rows: Iterable[Row], columns: Sequence[str | Column], nothing: str) -> None:
        """Print a list; ``nothing`` says that it is empty."""
        from agentserver.trace.terminal import find_columns

        found = list(islice(rows, self.limit + 1))
        shown = found[: self.limit]
        for line in (
            map(json.dumps, shown) if self.as_json else format_table(shown, columns, find_columns(sys.stdout))
        ):
            click.echo(line)
        if len(found) > self.limit:
            first = "one is" if self.limit == 1 else f"{self.limit} are"
            project.say(f"only the first {first} listed; --limit lists more", err=True)
        if not found:
            project.say(nothing, err=True)


def format_table(rows: Sequence[Row], columns: Sequence[str | Column], width: int | None) -> Iterable[str]:
    """Format rows as lines.

    Args:
        rows: to format.
        columns: to show of each; a name shows the row's value itself.
        width: of the terminal, whose lines are aligned and have a heading; None for cells with tabs between them.
    """
    whole = _make_columns(columns)
    cells = [[column.cell(row) for column in whole] for row in rows]
    if not width or not cells:
        return map("\t".join, cells)
    lines = ("  ".join(line).rstrip() for line in zip(*_pad_columns(whole, cells), strict=True))
    return (_cut_line(line, width) for line in lines)


def _make_columns(columns: Sequence[str | Column]) -> Sequence[Column]:
    return [Column(each) if isinstance(each, str) else each for each in columns]


def _pad_columns(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> Iterable[list[str]]:
    """Pad the cells of each column that is not empty to one width, with its name above them."""
    for column, whole in zip(columns, zip(*cells, strict=True), strict=True):
        if set(whole) != {EMPTY}:
            texts = _shorten_ids(whole) if column.shortens else whole
            shown, right = (column.name.upper(), *texts), all(map(_is_number, whole))
            width = max(map(_measure, shown))
            spaces = [" " * (width - _measure(text)) for text in shown]
            yield [
                f"{space}{text}" if right else f"{text}{space}"
                for text, space in zip(shown, spaces, strict=True)
            ]


def _measure(text: str) -> int:
    """Measure the columns of a terminal that a text takes: two for a wide character, none for a combining mark."""
    if text.isascii():
        return len(text)
    from agentserver.characters.table import is_combining

    wide = sum(unicodedata.east_asian_width(char) in {"W", "F"} for char in text)
    return len(text) + wide - sum(map(is_combining, text))


def _cut_line(line: str, width: int) -> str:
    """Cut a line to the width of a terminal, with a mark where it is cut."""
    if _measure(line) <= width:
        return line
    size = next(size for size in range(min(width - 1, len(line)), -1, -1) if _measure(line[:size]) < width)
    return f"{line[:size]}…"


def _shorten_ids(ids: Sequence[str]) -> list[str]:
    """Cut ids to the fewest characters, at least SHORT_ID, that distinguish all of them."""
    longest, count = max(map(len, ids)), len(set(ids))
    size = next(
        (size for size in range(SHORT_ID, longest) if len({one[:size] for one in ids}) == count), longest
    )
    return [one[:size] for one in ids]


def _is_number(text: str) -> bool:
    """Check for a cell without a value, or with a number, which may have a currency or a unit."""
    return text == EMPTY or text.removeprefix("$").partition(" ")[0].replace(".", "", 1).isdigit()
