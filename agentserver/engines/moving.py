"""Conversations on their way from a journal's file into a database, or back.

Owns which rows move, that a conversation is there whole or not at all, so that a move which was cut short goes on, and
the comparison at the end. Rows keep their numbers, which their digests hold. Refuses to move what a server works on.
"""

from __future__ import annotations

from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from agentserver.engines.journal.connection import snapshot, transaction
from agentserver.engines.journal.seal import digest
from agentserver.engines.postgres import history
from agentserver.engines.postgres.operations import open_database
from agentserver.engines.sqlite import head
from agentserver.engines.sqlite.file import JournalOptions, open_reading, open_writing
from agentserver.engines.sqlite.lock import LOCK, Lock, find_companion
from agentserver.engines.sqlite.maintenance import findings
from agentserver.ports import EngineError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from agentserver.engines.journal.connection import Connection
    from agentserver.engines.postgres.connection import PostgresOptions


class MoveCounts(NamedTuple):
    """The outcome of a move: conversations that it moved, and those that were there from one that was cut short."""

    moved: int
    before: int


_CONVERSATION: Final = "number id principal root rights opened touched version closed chain state asks seal"
_BY_NUMBER: Final = {
    "step": "number conversation version at seed cause records changes first_delivery deliveries first_event events"
    " chain",
    "delivery": "number conversation id request thread origin sender recipient root message hop about call state reason"
    " ended mark",
    "event": "number conversation version position request sender root message flag waiting mark",
    "value": "conversation owner name data",
    "state": "conversation version data",
    "receipt": "conversation name content request",
    "suspension": "number conversation at reason first_event events ended seal",
}
"""The columns of the tables whose rows belong to the number of a conversation."""

FAULTS: Final = 3
"""Faults of a journal that its refusal names."""

_LIVING: Final = "select name from server where not gone and expires > clock_timestamp() order by name"
_OPENING: Final = "name conversation at seal"
_HEADS: Final = "select id, number, version, chain from conversation order by number"
_NUMBERED: Final = ("conversation", "step", "delivery", "event", "suspension")


def move(source: Connection, target: Connection, told: Callable[[int, int], None]) -> MoveCounts:
    """Copy every conversation that is not there yet, one in a transaction, and compare the heads of all chains.

    Args:
        source: one moment of it.
        target: which no server works on; it may hold a part of the source, from a move that was cut short.
        told: is given how many of how many conversations are there.

    Raises EngineError when the target has conversations that are not of the source, or a head differs at the end.
    """
    heads = source.execute(_HEADS).fetchall()
    there = set(map(_head, target.execute(_HEADS).fetchall()))
    other = there.difference(map(_head, heads))
    if other:
        raise EngineError(
            f"conversation {min(other)[0]} is there, and is not of what is moved: nothing was changed"
        )
    moved = 0
    for done, row in enumerate(heads, 1):
        if _head(row) not in there:
            with transaction(target):
                _copy(source, target, row[0], row[1])
            moved += 1
        told(done, len(heads))
    found = set(map(_head, target.execute(_HEADS).fetchall()))
    wrong = found.symmetric_difference(map(_head, heads))
    if wrong:
        raise EngineError(f"conversation {min(wrong)[0]} did not arrive as it was")
    return MoveCounts(moved, len(there))


def import_journal(path: Path, options: PostgresOptions, told: Callable[[int, int], None]) -> MoveCounts:
    """Copy a journal into a database where no server is at work. Raises EngineError.

    It is verified first. One that was cut short goes on where it ended.
    """
    with Lock(path), closing(open_reading(path)) as source, open_database(options) as target:
        faults = list(islice(findings(path), FAULTS))
        if faults:
            raise EngineError(f"{path}: it is damaged, and is not moved: {'; '.join(faults)}")
        living = target.execute(_LIVING).fetchall()
        if living:
            raise EngineError(
                f"{', '.join(name for (name,) in living)} works on the database: stop its servers"
            )
        with snapshot(source):
            with transaction(target):
                numbers = [number for (number,) in source.execute("select number from conversation")]
                history.add_parts(target, options.schema, [*numbers, _greatest(source) + 1])
            moved = move(source, target, told)
            with transaction(target):
                _take_up(source, target, options.schema)
        return moved


def export_journal(options: PostgresOptions, path: Path, told: Callable[[int, int], None]) -> MoveCounts:
    """Copy a database, as it is at one moment, into a new journal; servers may be at work. Raises EngineError.

    It is written under another name, where one that was cut short goes on, until all is there.
    """
    part = path.with_name(f"{path.name}.part")
    if path.exists():
        raise EngineError(f"{path}: exists already")
    with Lock(part), open_database(options) as source:
        with snapshot(source), closing(open_writing(JournalOptions(part))) as target:
            moved = move(source, target, told)
            with transaction(target):
                _begin_journal(source, target)
            target.execute("pragma wal_checkpoint(truncate)").fetchall()
            target.execute("pragma journal_mode = delete").fetchall()
        part.rename(path)
    find_companion(part, LOCK).unlink(missing_ok=True)
    return moved


def _take_up(source: Connection, target: Connection, schema: str) -> None:
    """Have servers of the database begin after what a server of the journal did."""
    (epoch,) = source.execute("select coalesce(max(epoch), 0) from claim").fetchone()
    target.execute("update conversation set epoch = ? where epoch = 0", (epoch,))
    target.execute("update ledger set next = greatest(next, ?)", (_greatest(target) + 1,))
    target.execute(
        f'alter table "{schema}".suspension alter column number restart with {_greatest(target) + 1}'
    )
    _answers(source, target)


def _begin_journal(source: Connection, target: Connection) -> None:
    """Have a server of the journal begin after what servers of the database did."""
    (epoch,) = source.execute("select coalesce(max(epoch), 0) from conversation").fetchone()
    target.execute("delete from claim")
    target.execute("insert into claim values (?, ?)", (epoch, digest((epoch,))))
    (steps,) = target.execute("select count(*) from step").fetchone()
    last = target.execute("select chain from step order by number desc limit 1").fetchone()
    known = head.read(target)
    if known is not None and last is not None:
        head.keep(target, known._replace(steps=steps, link=last[0].hex()))
    _answers(source, target)


def _answers(source: Connection, target: Connection) -> None:
    rows = source.execute("select approval, digest, said, author, at, seal from answer").fetchall()
    target.executemany("insert into answer values (?, ?, ?, ?, ?, ?) on conflict (approval) do nothing", rows)


def _greatest(connection: Connection) -> int:
    """Find the greatest number of a row."""
    found = [connection.execute(f"select max(number) from {table}").fetchone()[0] for table in _NUMBERED]  # noqa: S608 - our own names
    return max((each for each in found if each is not None), default=0)


def _head(row: Sequence[Any]) -> tuple[Any, ...]:
    key, number, version, chain = row
    return key, number, version, bytes(chain)


def _copy(source: Connection, target: Connection, key: str, number: int) -> None:
    """Copy the rows of one conversation."""
    _rows(source, target, "conversation", _CONVERSATION, "number", number)
    for table, columns in _BY_NUMBER.items():
        _rows(source, target, table, columns, "conversation", number)
    _rows(source, target, "opening", _OPENING, "conversation", key)


def _rows(source: Connection, target: Connection, table: str, columns: str, by: str, value: object) -> None:
    names = columns.split()
    text = ", ".join(names)
    found = source.execute(f"select {text} from {table} where {by} = ?", (value,)).fetchall()  # noqa: S608 - our own names
    places = ", ".join("?" * len(names))
    target.executemany(f"insert into {table} ({text}) values ({places})", found)  # noqa: S608 - our own names
