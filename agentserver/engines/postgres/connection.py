"""Connections to Postgres: options, failover between addresses, reconnection and error classes.

The driver tries addresses one after the other, stops at the first that closes the connection, and spends the whole
timeout on one that does not answer; here they are tried concurrently. A pooler is detected before any statement is
prepared: the driver numbers its prepared statements, so that clients which share a backend would get each other's.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

import asyncpg

from agentserver.ports import EngineError
from agentserver.supervision import run_errand

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Connection: TypeAlias = asyncpg.Connection
    Prepare = Callable[[Connection], Awaitable[None]]
    from collections.abc import Sequence


NEXT: Final = 0.25
"""Seconds after which the next address is tried concurrently."""

_PLACE: Final = re.compile(r"(?P<host>/.*|\[[^\]]*\]|[^:]*)(?::(?P<port>[0-9]+))?")


_PROBE: Final = (
    "select pg_backend_pid() as backend,"
    " pg_is_in_recovery() or current_setting('default_transaction_read_only')::boolean as reads_only"
)


class PooledConnection(asyncpg.Connection):  # type: ignore[misc]  # asyncpg has no types
    """Connection through a pooler: each statement may reach another backend, which keeps no state."""


def is_pooled(connection: asyncpg.Connection) -> bool:
    """Check whether a connection goes through a pooler. ``isinstance`` is true for every connection of asyncpg."""
    return PooledConnection in type(connection).__mro__


class Address(NamedTuple):
    """Host and port of a database."""

    host: str
    port: int


def find_addresses(url: str) -> list[Address]:
    """Parse several addresses in a URL or in ``PGHOST``; none if there is only one, which the driver parses."""
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    hosts = unquote(parts.netloc.rpartition("@")[2]) or query.get("host", [os.environ.get("PGHOST", "")])[-1]
    places = [_PLACE.fullmatch(place) for place in hosts.split(",")]
    ports = query.get("port", [os.environ.get("PGPORT") or "5432"])[-1].split(",")
    if len(places) < 2 or len(ports) not in {1, len(places)} or not all(port.isdigit() for port in ports):  # noqa: PLR2004
        return []
    of_each = ports if len(ports) > 1 else repeat(ports[0])
    return [
        Address(place["host"].strip("[]"), int(place["port"] or port))
        for place, port in zip(places, of_each, strict=False)
        if place is not None
    ]


async def connect_for_writing(url: str, within: float, **settings: Any) -> asyncpg.Connection:
    """Connect to the first address that accepts writes.

    Raises the error of the first address that answered, or TimeoutError.

    Args:
        url: of the database.
        within: seconds that it may take.
        settings: keyword arguments of ``asyncpg.connect``.
    """
    options = {"timeout": within, **settings}
    addresses = find_addresses(url)
    if not addresses:
        return await _open(url, **options)
    attempts = [
        run_errand(_attempt(url, address, number * NEXT, options), "connects to a database", (Exception,))
        for number, address in enumerate(addresses)
    ]
    try:
        return await _first(attempts)
    finally:
        for attempt in attempts:
            attempt.cancel()


async def _first(attempts: Sequence[asyncio.Future[asyncpg.Connection]]) -> asyncpg.Connection:
    """Return the first connection, and close later ones. Raises the first error if none succeeds."""
    error: BaseException | None = None
    pending = set(attempts)
    while pending:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        found = [one.result() for one in done if one.exception() is None]
        for other in found[1:]:
            other.terminate()
        for one in pending if found else ():
            one.add_done_callback(_terminate)
        if found:
            return found[0]
        error = error or next(iter(done)).exception()
    raise error or TimeoutError


def _terminate(attempt: asyncio.Future[asyncpg.Connection]) -> None:
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result().terminate()


async def _attempt(url: str, address: Address, pause: float, options: dict[str, Any]) -> asyncpg.Connection:
    await asyncio.sleep(pause)
    return await _open(url, host=address.host, port=address.port, **options)


async def _open(url: str, **options: Any) -> asyncpg.Connection:
    """Connect to one address. Raises ReadOnlySQLTransactionError if it is read-only."""
    async with AsyncExitStack() as stack:
        connection = await _connect(url, **options)
        stack.callback(connection.terminate)
        if await _find_backend(connection) == connection.get_server_pid():
            stack.pop_all()
            return connection
    # a pooler reports no backend, or a different one
    return await _connect(url, connection_class=PooledConnection, statement_cache_size=0, **options)


async def _find_backend(connection: asyncpg.Connection) -> int:
    """Find the backend's process id, without a named statement. Raises ReadOnlySQLTransactionError."""
    async with connection.transaction():
        backend, reads_only = await (await connection.prepare(_PROBE, name="")).fetchrow()
    if reads_only:
        raise asyncpg.ReadOnlySQLTransactionError("the server takes no writes")
    return int(backend)


