"""Connecting to the one of several addresses that takes writes.

The driver tries addresses one after the other, ends at the first that closes the connection, and waits for one that
does not answer for as long as all may take. Owns that they are tried together, and that a pooler is noticed before
anything is prepared: names of prepared statements are numbers of the driver, so that a backend which several clients
share may have another one's statement under the same name. Refuses to know what is asked.
"""

from __future__ import annotations

import asyncio
import os
import re
from contextlib import AsyncExitStack
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

import asyncpg

from agentserver.supervision import run_errand

if TYPE_CHECKING:
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
