"""The tables of a journal's file: those of every journal, and those that one process has for itself.

Holds their definition. Must not know what the rows mean.
"""

from __future__ import annotations

from typing import Final

from agentserver.engines.journal.schema import Dialect

_OWN = """
    create table claim (epoch integer not null, seal blob not null) strict;

    create table head (
        identity blob not null,
        steps integer not null,
        link blob not null,
        seal blob not null
    ) strict;
    insert into head values (randomblob(16), 0, zeroblob(32), x'');
"""
SQLITE: Final = Dialect(
    {
        "integer": "integer",
        "real": "real",
        "blob": "blob",
        "counter": "integer",
        "rowkey": "integer primary key",
    },
    {
        "table": "strict",
        "lookup": "strict, without rowid",
        "history": "strict",
        "history_lookup": "strict, without rowid",
    },
    literal=("x'", "'"),
)

TABLES: Final = SQLITE.tables() + _OWN
"""The tables. ``claim``: see care/claims.py; ``head``: see proof/head.py."""