async def _connect(url: str, **options: Any) -> asyncpg.Connection:
    try:
        return await asyncpg.connect(url or None, target_session_attrs="any", **options)
    except asyncpg.InterfaceError:
        raise
    except ValueError:  # its text may contain part of the password
        text = "its address, or a PG* variable that completes it, is malformed"
        raise asyncpg.InterfaceError(text) from None


LEASE = 5.0
"""Seconds after which a server with an unrenewed lease counts as dead."""

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,39}")


@dataclass(frozen=True, slots=True)
class PostgresOptions:
    """Settings of a database that several servers share.

    Args:
        url: of the database; ``PG*`` variables supply an empty one.
        schema: of the organism's tables; organisms that share a database have different schemas.
        name: of this server, for operators.
        lease: seconds after which this server counts as dead unless it renews its lease.
        durability: "relaxed" permits asynchronous commits and unlogged tables.
        migrate: "never" leaves creating tables to ``agentserver engine migrate``.
        wait: seconds for which the start waits for an unreachable database.

    Raises ValueError for a schema that is not a plain lower-case name.
    """

    url: str = ""
    schema: str = "agentserver"
    name: str = field(default_factory=socket.gethostname)
    lease: float = LEASE
    durability: Literal["full", "relaxed"] = "full"
    migrate: Literal["auto", "never"] = "auto"
    wait: float = 0.0

    def __post_init__(self) -> None:
        """Check the schema, which is interpolated into statements."""
        if _SCHEMA.fullmatch(self.schema) is None:
            text = "of lower-case letters, digits and underscores, at most 40 characters, and begins with no digit"
            raise ValueError(f"{self.schema!r} is not a schema: its name consists {text}")


T = TypeVar("T")

CONNECTING = 5.0
"""Seconds that one attempt to connect may take."""

PAUSE = 0.1
"""Seconds after a failed attempt to connect during which callers share its error."""

SILENCE = 10
"""Seconds after which the kernel drops a connection whose peer acknowledges nothing."""

LOST = (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError, asyncpg.PostgresConnectionError)
DRIVER = (asyncpg.PostgresError, *LOST)
"""Everything that asyncpg raises for an unreachable or refusing database."""

_AWAY = ("08", "57P", "53300", "25006", "25P03", "57014", "28", "3D")
_DENIED = ("28", "3D", "42501")
_AGAIN = ("40", "55P03")
_ROW = ("21", "22", "23", "54")


