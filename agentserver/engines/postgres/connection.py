"""Connections to the database, and what its errors mean.

Owns connecting again, and the classes of errors. Refuses to know what is asked.
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
"""Seconds after which the next address is tried as well."""

_PLACE: Final = re.compile(r"(?P<host>/.*|\[[^\]]*\]|[^:]*)(?::(?P<port>[0-9]+))?")


_PROBE: Final = (
    "select pg_backend_pid() as backend,"
    " pg_is_in_recovery() or current_setting('default_transaction_read_only')::boolean as reads_only"
)


class PooledConnection(asyncpg.Connection):  # type: ignore[misc]  # asyncpg has no types
    """A connection through a pooler: each statement may reach another backend, so that none keeps a state."""


def is_pooled(connection: asyncpg.Connection) -> bool:
    """Say whether a connection goes through a pooler. ``isinstance`` is true for every connection of asyncpg."""
    return PooledConnection in type(connection).__mro__


class Address(NamedTuple):
    """The place of a database."""

    host: str
    port: int


def find_addresses(url: str) -> list[Address]:
    """Find the addresses in a URL or in ``PGHOST``; none where it has only one, which the driver reads."""
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
    """Connect to the server that takes writes: the first of its addresses that has one.

    Raises what asyncpg raises of the first address that answered, or TimeoutError.

    Args:
        url: of the database.
        within: seconds that it may take.
        settings: of the connection, as asyncpg has them.
    """
    how = {"timeout": within, **settings}
    addresses = find_addresses(url)
    if not addresses:
        return await _open(url, **how)
    attempts = [
        run_errand(_attempt(url, address, number * NEXT, how), "connects to a database", (Exception,))
        for number, address in enumerate(addresses)
    ]
    try:
        return await _first(attempts)
    finally:
        for attempt in attempts:
            attempt.cancel()


async def _first(attempts: Sequence[asyncio.Future[asyncpg.Connection]]) -> asyncpg.Connection:
    """Give the first connection, and end those that come after it. Raises the first error where there is none."""
    error: BaseException | None = None
    left = set(attempts)
    while left:
        done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        found = [one.result() for one in done if one.exception() is None]
        for other in found[1:]:
            other.terminate()
        for one in left if found else ():
            one.add_done_callback(_terminate)
        if found:
            return found[0]
        error = error or next(iter(done)).exception()
    raise error or TimeoutError


def _terminate(attempt: asyncio.Future[asyncpg.Connection]) -> None:
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result().terminate()


async def _attempt(url: str, address: Address, pause: float, how: dict[str, Any]) -> asyncpg.Connection:
    await asyncio.sleep(pause)
    return await _open(url, host=address.host, port=address.port, **how)


async def _open(url: str, **how: Any) -> asyncpg.Connection:
    """Connect to one address. Raises ReadOnlySQLTransactionError where it takes no writes."""
    async with AsyncExitStack() as stack:
        connection = await _connect(url, **how)
        stack.callback(connection.terminate)
        if await _find_backend(connection) == connection.get_server_pid():
            stack.pop_all()
            return connection
    # a pooler names no backend, or another one
    return await _connect(url, connection_class=PooledConnection, statement_cache_size=0, **how)


async def _find_backend(connection: asyncpg.Connection) -> int:
    """Find the process that answers, without a named statement. Raises ReadOnlySQLTransactionError."""
    async with connection.transaction():
        backend, reads_only = await (await connection.prepare(_PROBE, name="")).fetchrow()
    if reads_only:
        raise asyncpg.ReadOnlySQLTransactionError("the server takes no writes")
    return int(backend)


async def _connect(url: str, **how: Any) -> asyncpg.Connection:
    try:
        return await asyncpg.connect(url or None, target_session_attrs="any", **how)
    except asyncpg.InterfaceError:
        raise
    except ValueError:  # its text may hold a part of the password
        text = "its address, or a PG* variable that completes it, is malformed"
        raise asyncpg.InterfaceError(text) from None


LEASE = 5.0
"""Seconds after which a server that has not renewed its lease is taken for dead."""

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,39}")


@dataclass(frozen=True, slots=True)
class PostgresOptions:
    """The settings of a database that several servers share.

    Args:
        url: of the database; empty for what the ``PG*`` variables say.
        schema: of the organism's tables: several organisms share a database by different schemas.
        name: of this server, for operators.
        lease: seconds after which this server is taken for dead when it has not renewed its lease.
        durability: "relaxed" permits asynchronous commits and unlogged tables.
        migrate: "never" leaves the making of tables to ``agentserver engine migrate``.
        wait: seconds for which the start waits for a database that is away.

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
        """Check the schema, which becomes a part of statements."""
        if _SCHEMA.fullmatch(self.schema) is None:
            text = "of lower-case letters, digits and underscores, at most 40 characters, and begins with no digit"
            raise ValueError(f"{self.schema!r} is not a schema: its name consists {text}")


T = TypeVar("T")

CONNECTING = 5.0
"""Seconds that one attempt to connect may last."""

PAUSE = 0.1
"""Seconds after an attempt to connect in which nobody makes another: callers that have waited for it share its end."""

SILENCE = 10
"""Seconds after which the kernel gives a connection up whose other end acknowledges nothing."""

