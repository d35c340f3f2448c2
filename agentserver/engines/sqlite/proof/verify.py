"""The check of a whole journal: is everything in it what was written?

Owns the list of what is checked, in the order in which it is told. Changes nothing. Refuses to repair.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from agentserver.core.encoding import recording
from agentserver.core.encoding.snapshot import UnreadableError
from agentserver.engines.sqlite.care import aside, calendar, claims, openings
from agentserver.engines.sqlite.care.maintenance import broken_link
from agentserver.engines.sqlite.file import DRIVER, open_reading, told
from agentserver.engines.sqlite.proof import head as journal_head
from agentserver.engines.sqlite.proof import seal
from agentserver.engines.sqlite.reader import Reader
from agentserver.engines.sqlite.schema import TABLES
from agentserver.engines.sqlite.stored import stored
from agentserver.ports import EngineError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from agentserver.core.encoding.recorded import RecordedConversation, RecordedStep
    from agentserver.engines.sqlite.proof.head import HeadFile

_TABLES = ("step", "delivery", "event", "value", "receipt", "state")
"""The tables in which every row belongs to a conversation."""


def findings(path: Path) -> Iterator[str]:
    """Differences from what was written, as lines; none when all is as it was. A server may be writing the journal.

    Raises EngineError when the file is no journal that can be read.
    """
    said = journal_head.noted(path)  # before the journal, which may be newer and never older
    with closing(open_reading(path)) as connection:
        try:
            connection.execute("begin")  # one moment of it, beside a writer
            yield from _faults(connection, path, said)
        except DRIVER as error:
            yield str(told(path, error))


def _faults(connection: sqlite3.Connection, path: Path, said: HeadFile | None) -> Iterator[str]:
    found = [line for (line,) in connection.execute("pragma integrity_check(20)") if line != "ok"]
    yield from (f"the file: {' '.join(line.split())}" for line in found)
    if not found:
        yield from _shape(connection)
        yield from _head(connection, path, said)
        yield from _conversations(connection)
        yield from _marks(connection)
        yield from _answers(connection)
        if not calendar.sound(connection):
            yield "the calendar is not what was written"
        yield from aside.damaged(connection)
        yield from openings.damaged(connection)
        yield from claims.damaged(connection)


def _shape(connection: sqlite3.Connection) -> Iterator[str]:
    """Compare the tables with those of an empty journal."""
    with closing(sqlite3.connect(":memory:")) as fresh:
        fresh.executescript(TABLES)
        if _tables(fresh) != _tables(connection):
            yield "the file: its tables are not those of a journal"


def _tables(connection: sqlite3.Connection) -> list[tuple[object, ...]]:
    query = "select type, name, tbl_name, sql from main.sqlite_master order by type, name"
    return connection.execute(query).fetchall()


def _head(connection: sqlite3.Connection, path: Path, said: HeadFile | None) -> Iterator[str]:
    try:
        head = journal_head.read(connection)
        lost = None if head is None else journal_head.missing(path, head, said)
        if lost is not None:
            yield lost
    except EngineError as error:
        yield str(error)


def _conversations(connection: sqlite3.Connection) -> Iterator[str]:
    reader = Reader(connection)
    claimed = dict.fromkeys(_TABLES, 0)
    for number, key in connection.execute("select number, id from conversation order by number").fetchall():
        try:
            lines = _conversation(reader, connection, key, claimed)
            yield from (f"conversation {key}: {line}" for line in lines)
        except UnreadableError as error:
            yield str(error)
        except (sqlite3.Error, TypeError, ValueError, OverflowError) as error:
            yield f"conversation {key}: its record cannot be read: {type(error).__name__}"
        for table in ("value", "receipt", "state"):
            rows = f"select count(*) from {table} where conversation = ?"  # noqa: S608 - our own names
            claimed[table] += connection.execute(rows, (number,)).fetchone()[0]
    claimed["event"] += aside.told(connection)
    for table, count in claimed.items():
        (rows,) = connection.execute(f"select count(*) from {table}").fetchone()  # noqa: S608 - our own names
        if rows != count:
            yield f"the file: {rows} rows of {table}, of which {count} belong to a conversation"


def _conversation(
    reader: Reader, connection: sqlite3.Connection, key: str, claimed: dict[str, int]
) -> Iterator[str]:
    recorded = reader.recorded_conversation(key)
    claimed["step"] += len(recorded.steps)
    claimed["delivery"] += sum(len(step.added) for step in recorded.steps)
    claimed["event"] += sum(len(step.events) for step in recorded.steps)
    found = stored(connection, key)
    broken = broken_link(recorded)
    if broken is not None:
        yield f"step {broken} is not what was written"
    elif found is not None and (found.row.version, found.row.chain) != _end(recorded.steps):
        yield "its steps are not those that it has come by"
    else:
        yield from _receipts(connection, recorded)


def _receipts(connection: sqlite3.Connection, recorded: RecordedConversation) -> Iterator[str]:
    """Ids that senders gave their messages: they stand in the causes of the steps too."""
    rows = connection.execute(
        "select r.name, r.request, r.content from receipt r join conversation c on c.number = r.conversation"
        " where c.id = ? order by r.name",
        (recorded.beginning.id,),
    )
    given = (recording.receipt(step.cause) for step in recorded.steps)
    if sorted((name, *receipt[:2]) for name, receipt in filter(None, given)) != rows.fetchall():
        yield "the ids of its senders are not those that they gave"


def _end(steps: tuple[RecordedStep, ...]) -> tuple[int, bytes]:
    return (steps[-1].version, steps[-1].chain) if steps else (0, seal.GENESIS)


def _marks(connection: sqlite3.Connection) -> Iterator[str]:
    """Damage to the columns of a row that change after it was written."""
    for *columns, mark in connection.execute("select number, state, reason, ended, mark from delivery"):
        if mark != seal.mark(*columns):
            yield f"what became of delivery {columns[0]} is not what was written"
    for number, waiting, mark in connection.execute("select number, waiting, mark from event"):
        if mark != (seal.WAITS if waiting else seal.GONE):
            yield f"whether event {number} waits is not what was written"


def _answers(connection: sqlite3.Connection) -> Iterator[str]:
    for *row, sealed in connection.execute("select approval, digest, said, author, at, seal from answer"):
        if sealed != seal.digest(row):
            yield "an answer to a question is not what was written"
