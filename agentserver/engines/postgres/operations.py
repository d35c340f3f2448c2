"""Operators' commands on a shared database, which need no lease."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, closing, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from agentserver.engines.journal import reader
from agentserver.engines.journal.connection import snapshot, transaction
from agentserver.engines.postgres import history, tables
from agentserver.engines.postgres.connection import DRIVER, connect, make_away_error, make_refusal
from agentserver.engines.postgres.engine import PostgresEngine
from agentserver.engines.postgres.history import PARTITIONED, WIDTH
from agentserver.engines.postgres.servers import SharedReader
from agentserver.engines.postgres.threads import SyncConnection
from agentserver.ports import EngineError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    import asyncpg

    from agentserver.core.guard import CoreGuard
    from agentserver.core.records.outcome import Outcome
    from agentserver.engines.journal.connection import Connection
    from agentserver.engines.journal.reader import Reader
    from agentserver.engines.postgres.connection import PostgresOptions


_DATABASE = """
    select current_setting('server_version') as version,
        current_setting('synchronous_commit') as commits,
        coalesce(current_setting('synchronous_standby_names', true), '') as confirming,
        (select coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint from pg_class c
            join pg_namespace n on n.oid = c.relnamespace where n.nspname = $1 and c.relkind = 'r') as size
"""
_STANDBYS = "select application_name as name, state, sync_state as sync from pg_stat_replication order by 1"
_SERVERS = """
    select s.incarnation as number, s.name, extract(epoch from s.began)::float8 as began,
        extract(epoch from s.expires - clock_timestamp())::float8 as lease,
        (select count(*) from @conversation c where c.owner = s.incarnation and c.closed is null) as conversations
    from @server s where not s.gone order by 1
"""
_WORK = """
    select (select count(*) from @conversation where closed is null) as open,
        (select count(*) from @queue where delayed = 0) as queued,
        (select min(touched) from @conversation
            where number in (select conversation from @queue where delayed = 0)) as oldest,
        (select count(*) from @inbox where fate is null) as inbox,
        (select extract(epoch from min(at))::float8 from @inbox where fate is null) as waiting,
        (select count(*) from @delivery where state = 3) as dead
"""
_HISTORY = """
    select p.number, extract(epoch from p.began)::float8 as began, extract(epoch from p.ended)::float8 as ended,
        (select count(*) from @conversation c
            where c.number >= p.number * $3::bigint and c.number < (p.number + 1) * $3::bigint) as conversations,
        (select coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint from pg_class c
            join pg_namespace n on n.oid = c.relnamespace
            where n.nspname = $1 and c.relkind = 'r' and c.relname in
                (select name || '_' || p.number from unnest($2::text[]) as partitioned(name))) as size
    from @history_part p order by 1
"""
_LOSSES = (
    "select name, extract(epoch from at)::float8 as at, conversations from @loss where accepted is null"
    " order by number"
)
_ACCEPT = "update @loss set accepted = clock_timestamp() where accepted is null returning name, conversations"


class ServerState(NamedTuple):
    """Server with a lease. ``began`` in seconds since the epoch, ``lease`` in remaining seconds."""

    number: int
    name: str
    began: float
    lease: float
    conversations: int


class Standby(NamedTuple):
    """Standby of the database, as far as this role may see it."""

    name: str
    state: str | None
    sync: str | None


class Work(NamedTuple):
    """Work of all servers. Times in seconds since the epoch.

    Args:
        open: conversations.
        queued: deliveries.
        oldest: last step of the conversation that has waited longest with a queued delivery.
        inbox: messages for conversations of other servers.
        waiting: arrival of the oldest of those.
        dead: letters.
    """

    open: int
    queued: int
    oldest: float | None
    inbox: int
    waiting: float | None
    dead: int


class HistoryPart(NamedTuple):
    """Part of the history. Times in seconds since the epoch.

    Args:
        ended: when the next part began; None for the current one.
        conversations: open ones, and closed ones within the retention. An earlier part without any is dropped.
        size: of its partitions, in bytes.
    """

    number: int
    began: float
    ended: float | None
    conversations: int
    size: int


class Loss(NamedTuple):
    """Unaccepted loss of acknowledged steps."""

    name: str
    at: float
    conversations: tuple[str, ...]


class EngineState(NamedTuple):
    """State of the database. ``size`` in bytes; ``weak`` has a line for each weakened guarantee."""

    version: str
    commits: str
    size: int
    weak: tuple[str, ...]
    standbys: tuple[Standby, ...]
    servers: tuple[ServerState, ...]
    work: Work
    history: tuple[HistoryPart, ...]
    losses: tuple[Loss, ...]


async def read_state(options: PostgresOptions) -> EngineState:
    """Read the state of a database. Raises EngineError."""
    async with _open_connection(options) as connection:
        database = (await _collect_rows(connection, options, _DATABASE, options.schema))[0]
        standbys = tuple(Standby(*row) for row in await _collect_rows(connection, options, _STANDBYS))
        servers = tuple(ServerState(*row) for row in await _collect_rows(connection, options, _SERVERS))
        work = Work(*(await _collect_rows(connection, options, _WORK))[0])
        parts = await _collect_rows(connection, options, _HISTORY, options.schema, list(PARTITIONED), WIDTH)
        losses = tuple(
            Loss(name, at, tuple(lost))
            for name, at, lost in await _collect_rows(connection, options, _LOSSES)
        )
        weak = tuple(tables.find_weaknesses(database["commits"], database["confirming"]))
        return EngineState(
            database["version"],
            database["commits"],
            database["size"],
            weak,
            standbys,
            servers,
            work,
            tuple(HistoryPart(*row) for row in parts),
            losses,
        )


async def find_weaknesses(options: PostgresOptions) -> tuple[str, ...]:
    """Find guarantees that the database settings weaken, a line each. Raises EngineError."""
    async with _open_connection(options) as connection:
        database = (await _collect_rows(connection, options, _DATABASE, options.schema))[0]
        return tuple(tables.find_weaknesses(database["commits"], database["confirming"]))


async def migrate(options: PostgresOptions) -> bool:
    """Create missing tables. Returns whether it did. Raises EngineError."""
    async with _open_connection(options) as connection:
        return await tables.migrate(connection, options)


async def accept_loss(options: PostgresOptions) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Accept all noted losses. Returns the name of each server with its missing conversations.

    Raises EngineError.
    """
    async with _open_connection(options) as connection:
        return tuple((name, tuple(lost)) for name, lost in await _collect_rows(connection, options, _ACCEPT))


