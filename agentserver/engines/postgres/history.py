"""History of conversations, in partitions that are dropped when they expire.

Steps, deliveries, events and receipts are partitioned by conversation number. A part is a range of ``WIDTH`` numbers
with one partition of each table; new conversations are numbered from the latest part. When the retention of a
conversation ends, its own row is deleted at once, which hides it from every reader, and its history is dropped with the
part. History rows are deleted one by one only where a long-lived conversation keeps an old part, or where the role may
not drop tables.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import asyncpg

from agentserver.engines.journal import records, retention, suspension
from agentserver.engines.journal.connection import transaction
from agentserver.engines.journal.walking import INDEXED_STEPS
from agentserver.engines.postgres.connection import DRIVER, connect

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from agentserver.engines.journal.connection import Connection as Journal
    from agentserver.engines.postgres.connection import Connection, PostgresOptions

WIDTH: Final = 1 << 40
"""Numbers in the range of a part. A table has room for eight million parts."""

SHARE: Final = 8
"""Parts in which the history of one retention is kept."""

SHORTEST: Final = 3600.0
"""Shortest time in seconds that a part is current, and that it is then kept.

A server may use numbers for some minutes after reserving them: see rows.py."""

PATIENCE_MS: Final = 500
"""Milliseconds for which a partition change waits for its lock, with commits queued behind it."""

AT_ONCE: Final = 256
"""Most conversations removed in one transaction."""

_UPDATED: Final = "fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02"
_INSERTED: Final = "autovacuum_vacuum_insert_scale_factor = 0.2"
PARTITIONED: Final = {
    "step": _INSERTED,
    "delivery": _UPDATED,
    "event": _UPDATED,
    "receipt": _INSERTED,
    "expired": _INSERTED,
}
"""Partitioned tables, with the settings of their partitions."""

_DUE: Final = """
    select p.number, p.ended is null as current from @history_part p where case
        when p.ended is null then p.began < clock_timestamp() - $1 * interval '1 second' and (
            exists (select from @conversation c where c.number >= p.number * $3::bigint)
            or exists (select from @expired e where e.conversation >= p.number * $3::bigint))
        else p.ended < clock_timestamp() - $2 * interval '1 second' and not exists (
            select from @conversation c where c.number >= p.number * $3::bigint
            and c.number < (p.number + 1) * $3::bigint)
    end order by p.number
