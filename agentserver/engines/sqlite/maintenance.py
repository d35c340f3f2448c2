"""The care of a journal's file: shrinking, cutting a copy down, counting.

Owns the figures of a file. Must not decide what ages out.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from agentserver.engines.journal import records
from agentserver.engines.journal.retention import remove_conversations
from agentserver.engines.journal.rows import DeliveryEnd
from agentserver.engines.sqlite.file import open_reading, told

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from agentserver.core.state.approvals import ApprovalAnswer


class Stats(NamedTuple):
    """The contents of a journal in figures. Sizes in bytes, times in seconds since the epoch.

    Args:
        size: of the file.
        log: of the write-ahead log beside it.
        free: inside the file, left by what was removed; used again before the file grows.
        held: in use; what the limit of a journal is about.
        unread: replies and ends of requests that no gateway has acknowledged.
        receipts: ids that senders gave their messages.
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


def held(connection: sqlite3.Connection) -> int:
    """Bytes of the journal that are in use, its log included."""
    (pages,), (free,), (size,) = (
        connection.execute(f"pragma {name}").fetchone()
        for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)


def vacuum(connection: sqlite3.Connection) -> None:
    """Give back what the file holds for nothing. Needs as much room again while it lasts."""
    connection.execute("vacuum")
    connection.execute("pragma wal_checkpoint(truncate)").fetchall()


def only(copy: sqlite3.Connection, known: Collection[str]) -> None:
    """Remove every other conversation from a copy of a journal."""
    others = [
        number for number, key in copy.execute("select number, id from conversation") if key not in known
    ]
    remove_conversations(copy, others)
    records.keep_names_of(copy, known)
    copy.execute("delete from answer")  # they do not say of which conversation they are
    copy.execute("vacuum")


def stats(path: Path) -> Stats:
    """Count what a journal holds. Raises EngineError."""
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
            held(connection),
        )


def leave_answer(path: Path, answered: ApprovalAnswer, at: float) -> bool:
    """Write an answer; when this returns it is on the disk. A server may have the journal meanwhile.

    Returns what ``records.put_answer`` does. Raises EngineError.
    """
    open_reading(path).close()
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None)
        with closing(connection):
            connection.execute("pragma synchronous = full")
            return records.put_answer(connection, answered, at)
    except sqlite3.Error as error:
        raise told(path, error) from error
