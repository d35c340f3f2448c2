"""Moves conversations from a journal's file into a database, or back.

Each conversation moves in one transaction, so an interrupted move can be resumed. Rows keep their numbers, because
their digests cover them. A move compares both sides at the end.
"""

from __future__ import annotations

from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from agentserver.engines.journal.connection import snapshot, transaction
from agentserver.engines.journal.seal import digest
from agentserver.engines.journal.walking import STEPS
from agentserver.engines.postgres import history
from agentserver.engines.postgres.operations import open_database
from agentserver.engines.sqlite import head
from agentserver.engines.sqlite.file import JournalOptions, open_reading, open_writing
from agentserver.engines.sqlite.lock import LOCK, Lock, find_companion
from agentserver.engines.sqlite.maintenance import find_findings
from agentserver.ports import EngineError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from agentserver.engines.journal.connection import Connection
    from agentserver.engines.postgres.connection import PostgresOptions


class MoveCounts(NamedTuple):
    """Count of the conversations that a move copied, and of those already there from an interrupted move."""

    moved: int
    before: int


_CONVERSATION: Final = (
    "number id principal root rights opened touched version last closed chain state asks due tokens money"
    " seal"
)
_STEP: Final = (
    "number conversation version previous at seed cause records changes first_delivery deliveries first_event"
    " events chain"
)
_STEPS: Final = f"select {', '.join(f's.{name}' for name in _STEP.split())} from {STEPS}"  # noqa: S608 - our own names
_BY_NUMBER: Final = {
    "delivery": "number conversation id request thread origin sender recipient root message hop about call state reason"
    " ended mark",
    "queue": "conversation delivery delayed mark",
    "event": "number conversation version position request sender root message flag waiting mark",
    "value": "conversation owner name data",
    "state": "conversation version data",
    "receipt": "conversation name content request",
    "facet": "conversation kind value opened",
    "wordlist": "conversation version words",
    "completion": "conversation at until data seal",
    "suspension": "number conversation at reason first_event events ended seal",
}
"""Columns of the other tables that refer to the number of a conversation."""

_NOTES: Final = {
    "note": "id scope owner name principal at stranger size salt data words seal",
    "note_source": "note name place host",
    "note_log": "at action note by digest link",
}
"""Columns of the tables of notes that are copied in the order of their rows."""

FAULTS: Final = 3
"""Most faults of a journal that its error names."""

_LIVING: Final = "select name from server where not gone and expires > clock_timestamp() order by name"
_OPENING: Final = "name conversation at seal"
_HEADS: Final = "select id, number, version, chain from conversation order by number"
_NUMBERED: Final = ("conversation", "step", "delivery", "event", "suspension")


def move(source: Connection, target: Connection, report: Callable[[int, int], None]) -> MoveCounts:
    """Copy each missing conversation in a transaction of its own, and compare the heads of all chains.

    Args:
        source: in a snapshot.
        target: without servers; it may have conversations of an interrupted move.
        report: is called with the counts of copied and of all conversations.

    Raises EngineError if the target has conversations that the source lacks, or if a head differs at the end.
    """
    heads = source.execute(_HEADS).fetchall()
    existing = set(map(_collect_head, target.execute(_HEADS).fetchall()))
    other = existing.difference(map(_collect_head, heads))
    if other:
        raise EngineError(
            f"conversation {min(other)[0]} is in the target but not in the source: nothing was changed"
        )
    moved = 0
    for done, row in enumerate(heads, 1):
        if _collect_head(row) not in existing:
            with transaction(target):
                _copy(source, target, row[0], row[1])
            moved += 1
        report(done, len(heads))
    found = set(map(_collect_head, target.execute(_HEADS).fetchall()))
    wrong = found.symmetric_difference(map(_collect_head, heads))
    if wrong:
        raise EngineError(f"conversation {min(wrong)[0]} differs after the move")
    return MoveCounts(moved, len(existing))


def import_journal(path: Path, options: PostgresOptions, report: Callable[[int, int], None]) -> MoveCounts:
    """Copy a journal into a database without running servers. Raises EngineError.

    The journal is verified first. An interrupted import can be repeated and continues.
    """
    with Lock(path), closing(open_reading(path)) as source, open_database(options) as target:
        faults = list(islice(find_findings(path), FAULTS))
        if faults:
            raise EngineError(f"{path}: the journal is damaged and was not moved: {'; '.join(faults)}")
        living = target.execute(_LIVING).fetchall()
        if living:
            raise EngineError(f"{', '.join(name for (name,) in living)} uses the database: stop its servers")
        with snapshot(source):
            with transaction(target):
                numbers = [number for (number,) in source.execute("select number from conversation")]
                history.add_parts(target, options.schema, [*numbers, _find_greatest(source) + 1])
            moved = move(source, target, report)
            with transaction(target):
                _take_up(source, target, options.schema)
                copy_notes(source, target)
        return moved