"""
_END: Final = (
    "update @history_part set ended = clock_timestamp() where number = $1 and ended is null returning number"
)
_GONE: Final = "delete from @history_part where number = $1"
_NEXT: Final = "update @ledger set next = greatest(next, $1)"
_EMPTY: Final = "select not exists (select from @conversation where number >= $1 and number < $2)"

_EXPIRED: Final = (
    "select number, id from conversation where closed < ?1 and touched < ?1 order by closed limit ?2"
    " for update skip locked"
)
_LEFT_OVER: Final = (
    "select conversation from expired where at < clock_timestamp() - ?1 * interval '1 second'"
    " order by at limit ?2"
)

KEPT: Final = "conversation not in (select conversation from expired)"
"""The condition for history rows whose conversation has not expired."""

logger = logging.getLogger("agentserver.journal")


def make_part(schema: str, number: int) -> Iterator[str]:
    """Yield the statements that add a part, without blocking others on the tables.

    Args:
        schema: the quoted name of the schema, with its dot.
        number: of the part.
    """
    for table, settings in PARTITIONED.items():
        part = f"{schema}{table}_{number}"
        yield f"create table {part} (like {schema}{table} including all) with ({settings})"
        yield (
            f"alter table {schema}{table} attach partition {part}"
            f" for values from ({number * WIDTH}) to ({(number + 1) * WIDTH})"
        )
    yield f"insert into {schema}history_part (number) values ({number})"  # noqa: S608 - a checked name


async def keep_parts(options: PostgresOptions, retention: float, *, shortest: float = SHORTEST) -> None:
    """Begin the next part when due, and drop earlier ones without unexpired conversations.

    When another transaction holds the lock, or the role lacks the privilege, the next call tries again.
    """
    try:
        connection = await connect(options, "history")
    except (*DRIVER, TimeoutError):
        return
    schema = f'"{options.schema}".'
    try:
        period = max(retention / SHARE, shortest)
        due = await connection.fetch(_DUE.replace("@", schema), period, shortest, WIDTH)
        for number, current in due:
            await (_begin_next if current else _drop)(connection, schema, number)
    except (asyncpg.InsufficientPrivilegeError, asyncpg.LockNotAvailableError) as error:
        logger.info("the history partitions stay unchanged for now: %s", error)
    except DRIVER as error:
        logger.warning("the history partitions cannot be maintained: %s", error)
    finally:
        connection.terminate()


async def _begin_next(connection: Connection, schema: str, number: int) -> None:
    """Create the next part for new conversations, unless another server has done so."""
    async with connection.transaction():
        await connection.execute(f"set local lock_timeout = {PATIENCE_MS}")
        if await connection.fetchval(_END.replace("@", schema), number) is None:
            return
        for statement in make_part(schema, number + 1):
            await connection.execute(statement)
        await connection.execute(_NEXT.replace("@", schema), (number + 1) * WIDTH)


async def _drop(connection: Connection, schema: str, number: int) -> None:
    """Drop the tables of a part. Concurrent commits wait, and then find no partition for its conversations."""
    tables = ", ".join(f"{schema}{table}_{number}" for table in PARTITIONED)
    async with connection.transaction():
        await connection.execute(f"set local lock_timeout = {PATIENCE_MS}")
        await connection.execute(f"lock table {tables} in access exclusive mode")
        if await connection.fetchval(_EMPTY.replace("@", schema), number * WIDTH, (number + 1) * WIDTH):
            await connection.execute(f"drop table {tables}")
            await connection.execute(_GONE.replace("@", schema), number)
    logger.info("the history of part %d is dropped", number)


def expire_conversations(connection: Journal, before: float) -> int:
    """Remove some expired conversations except for their history. Returns their count."""
    with transaction(connection):
        rows = connection.execute(_EXPIRED, (before, AT_ONCE)).fetchall()
        if not rows:
            records.forget_names(connection, before)
            return 0
        numbers, keys = [number for number, _ in rows], [key for _, key in rows]
        connection.execute("insert into expired (conversation) select unnest(?::bigint[])", (numbers,))
        found = connection.execute(
            "select distinct conversation from suspension where conversation = any(?::bigint[])", (numbers,)
        )
        for (number,) in found.fetchall():
            suspension.remove_suspensions(connection, number)
        connection.execute("delete from opening where conversation = any(?::text[])", (keys,))
        for table, column in (
            ("queue", "conversation"),
            ("value", "conversation"),
            ("state", "conversation"),
            ("facet", "conversation"),
            ("wordlist", "conversation"),
            ("completion", "conversation"),
            ("conversation", "number"),
        ):
            connection.execute(f"delete from {table} where {column} = any(?::bigint[])", (numbers,))  # noqa: S608
    return len(rows)


def delete_expired_rows(connection: Journal, age: float) -> int:
    """Delete history that was not dropped with a part within ``age`` seconds. Returns the number of conversations."""
    numbers = [number for (number,) in connection.execute(_LEFT_OVER, (age, retention.AT_ONCE)).fetchall()]
    if numbers:
        with transaction(connection):
            retention.remove_conversations(connection, numbers, INDEXED_STEPS)
            connection.execute("delete from expired where conversation = any(?::bigint[])", (numbers,))
    return len(numbers)


def add_parts(connection: Journal, schema: str, numbers: Collection[int]) -> None:
    """Add the parts for rows from another journal, in the caller's transaction.

    Args:
        connection: to the database.
        schema: of the tables.
        numbers: of the rows.
    """
    known = {number for (number,) in connection.execute("select number from history_part")}
    for part in sorted({number // WIDTH for number in numbers} - known):
        for statement in make_part(f'"{schema}".', part):
            connection.execute(statement)
    connection.execute(
        "update history_part set ended = clock_timestamp()"
        " where ended is null and number < (select max(number) from history_part)"
    )
