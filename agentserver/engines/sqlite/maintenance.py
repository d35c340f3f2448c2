"""Maintenance of a journal's file: statistics, vacuum and partial copies."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from agentserver.engines.journal import records
from agentserver.engines.journal.retention import remove_conversations
from agentserver.engines.journal.rows import DeliveryEnd
from agentserver.engines.journal.verify import find_faults
from agentserver.engines.sqlite import head as journal_head
from agentserver.engines.sqlite.file import (
    DRIVER,
    convert_error,
    find_count_damage,
    has_other_tables,
    open_reading,
)
from agentserver.ports import EngineError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from agentserver.core.state.approvals import ApprovalAnswer
    from agentserver.engines.sqlite.head import HeadRecord


class Stats(NamedTuple):
    """Statistics of a journal. Sizes in bytes, times in seconds since the epoch.

    Args:
        size: of the file.
        log: of the write-ahead log.
        free: free pages in the file, which are reused before it grows.
        held: in use, to which the limit of a journal applies.
        unread: unacknowledged replies and ends of requests.
        receipts: idempotency keys of messages.
    """

    size: int
    log: int
    free: int
    open: int
    closed: int
    steps: int
    queued: int
    dead: int
    unread: int
    receipts: int
    oldest: float | None
    held: int


def count_held_bytes(connection: sqlite3.Connection) -> int:
    """Count the bytes in use, including the log."""
    (pages,), (free,), (size,) = (
        connection.execute(f"pragma {name}").fetchone()
        for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)


def vacuum(connection: sqlite3.Connection) -> None:
    """Shrink the file to its contents. Temporarily needs as much space again."""
    connection.execute("vacuum")
    connection.execute("pragma wal_checkpoint(truncate)").fetchall()


def keep_only(copy: sqlite3.Connection, known: Collection[str]) -> None:
    """Remove all other conversations from a copy of a journal."""
    others = [
        number for number, key in copy.execute("select number, id from conversation") if key not in known
    ]
    remove_conversations(copy, others)
    records.keep_names_of(copy, known)
    copy.execute("delete from answer")  # they lack their conversation
    copy.execute("vacuum")


def stats(path: Path) -> Stats:
    """Collect the statistics of a journal. Raises EngineError."""
    with closing(open_reading(path)) as connection:

        def one(statement: str, *values: object) -> int:
            return int(connection.execute(statement, values).fetchone()[0] or 0)

        log = path.with_name(f"{path.name}-wal")
        (oldest,) = connection.execute("select min(opened) from conversation").fetchone()
        return Stats(
            path.stat().st_size,
            log.stat().st_size if log.exists() else 0,
            one("pragma freelist_count") * one("pragma page_size"),
            one("select count(*) from conversation where closed is null"),
            one("select count(*) from conversation where closed is not null"),
            one("select count(*) from step"),
            one("select count(*) from delivery where state = ?", DeliveryEnd.QUEUED),
            one("select count(*) from delivery where state = ?", DeliveryEnd.DEAD),
            one("select count(*) from event where waiting = 1"),
            one("select count(*) from receipt"),
            oldest,
            count_held_bytes(connection),
        )


def leave_answer(path: Path, answered: ApprovalAnswer, at: float) -> bool:
    """Store an answer durably, also while a server uses the journal.

    Returns as ``records.put_answer`` does. Raises EngineError.
    """
    open_reading(path).close()
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None)
        with closing(connection):
            connection.execute("pragma synchronous = full")
            return records.put_answer(connection, answered, at)
    except sqlite3.Error as error:
        raise convert_error(path, error) from error


def findings(path: Path) -> Iterator[str]:
    """Find damage, a line each, also while a server writes the journal.

    Raises EngineError when the file is no readable journal.
    """
    said = journal_head.read_head_file(path)  # before the journal, which may be newer but never older
    with closing(open_reading(path)) as connection:
        try:
            connection.execute("begin")  # one snapshot, also while a server writes
            yield from _faults(connection, path, said)
        except DRIVER as error:
            yield str(convert_error(path, error))


def _faults(connection: sqlite3.Connection, path: Path, said: HeadRecord | None) -> Iterator[str]:
    found = [line for (line,) in connection.execute("pragma integrity_check(20)") if line != "ok"]
    yield from (f"the file: {' '.join(line.split())}" for line in found)
    if not found:
        if has_other_tables(connection):
            yield "the file: its tables do not match a journal's"
        yield from _head(connection, path, said)
        yield from find_faults(connection, (sqlite3.Error,))
        yield from find_count_damage(connection)


def _head(connection: sqlite3.Connection, path: Path, said: HeadRecord | None) -> Iterator[str]:
    try:
        head = journal_head.read(connection)
        lost = None if head is None else journal_head.missing(path, head, said)
        if lost is not None:
            yield lost
    except EngineError as error:
        yield str(error)
