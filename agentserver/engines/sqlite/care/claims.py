"""The openings of a journal by servers, counted.

Owns the one row of the count, which is the epoch of an engine's claim. Refuses to know who may open it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from agentserver.engines.journal.seal import digest

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

logger = logging.getLogger("agentserver.journal")


def claim(connection: sqlite3.Connection) -> int:
    """Count one more; gives how many there were with it."""
    for damage in damaged(connection):
        logger.error("%s: invocation().epoch may go back", damage)
    (before,) = connection.execute("select coalesce(max(epoch), 0) from claim").fetchone()
    row = (int(before) + 1,)
    connection.execute("begin immediate")
    connection.execute("delete from claim")
    connection.execute("insert into claim values (?, ?)", (*row, digest(row)))
    connection.execute("commit")
    return row[0]


def damaged(connection: sqlite3.Connection) -> Iterator[str]:
    """The damage to the count, if it is not as it was written."""
    if connection.execute("select 1 from sqlite_master where name = 'claim'").fetchone() is None:
        return
    rows = connection.execute("select epoch, seal from claim").fetchall()
    if len(rows) > 1 or any(seal != digest((epoch,)) for epoch, seal in rows):
        yield "the count of openings is not what was written"