PLANS = {"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "jit": "off"}
"""Settings with which a connection plans each statement only once.

Planning a commit costs more than running it. A plan must stay good when a table grows, so it never scans one:
every query of a working server has an index.
"""

_UNPLANNED = ("08P01", "22023", "42704", "55P02")
"""States with which a pooler or a compatible database refuses startup settings."""

_WAIT_FOR_STANDBY = "SyncRepWaitForLSN"
"""The Postgres function that warns when the wait for a synchronous standby was cancelled; its text is localized."""


class StatementFailure(Enum):
    """Consequence of an error for its statement."""

    AWAY = auto()
    AGAIN = auto()
    ROW = auto()
    REFUSED = auto()


class DatabaseAwayError(EngineError):
    """The database is unreachable or read-only. Whether the statement took effect is unknown."""


def classify(error: BaseException) -> StatementFailure:
    """Classify an error of asyncpg."""
    if isinstance(error, (asyncpg.DataError, UnicodeError, OverflowError)):
        return StatementFailure.ROW
    state = getattr(error, "sqlstate", None) or ""
    if state.startswith(_AGAIN):
        return StatementFailure.AGAIN
    if state.startswith(_AWAY) or (not state and isinstance(error, (*LOST, DatabaseAwayError))):
        return StatementFailure.AWAY
    return StatementFailure.ROW if state.startswith(_ROW) else StatementFailure.REFUSED


class Link:
    """Reconnecting connection that runs one statement at a time.

    It holds no session state, so that it works through a pooler.

    Args:
        options: of the database.
        role: of the connection, shown in ``application_name``.
        prepare: called with each new connection before its first statement.
        within: seconds after which an unresponsive connection counts as lost; None for no limit.
    """

    def __init__(
        self,
        options: PostgresOptions,
        role: str,
        prepare: Prepare | None = None,
        *,
        within: float | None = None,
    ) -> None:
        self._within = within
        self._options, self._role, self._prepare = options, role, prepare
        self._schema = f'"{options.schema}".'
        self._texts: dict[str, str] = {}
        self._connection: Connection | None = None
        self._lock = asyncio.Lock()
        self._failed: tuple[float, str] | None = None
        self._unconfirmed = False
        self.since: float | None = None

    @property
    def connected(self) -> bool:
        """True while the connection appears open."""
        return self._connection is not None and not self._connection.is_closed()

    async def fetch(self, text: str, *values: Any) -> list[asyncpg.Record]:
        """Run one statement, in which ``@`` is replaced by the schema.

        Raises DatabaseAwayError when the database is unreachable, and asyncpg's other errors.
        """
        found = self._texts.get(text)
        if found is None:
            found = self._texts[text] = text.replace("@", self._schema)
        return list(await self.run(lambda connection: connection.fetch(found, *values)))

    async def run(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Run a function with the connection. Raises as ``fetch`` does."""
        async with self._lock:
            try:
                async with asyncio.timeout(self._within):
                    connection = await self._ensure_connection()
                    self._unconfirmed = False
                    found = await work(connection)
            except (*DRIVER, TimeoutError) as error:
                if classify(error) is not StatementFailure.AWAY:
                    raise
                unavailable = make_away_error(error)
                if self._connection is None:
                    self._failed = asyncio.get_running_loop().time(), str(unavailable)
                self.drop()
                raise unavailable from error
            except asyncio.CancelledError:
                self.drop()  # its state is unknown
                raise
            if self._unconfirmed:
                raise DatabaseAwayError(
                    "the database ended a commit that no synchronous standby has confirmed"
                )
            return found

    def _detect_unconfirmed(self, _connection: object, message: asyncpg.PostgresLogMessage) -> None:
        """Detect a commit that no standby confirmed: a cancelled wait is only a warning."""
        if getattr(message, "server_source_function", None) == _WAIT_FOR_STANDBY:
            self._unconfirmed = True

    async def _ensure_connection(self) -> Connection:
        if self._connection is not None and not self._connection.is_closed():
            return self._connection
        self.drop()
        now = asyncio.get_running_loop().time()
        if self._failed is not None and now - self._failed[0] < PAUSE:
            raise DatabaseAwayError(self._failed[1])
        async with AsyncExitStack() as stack:
            connection = await connect(self._options, self._role, planned=True)
            stack.callback(connection.terminate)
            connection.add_log_listener(self._detect_unconfirmed)
            if self._prepare is not None:
                await self._prepare(connection)
            stack.pop_all()
        self._connection, self.since = connection, asyncio.get_running_loop().time()
        return connection

    def drop(self) -> None:
        """Drop the connection without cancelling its statement: a waiting commit may still take effect."""
        connection, self._connection, self.since = self._connection, None, None
        if connection is not None:
            connection.terminate()

    async def close(self) -> None:
        """Close the connection."""
        connection, self._connection, self.since = self._connection, None, None
        if connection is not None:
            with suppress(*DRIVER, TimeoutError):
                await connection.close(timeout=1.0)


async def connect(options: PostgresOptions, role: str, *, planned: bool = False) -> Connection:
    """Connect to the server that takes writes. Raises what asyncpg raises.

    Args:
        options: of the database.
        role: of the connection, shown in ``application_name``.
        planned: whether to plan statements once for the connection, if the peer allows that.
    """
    name = {"application_name": f"agentserver {role}"}
    opening = partial(connect_for_writing, options.url, CONNECTING)
    try:
        connection: Connection = await opening(server_settings={**name, **(PLANS if planned else {})})
    except asyncpg.PostgresError as error:
        if not planned or error.sqlstate not in _UNPLANNED:
            raise
        connection = await opening(server_settings=name)
    _watch_silence(connection)
    return connection


def _watch_silence(connection: Connection) -> None:
    """Make the kernel drop an unacknowledged connection. A slow statement is never cancelled."""
    transport = connection._transport  # noqa: SLF001 - asyncpg has no option for it
    found = transport.get_extra_info("socket")
    if found is None or found.family not in (socket.AF_INET, socket.AF_INET6):
        return
    found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 3), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            found.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENCE * 1000)


def say(error: BaseException) -> str:
    """Describe an error in one line."""
    return " ".join(str(error).split()) or type(error).__name__


def make_away_error(error: BaseException) -> DatabaseAwayError:
    """Make the error for an unreachable database."""
    denied = (getattr(error, "sqlstate", None) or "").startswith(_DENIED)
    return DatabaseAwayError(
        f"the database {'refuses the connection' if denied else 'is away'}: {say(error)}"
    )


def make_refusal(error: BaseException) -> EngineError:
    """Make the error for a refused statement."""
    state = getattr(error, "sqlstate", None) or ""
    if state == "53100":
        return EngineError(f"the disk of the database is full: {say(error)}")
    return error if isinstance(error, EngineError) else EngineError(f"the database refuses: {say(error)}")
