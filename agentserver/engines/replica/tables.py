"""The tables that a replica has beside those of a journal, and its one-row facts.

Owns the place of the last entry that was applied, of which log it was, and the last claim of each partition. Refuses to
know entries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import sqlite3

TABLES: Final = """
    create table if not exists followed (place integer not null) strict;
    create table if not exists followed_entry (place integer not null, id text not null) strict;
    create table if not exists followed_log (id text not null) strict;
    create table if not exists partition_claim (
        partition integer primary key,
        epoch integer not null
    ) strict;
    create table if not exists arrival (
        number integer primary key,
        id text not null unique,
        partition integer not null,
        data blob not null,
        fate text
    ) strict;
    create index if not exists arrival_waiting on arrival(partition, number) where fate is null;
"""
"""``followed``: one row, once something was applied; ``followed_entry``: the id of the entry there, unless a version
that knew none has applied one since. ``arrival``: see engines/replica/kept_arrivals.py."""


class FollowedLog(NamedTuple):
    """The log that a replica has followed so far.

    Args:
        place: of the last entry that was applied; zero before the first.
        entry: the id of that entry; empty when it is not known.
        log: the id of the log; empty when it is not known.
    """

    place: int
    entry: str
    log: str


def is_replica(connection: sqlite3.Connection) -> bool:
    """True for the journal of a server that follows a log: what is written to it beside the log is in no other."""
    return connection.execute("select 1 from sqlite_master where name = 'followed'").fetchone() is not None


def remove_tables(connection: sqlite3.Connection) -> None:
    """Leave a journal of what was a replica."""
    for name in ("followed", "followed_entry", "followed_log", "partition_claim", "arrival"):
        connection.execute(f"drop table if exists {name}")


def place_of(connection: sqlite3.Connection) -> int:
    """The place of the last entry that was applied; zero before the first."""
    row = connection.execute("select max(place) from followed").fetchone()
    return int(row[0] or 0)


def followed_of(connection: sqlite3.Connection) -> FollowedLog:
    """The log that was followed."""
    place = place_of(connection)
    entry = connection.execute("select id from followed_entry where place = ?", (place,)).fetchone()
    log = connection.execute("select id from followed_log").fetchone()
    return FollowedLog(place, entry[0] if entry else "", log[0] if log else "")


def keep_place(connection: sqlite3.Connection, place: int, entry: str) -> None:
    """Keep the place and the id of an entry, in a transaction of the caller's."""
    if not connection.execute("update followed set place = ?", (place,)).rowcount:
        connection.execute("insert into followed values (?)", (place,))
    if not connection.execute("update followed_entry set place = ?, id = ?", (place, entry)).rowcount:
        connection.execute("insert into followed_entry values (?, ?)", (place, entry))


def keep_log(connection: sqlite3.Connection, log: str) -> None:
    """Keep the id of the log that is followed from now on; an empty one is of a log that is not known yet."""
    connection.execute("delete from followed_log")
    if log:
        connection.execute("insert into followed_log values (?)", (log,))


def last_claims(connection: sqlite3.Connection) -> dict[int, int]:
    """The epoch of the last claim of each partition."""
    return dict(connection.execute("select partition, epoch from partition_claim"))


def keep_claim(connection: sqlite3.Connection, partition: int, epoch: int) -> None:
    """Keep a claim, in a transaction of the caller's."""
    connection.execute("insert or replace into partition_claim values (?, ?)", (partition, epoch))
