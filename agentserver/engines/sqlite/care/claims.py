"""The openings of a journal by servers, counted.

Owns the one row of the count, which is the epoch of an engine's share. Refuses to know who may open it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3


def claim(connection: sqlite3.Connection) -> int:
    """Count one more; gives how many there were with it."""
    connection.execute("begin immediate")
    connection.execute("update claim set epoch = epoch + 1")
    (epoch,) = connection.execute("select epoch from claim").fetchone()
    connection.execute("commit")
    return int(epoch)
