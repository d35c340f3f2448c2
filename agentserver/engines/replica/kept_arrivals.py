"""Arrivals in a replica, until their owner is done with it.

Owns its rows, and for how long it is known what became of an arrival. Refuses to know what an arrival asks for.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from agentserver.engines.replica.entries import arriving
from agentserver.ports.sharing import Fate

if TYPE_CHECKING:
    import sqlite3

    from agentserver.engines.replica.log import LogEntry
    from agentserver.ports.sharing import Arrival

KNOWN: Final = 10_000
"""Arrivals after which what became of one is forgotten."""


def keep(connection: sqlite3.Connection, arrival: Arrival, entry: LogEntry) -> Fate | None:
    """Keep an arrival; gives what has become of it, when it was there and is done with."""
    row = (arrival.id, entry.partition, arriving.dump(arrival))
    added = connection.execute(
        "insert or ignore into arrival (id, partition, data) values (?, ?, ?)", row
    ).rowcount
    return None if added else fate(connection, arrival.id)


def done(connection: sqlite3.Connection, arrival: str, what: Fate) -> None:
    """Keep what has become of an arrival; what stands already stays."""
    connection.execute(
        "update arrival set fate = ?, data = x'' where id = ? and fate is null",
        (json.dumps([what.word, what.request, what.version, what.again]), arrival),
    )
    connection.execute(
        "delete from arrival where fate is not null and number < (select max(number) from arrival) - ?",
        (KNOWN,),
    )


def fate(connection: sqlite3.Connection, arrival: str) -> Fate | None:
    """The fate of an arrival; None while it waits, and for one that is not known."""
    row = connection.execute("select fate from arrival where id = ?", (arrival,)).fetchone()
    if row is None or row[0] is None:
        return None
    word, request, version, again = json.loads(row[0])
    return Fate(word, request, version, again=again)


def waiting(connection: sqlite3.Connection, partition: int, after: int) -> list[tuple[int, Arrival]]:
    """The arrivals of a partition that are not done with, after a number, each with its own, in order."""
    rows = connection.execute(
        "select number, data from arrival where partition = ? and number > ? and fate is null order by number",
        (partition, after),
    )
    return [(number, arriving.load(data)) for number, data in rows]