@asynccontextmanager
async def _open_connection(options: PostgresOptions) -> AsyncIterator[asyncpg.Connection]:
    try:
        connection = await connect(options, "command")
    except (*DRIVER, TimeoutError) as error:
        raise make_away_error(error) from error
    try:
        yield connection
    except DRIVER as error:
        state = getattr(error, "sqlstate", None)
        if state in ("42P01", "3F000"):
            text = f"schema {options.schema} has no tables: create them with agentserver engine migrate"
            raise EngineError(text) from error
        raise make_refusal(error) from error
    finally:
        connection.terminate()


async def _collect_rows(
    connection: asyncpg.Connection, options: PostgresOptions, text: str, *values: object
) -> list[Any]:
    found: list[Any] = await connection.fetch(text.replace("@", f'"{options.schema}".'), *values)
    return found


_THERE = "select to_regclass(?)::text"


@contextmanager
def open_database(options: PostgresOptions) -> Iterator[Connection]:
    """Connect for a command. Raises EngineError, also when the tables are missing."""
    with closing(SyncConnection(options, "command")) as connection:
        if connection.execute(_THERE, (f"{options.schema}.ledger",)).fetchone() == (None,):
            raise EngineError(
                f"schema {options.schema} has no tables: create them with agentserver engine migrate"
            )
        yield connection


@contextmanager
def reading(options: PostgresOptions, guards: Sequence[CoreGuard] = ()) -> Iterator[Reader]:
    """Read the journal while servers run. Raises EngineError.

    Args:
        options: of the database.
        guards: guards whose memories are stored; a conversation that holds one cannot be loaded without them.
    """
    with open_database(options) as connection:
        yield SharedReader(connection, guards)


def find_faults(options: PostgresOptions) -> Iterator[str]:
    """Find damaged rows within one snapshot, a line each. Raises EngineError."""
    with open_database(options) as connection, snapshot(connection):
        yield from reader.find_faults(connection, (EngineError,), history.KEPT)


@contextmanager
def changing(options: PostgresOptions) -> Iterator[Connection]:
    """Open a transaction on rows that no server works on. Raises EngineError."""
    with open_database(options) as connection, transaction(connection):
        yield connection


def read_time(connection: Connection) -> float:
    """Read the database's clock, in seconds since the epoch, as servers do. Raises EngineError."""
    row = connection.execute("select extract(epoch from clock_timestamp())::float8").fetchone()
    assert row is not None
    return float(row[0])


def commit_decision(
    options: PostgresOptions,
    guards: Sequence[CoreGuard],
    outcomes: Sequence[Outcome],
    quietly: bool = False,  # noqa: FBT001, FBT002 - a callback
) -> EngineError | None:
    """Claim the conversation of outcomes and commit them, for servers to continue.

    With ``quietly`` their events count as received. Returns the error if that fails, for example because a server
    owns the conversation.
    """
    try:
        asyncio.run(_commit(options, guards, outcomes, quietly=quietly))
    except EngineError as error:
        return error
    return None


async def _commit(
    options: PostgresOptions, guards: Sequence[CoreGuard], outcomes: Sequence[Outcome], *, quietly: bool
) -> None:
    conversation = outcomes[0].conversation.id
    async with PostgresEngine(options, guards) as engine:
        claim = await engine.claim(conversation) if outcomes[0].before else engine.begin_claim(conversation)
        if claim is None:
            raise EngineError(
                f"a server owns conversation {conversation}: decide in its live view, or after half a minute"
                " without a step"
            )
        for outcome in outcomes:
            await engine.commit(claim, outcome)
        if quietly:
            engine.abandon(conversation)
        engine.marks.end()
