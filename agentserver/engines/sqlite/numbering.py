"""The stored rows of a journal's file, and the numbers of new ones.

Owns the last number of each table, which only the writer of the file gives. Must not make rows.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from agentserver.engines.journal.steps import written

if TYPE_CHECKING:
    import sqlite3

TABLES = ("conversation", "step", "delivery", "event")
"""The tables whose rows are numbered."""


class FileRows:
    """The rows that steps build on: see ``agentserver.engines.journal.steps.numbered.StoredRows``.

    Args:
        connection: to the journal; no other writes it.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.find = partial(written.find, connection)
        self.dead = partial(written.dead, connection)
        self.receipt = partial(written.receipt, connection)
        self.count()

    def count(self) -> None:
        """Read the last number of each table: numbers that were taken and not written are free again."""
        self._last = {table: self._highest(table) for table in TABLES}

    def _highest(self, table: str) -> int:
        (number,) = self._connection.execute(f"select max(number) from {table}").fetchone()  # noqa: S608 - our own names
        return int(number or 0)

    def take(self, table: str, count: int) -> int:
        """Take numbers that follow each other; returns the first."""
        first = self._last[table] + 1
        self._last[table] += count
        return first
