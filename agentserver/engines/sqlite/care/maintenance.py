"""The care of a journal: ageing out, shrinking, copying, counting, checking.

Owns what is removed and when. Refuses to touch an open conversation.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from agentserver.engines.sqlite.care import aside, openings
from agentserver.engines.sqlite.file import open_reading
from agentserver.engines.sqlite.proof.seal import GENESIS, chained, mark
from agentserver.engines.sqlite.rows import DeliveryEnd, transaction

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection
    from pathlib import Path

    from agentserver.core.encoding.recorded import RecordedConversation

AT_ONCE = 64
"""Conversations that one transaction removes."""


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


def forget(connection: sqlite3.Connection, before: float) -> int:
    """Remove some of the conversations that were closed before; gives how many."""
    rows = connection.execute(
        "select number from conversation where touched < ? and closed is not null order by touched limit ?",
        (before, AT_ONCE),
    ).fetchall()
    if rows:
        _remove(connection, [number for (number,) in rows])
    else:
        openings.forget(connection, before)
    return len(rows)


def _remove(connection: sqlite3.Connection, numbers: Collection[int]) -> None:
    with transaction(connection):
        for number in numbers:
            steps = connection.execute(
                "select first_delivery, deliveries, first_event, events from step where conversation = ?",
                (number,),
            ).fetchall()
            connection.executemany(
                "delete from delivery where number >= ? and number < ?",
                [(d, d + n) for d, n, _, _ in steps if n],
            )
            connection.executemany(
                "delete from event where number >= ? and number < ?",
                [(e, e + n) for _, _, e, n in steps if n],
            )
            connection.execute("delete from step where conversation = ?", (number,))
            connection.execute("delete from value where conversation = ?", (number,))
            connection.execute("delete from state where conversation = ?", (number,))
            aside.remove(connection, number)
            connection.execute(
                "delete from opening where conversation = (select id from conversation where number = ?)",
                (number,),
            )
            connection.execute("delete from receipt where conversation = ?", (number,))
            connection.execute("delete from conversation where number = ?", (number,))


def vacuum(connection: sqlite3.Connection) -> None:
    """Give back what the file holds for nothing. Needs as much room again while it lasts."""
    connection.execute("vacuum")
    connection.execute("pragma wal_checkpoint(truncate)").fetchall()


def only(copy: sqlite3.Connection, known: Collection[str]) -> None:
    """Remove every other conversation from a copy of a journal."""
    others = [
        number for number, key in copy.execute("select number, id from conversation") if key not in known
    ]
    _remove(copy, others)
    openings.only(copy, known)
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


def discard(connection: sqlite3.Connection, delivery: str) -> bool:
    """Take a dead letter off the list; what is recorded of it stays. False when there is none of that id."""
    row = connection.execute(
        "select number, reason, ended from delivery where id = ? and state = ?", (delivery, DeliveryEnd.DEAD)
    ).fetchone()
    if row is None:
        return False
    number, *rest = row
    connection.execute(
        "update delivery set state = ?, mark = ? where number = ?",
        (DeliveryEnd.DISCARDED, mark(number, DeliveryEnd.DISCARDED, *rest), number),
    )
    return True


def broken_link(recorded: RecordedConversation) -> int | None:
    """The first version of a conversation whose step is not what was written; None when all are."""
    chain = GENESIS
    for expected, step in enumerate(recorded.steps, 1):
        chain = chained(chain, *step.moment, step.cause, step.records, *step.rows)
        if chain != step.chain or step.version != expected:
            return expected
    return None
