"""The check of a whole journal: is everything in it what was written?

Owns the list of what is checked, in the order in which it is told. Changes nothing. Refuses to repair.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from agentserver.engines.journal.verify import find_faults
from agentserver.engines.sqlite import head as journal_head
from agentserver.engines.sqlite.file import DRIVER, find_count_damage, has_other_tables, open_reading, told
from agentserver.ports import EngineError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from agentserver.engines.sqlite.head import HeadRecord


def findings(path: Path) -> Iterator[str]:
    """Differences from what was written, as lines; none when all is as it was. A server may be writing the journal.

    Raises EngineError when the file is no journal that can be read.
    """
    said = journal_head.noted(path)  # before the journal, which may be newer and never older
    with closing(open_reading(path)) as connection:
        try:
            connection.execute("begin")  # one moment of it, beside a writer
            yield from _faults(connection, path, said)
        except DRIVER as error:
            yield str(told(path, error))


def _faults(connection: sqlite3.Connection, path: Path, said: HeadRecord | None) -> Iterator[str]:
    found = [line for (line,) in connection.execute("pragma integrity_check(20)") if line != "ok"]
    yield from (f"the file: {' '.join(line.split())}" for line in found)
    if not found:
        if has_other_tables(connection):
            yield "the file: its tables are not those of a journal"
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