LOST = (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError, asyncpg.PostgresConnectionError)
DRIVER = (asyncpg.PostgresError, *LOST)
"""Everything that asyncpg raises for a database that is away or refuses."""

_AWAY = ("08", "57P", "53300", "25006", "25P03", "57014", "28", "3D")
_DENIED = ("28", "3D", "42501")
_AGAIN = ("40", "55P03")
_ROW = ("21", "22", "23", "54")


PLANS = {"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "jit": "off"}
"""Settings with which a connection plans each statement once, in place of each time.

Planning the statement of a commit costs more than running it. A plan has to be right also once a table has grown, so
it scans no table: what a server asks for while it works has an index.
"""

_UNPLANNED = ("08P01", "22023", "42704", "55P02")
"""The states in which a pooler, or another database of the protocol, refuses settings at the start."""

_WAIT_FOR_STANDBY = "SyncRepWaitForLSN"
"""The function of Postgres that warns where the wait for a synchronous standby was cancelled. No text is translated."""


class Trouble(Enum):
    """The consequence of an error for the statement that raised it."""

    AWAY = auto()
    AGAIN = auto()
    ROW = auto()
    REFUSED = auto()


class AwayError(EngineError):
    """The database cannot be reached, or takes no writes, at present. Whether the statement was done is unknown."""


def classify(error: BaseException) -> Trouble:
    """Classify what asyncpg raised."""
    if isinstance(error, (asyncpg.DataError, UnicodeError, OverflowError)):
        return Trouble.ROW
    state = getattr(error, "sqlstate", None) or ""
    if state.startswith(_AGAIN):
        return Trouble.AGAIN
    if state.startswith(_AWAY) or (not state and isinstance(error, (*LOST, AwayError))):
        return Trouble.AWAY
    return Trouble.ROW if state.startswith(_ROW) else Trouble.REFUSED


class Link:
    """One connection to the database, made again when it is lost. One statement at a time.

    It holds no state of a session, so that it may go through a pooler.

    Args:
        options: of the database.
        role: of the connection, for those who list connections.
        prepare: is done with each new connection before it is used.
        within: seconds after which a connection that does not answer counts as lost; None for no limit.
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
        """True while the connection is open, as far as is known."""
        return self._connection is not None and not self._connection.is_closed()

    async def fetch(self, text: str, *values: Any) -> list[asyncpg.Record]:
        """Run one statement, in which ``@`` stands for the schema.

        Raises AwayError when the database is away, and what asyncpg raises for anything else.
        """
        found = self._texts.get(text)
        if found is None:
            found = self._texts[text] = text.replace("@", self._schema)
        return list(await self.run(lambda connection: connection.fetch(found, *values)))

    async def run(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Do something with the connection. Raises as ``fetch`` does."""
        async with self._lock:
            try:
                async with asyncio.timeout(self._within):
                    connection = await self._connected()
                    self._unconfirmed = False
                    found = await work(connection)
            except (*DRIVER, TimeoutError) as error:
                if classify(error) is not Trouble.AWAY:
                    raise
                away = unreachable(error)
                if self._connection is None:
                    self._failed = asyncio.get_running_loop().time(), str(away)
                self.drop()
                raise away from error
            except asyncio.CancelledError:
                self.drop()  # what it is doing is not known any more
                raise
            if self._unconfirmed:
                raise AwayError("the database has ended a commit that no synchronous standby has confirmed")
            return found

    def _hear(self, _connection: object, message: asyncpg.PostgresLogMessage) -> None:
        """Notice a commit that was answered without the standby: a cancelled wait is a warning, and no error."""
        if getattr(message, "server_source_function", None) == _WAIT_FOR_STANDBY:
            self._unconfirmed = True

    async def _connected(self) -> Connection:
        if self._connection is not None and not self._connection.is_closed():
            return self._connection
        self.drop()
        now = asyncio.get_running_loop().time()
        if self._failed is not None and now - self._failed[0] < PAUSE:
            raise AwayError(self._failed[1])
        async with AsyncExitStack() as stack:
            connection = await connect(self._options, self._role, planned=True)
            stack.callback(connection.terminate)
            connection.add_log_listener(self._hear)
            if self._prepare is not None:
                await self._prepare(connection)
            stack.pop_all()
        self._connection, self.since = connection, asyncio.get_running_loop().time()
        return connection

    def drop(self) -> None:
        """Give the connection up without asking for anything to be cancelled: a commit that waits may yet be done."""
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
        role: of the connection, for those who list connections.
        planned: whether statements are planned once for the connection, where the other end allows that.
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
    """Have the kernel give up a connection into a black hole. A statement is never cancelled for being slow."""
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


def unreachable(error: BaseException) -> AwayError:
    """Make the error for a database to which there is no connection."""
    denied = (getattr(error, "sqlstate", None) or "").startswith(_DENIED)
    return AwayError(f"the database {'refuses the connection' if denied else 'is away'}: {say(error)}")


def refused(error: BaseException) -> EngineError:
    """Make the error for a statement that the database refuses."""
    state = getattr(error, "sqlstate", None) or ""
    if state == "53100":
        return EngineError(f"the disk of the database is full: {say(error)}")
    return error if isinstance(error, EngineError) else EngineError(f"the database refuses: {say(error)}")
