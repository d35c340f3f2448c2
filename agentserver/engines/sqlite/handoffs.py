"""The heads of handoff records, stored in the journal's file.

Any process of the organism may write them while a server uses the journal: a record's own lock keeps writers apart.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Final

from agentserver.engines.sqlite.file import APPLICATION
from agentserver.handoff.audit import Seal
from agentserver.handoff.edge.heads import ChainHead

if TYPE_CHECKING:
    from pathlib import Path

_TABLE: Final = "select 1 from sqlite_master where type = 'table' and name = 'handoff'"


class JournalHeadStore:
    """Stores the head of one record in a journal.

    Args:
        journal: its path.
        name: of the record's file, as in the organism.

    A missing or uninitialized journal stores none.
    """

    def __init__(self, journal: Path, name: str) -> None:
        self._journal = journal
        self._name = name

    def read(self) -> ChainHead | None:
        """Read the head. Raises OSError, or ValueError for wrong types."""
        rows = self._run("select count, hash, line, size from handoff where file = ?", (self._name,))
        if not rows:
            return None
        count, own, line, size = rows[0]
        if len(own) != len(Seal().hash):
            raise ValueError(f"{self._journal}: holds no end of {self._name}")
        return ChainHead(Seal(count, own), line, size)

    def keep(self, head: ChainHead) -> None:
        """Write the head durably. Raises OSError."""
        row = (self._name, head.end.count, head.end.hash, head.line, head.size)
        self._run("insert or replace into handoff values (?, ?, ?, ?, ?)", row)

    def _run(self, statement: str, row: tuple[object, ...]) -> list[tuple[int, str, str, int]]:
        if not self._journal.is_file():
            return []
        try:
            uri = f"{self._journal.absolute().as_uri()}?mode=rw"
            with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
                (application,) = connection.execute("pragma application_id").fetchone()
                if application != APPLICATION or connection.execute(_TABLE).fetchone() is None:
                    return []
                connection.execute("pragma synchronous = full")
                return connection.execute(statement, row).fetchall()
        except sqlite3.Error as error:
            raise OSError(f"{self._journal}: the end of {self._name}: {error}") from error
