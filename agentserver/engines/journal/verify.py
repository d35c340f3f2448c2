"""Verification of a whole journal. Read-only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.core.encoding import decision_codec
from agentserver.core.encoding.snapshot import UnreadableError
from agentserver.engines.journal import records, seal, suspension
from agentserver.engines.journal.reader import Reader
from agentserver.engines.journal.retention import find_broken_link
from agentserver.engines.journal.stored import read_stored

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentserver.core.encoding.history import RecordedConversation, RecordedStep
    from agentserver.engines.journal.connection import Connection

_TABLES = ("step", "delivery", "event", "value", "receipt", "state")
"""Tables whose rows all belong to a conversation."""


def find_faults(
    connection: Connection, driver: tuple[type[Exception], ...], kept: str = "true"
) -> Iterator[str]:
    """Find damaged rows, a line each.

    Args:
        connection: within a snapshot.
        driver: errors of its driver, which count as findings.
        kept: the condition for rows whose conversation has not expired.
    """
    yield from _conversations(connection, (*driver, TypeError, ValueError, OverflowError), kept)
    yield from _marks(connection)
    yield from _answers(connection)
    if not records.is_calendar_intact(connection):
        yield "the calendar fails its seal"
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
            yield f"the file: {rows} rows of {table}, but {count} belong to a conversation"


def _conversation(reader: Reader, connection: Connection, key: str, claimed: dict[str, int]) -> Iterator[str]:
    recorded = reader.recorded_conversation(key)
    claimed["step"] += len(recorded.steps)
    claimed["delivery"] += sum(len(step.added) for step in recorded.steps)
    claimed["event"] += sum(len(step.events) for step in recorded.steps)
    found = read_stored(connection, key)
    broken = find_broken_link(recorded)
    if broken is not None:
        yield f"step {broken} breaks the chain"
    elif found is not None and (found.row.version, found.row.chain) != _end(recorded.steps):
        yield "its last step does not match its row"
    else:
        yield from _receipts(connection, recorded)


def _receipts(connection: Connection, recorded: RecordedConversation) -> Iterator[str]:
    """Compare receipts with the idempotency keys in the causes of steps."""
    rows = connection.execute(
        "select r.name, r.request, r.content from receipt r join conversation c on c.number = r.conversation"
        " where c.id = ? order by r.name",
        (recorded.beginning.id,),
    )
    given = (decision_codec.receipt(step.cause) for step in recorded.steps)
    if sorted((name, *receipt[:2]) for name, receipt in filter(None, given)) != rows.fetchall():
        yield "its receipts do not match the steps that issued them"


def _end(steps: tuple[RecordedStep, ...]) -> tuple[int, bytes]:
    return (steps[-1].version, steps[-1].chain) if steps else (0, seal.GENESIS)


def _marks(connection: Connection) -> Iterator[str]:
    """Check the marks of mutable columns."""
    for *columns, mark in connection.execute("select number, state, reason, ended, mark from delivery"):
        if mark != seal.mark(*columns):
            yield f"the state of delivery {columns[0]} fails its mark"
    for number, waiting, mark in connection.execute("select number, waiting, mark from event"):
        if mark != (seal.WAITS if waiting else seal.GONE):
            yield f"the state of event {number} fails its mark"


def _answers(connection: Connection) -> Iterator[str]:
    for *row, sealed in connection.execute("select approval, digest, said, author, at, seal from answer"):
        if sealed != seal.digest(row):
            yield "an answer fails its seal"
