"""The check of a journal's rows: is everything in it what was written?

Owns the list of what is checked, in the order of the findings. Changes and repairs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.core.encoding import recording
from agentserver.core.encoding.snapshot import UnreadableError
from agentserver.engines.journal import records, seal, suspension
from agentserver.engines.journal.reader import Reader
from agentserver.engines.journal.retention import find_broken_link
from agentserver.engines.journal.stored import stored

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentserver.core.encoding.recorded import RecordedConversation, RecordedStep
    from agentserver.engines.journal.connection import Connection

_TABLES = ("step", "delivery", "event", "value", "receipt", "state")
"""The tables in which every row belongs to a conversation."""


def find_faults(
    connection: Connection, driver: tuple[type[Exception], ...], kept: str = "true"
) -> Iterator[str]:
    """Find rows that are not what was written, as lines; none when all are.

    Args:
        connection: to be read as of one moment.
        driver: the errors of its driver, by which a conversation that cannot be read is a finding.
        kept: the condition for rows whose conversation is kept still.
    """
    yield from _conversations(connection, (*driver, TypeError, ValueError, OverflowError), kept)
    yield from _marks(connection)
    yield from _answers(connection)
    if not records.is_calendar_intact(connection):
        yield "the calendar is not what was written"
    yield from suspension.find_damaged_suspensions(connection)
    yield from records.find_damaged_names(connection)


def _conversations(
    connection: Connection, illegible: tuple[type[Exception], ...], kept: str
) -> Iterator[str]:
    reader = Reader(connection)
    claimed = dict.fromkeys(_TABLES, 0)
    for number, key in connection.execute("select number, id from conversation order by number").fetchall():
        try:
            lines = _conversation(reader, connection, key, claimed)
            yield from (f"conversation {key}: {line}" for line in lines)
        except UnreadableError as error:
            yield str(error)
        except illegible as error:
            yield f"conversation {key}: its record cannot be read: {type(error).__name__}"
        for table in ("value", "receipt", "state"):
            rows = f"select count(*) from {table} where conversation = ?"  # noqa: S608 - our own names
            claimed[table] += connection.execute(rows, (number,)).fetchone()[0]
    claimed["event"] += suspension.count_suspension_events(connection)
    for table, count in claimed.items():
        (rows,) = connection.execute(f"select count(*) from {table} where {kept}").fetchone()  # noqa: S608 - our own names
        if rows != count:
            yield f"the file: {rows} rows of {table}, of which {count} belong to a conversation"


def _conversation(reader: Reader, connection: Connection, key: str, claimed: dict[str, int]) -> Iterator[str]:
    recorded = reader.recorded_conversation(key)
    claimed["step"] += len(recorded.steps)
    claimed["delivery"] += sum(len(step.added) for step in recorded.steps)
    claimed["event"] += sum(len(step.events) for step in recorded.steps)
    found = stored(connection, key)
    broken = find_broken_link(recorded)
    if broken is not None:
        yield f"step {broken} is not what was written"
    elif found is not None and (found.row.version, found.row.chain) != _end(recorded.steps):
        yield "its steps are not those that it has come by"
    else:
        yield from _receipts(connection, recorded)


def _receipts(connection: Connection, recorded: RecordedConversation) -> Iterator[str]:
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


def _marks(connection: Connection) -> Iterator[str]:
    """Damage to the columns of a row that change after it was written."""
    for *columns, mark in connection.execute("select number, state, reason, ended, mark from delivery"):
        if mark != seal.mark(*columns):
            yield f"what became of delivery {columns[0]} is not what was written"
    for number, waiting, mark in connection.execute("select number, waiting, mark from event"):
        if mark != (seal.WAITS if waiting else seal.GONE):
            yield f"whether event {number} waits is not what was written"


def _answers(connection: Connection) -> Iterator[str]:
    for *row, sealed in connection.execute("select approval, digest, said, author, at, seal from answer"):
        if sealed != seal.digest(row):
            yield "an answer to a question is not what was written"