def export_journal(options: PostgresOptions, path: Path, report: Callable[[int, int], None]) -> MoveCounts:
    """Copy a snapshot of a database into a new journal; servers may be running. Raises EngineError.

    The journal is renamed into place when it is complete. An interrupted export can be repeated and continues.
    """
    part = path.with_name(f"{path.name}.part")
    if path.exists():
        raise EngineError(f"{path}: exists already")
    with Lock(part), open_database(options) as source:
        with snapshot(source), closing(open_writing(JournalOptions(part))) as target:
            moved = move(source, target, report)
            with transaction(target):
                _begin_journal(source, target)
                copy_notes(source, target)
            target.execute("pragma wal_checkpoint(truncate)").fetchall()
            target.execute("pragma journal_mode = delete").fetchall()
        part.rename(path)
    find_companion(part, LOCK).unlink(missing_ok=True)
    return moved


def copy_notes(source: Connection, target: Connection) -> None:
    """Copy the notes with the chain of their log, unless the target has the chain. Raises EngineError.

    Run in a transaction of the target. A target with another chain is refused, since two chains cannot be joined.
    """
    (link,) = source.execute("select link from note_head where one = 1").fetchone() or (None,)
    known = target.execute("select link from note_head where one = 1").fetchone()
    if link is None or (known is not None and bytes(known[0]) == bytes(link)):
        return
    if known is not None:
        raise EngineError("the target has notes of its own: move into an empty one")
    for table, columns in _NOTES.items():
        text = ", ".join(columns.split())
        order = "note, name, place" if table == "note_source" else "number"
        rows = source.execute(f"select {text} from {table} order by {order}").fetchall()  # noqa: S608 - our own names
        places = ", ".join("?" * len(columns.split()))
        target.executemany(f"insert into {table} ({text}) values ({places})", rows)  # noqa: S608 - our own names
    target.execute("insert into note_head (one, link) values (1, ?)", (link,))


def _take_up(source: Connection, target: Connection, schema: str) -> None:
    """Continue the epochs and numbers of the journal in the database."""
    (epoch,) = source.execute("select coalesce(max(epoch), 0) from claim").fetchone()
    target.execute("update conversation set epoch = ? where epoch = 0", (epoch,))
    target.execute("update ledger set next = greatest(next, ?)", (_find_greatest(target) + 1,))
    target.execute(
        f'alter table "{schema}".suspension alter column number restart with {_find_greatest(target) + 1}'
    )
    _answers(source, target)


def _begin_journal(source: Connection, target: Connection) -> None:
    """Continue the epochs and the chain of the database in the journal."""
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


def _find_greatest(connection: Connection) -> int:
    """Find the greatest number of a row."""
    found = [connection.execute(f"select max(number) from {table}").fetchone()[0] for table in _NUMBERED]  # noqa: S608 - our own names
    return max((each for each in found if each is not None), default=0)


def _collect_head(row: Sequence[Any]) -> tuple[Any, ...]:
    key, number, version, chain = row
    return key, number, version, bytes(chain)


def _copy(source: Connection, target: Connection, key: str, number: int) -> None:
    """Copy the rows of one conversation."""
    _rows(source, target, "conversation", _CONVERSATION, "number", number)
    _insert(target, "step", _STEP, source.execute(_STEPS, (number, 0)).fetchall())
    for table, columns in _BY_NUMBER.items():
        _rows(source, target, table, columns, "conversation", number)
    _rows(source, target, "opening", _OPENING, "conversation", key)


def _rows(source: Connection, target: Connection, table: str, columns: str, by: str, value: object) -> None:
    text = ", ".join(columns.split())
    found = source.execute(f"select {text} from {table} where {by} = ?", (value,)).fetchall()  # noqa: S608 - our own names
    _insert(target, table, columns, found)


def _insert(target: Connection, table: str, columns: str, rows: Sequence[Sequence[Any]]) -> None:
    names = columns.split()
    text, places = ", ".join(names), ", ".join("?" * len(names))
    target.executemany(f"insert into {table} ({text}) values ({places})", rows)  # noqa: S608 - our own names
