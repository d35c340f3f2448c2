"""The principals, and the pace of each, in the database that servers share.

Owns a connection of its own, which may block a thread: it serves commands and polling, never a step. Refuses to know
the form of principals.
"""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from agentserver.engines.postgres.addresses import connect_for_writing
from agentserver.engines.postgres.connection import say
from agentserver.ports.principals import AwayError, KeptPrincipals, UnusableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

TABLES: Final = """
    create table @principals (
        one boolean primary key default true check (one), edition bigint not null, data bytea not null
    );
    create table @pace (principal text primary key, full_at timestamptz not null);
"""
"""The statements that make the tables; ``@`` stands for the schema of the organism."""

ANSWER: Final = 2.0
"""Seconds in which the database answers, or is away."""

_TRIES: Final = 20
_EDITION: Final = "select edition from @principals"
_READ: Final = "select edition, data from @principals"
_WRITE: Final = (
    "insert into @principals as kept (edition, data) values ($1, $2) on conflict (one)"
    " do update set edition = excluded.edition, data = excluded.data where kept.edition = $1 - 1 returning edition"
)
_SPEND: Final = (
    "insert into @pace as kept (principal, full_at)"
    " select name, now() + seconds * interval '1 second'"
    " from unnest($1::text[], $2::float8[]) as spent (name, seconds) order by name"
    " on conflict (principal)"
    " do update set full_at = greatest(kept.full_at, now()) + (excluded.full_at - now())"
    " returning principal, extract(epoch from full_at - now())::float8 as seconds"
)


@dataclass
class PrincipalTable:
    """The store of principals, and of the pace of each, for servers that share a database.

    Args:
        url: of the database; PG* variables say what it leaves out.
        schema: that holds the tables.
    """

    url: str = field(repr=False)
    schema: str
    _connection: asyncpg.Connection | None = field(default=None, repr=False)
    _runner: asyncio.Runner = field(default_factory=asyncio.Runner, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __str__(self) -> str:
        return f"the database (schema {self.schema})"

    def edition(self) -> int | None:
        """Look at the edition that is kept; None where nothing is. Raises UnusableError, and AwayError of it."""
        found = self._fetch(_EDITION)
        return int(found[0]["edition"]) if found else None

    def read(self) -> KeptPrincipals:
        """Read what is kept. Raises UnusableError, and AwayError of it."""
        return KeptPrincipals(*self._kept())

    def change(self, change: Callable[[bytes], bytes]) -> None:
        """Put what ``change`` makes of the text in its place. Raises UnusableError, OSError, and what it raises.

        A change of which no answer came may have been made: it is looked for before it is made again.
        """
        sent = b""
        for _ in range(_TRIES):
            edition, data = self._kept()
            if sent and data == sent:
                return
            sent = change(data)
            try:
                if self._fetch(_WRITE, (edition or 0) + 1, sent):
                    return
                sent = b""
            except AwayError:
                continue
        raise OSError(f"others changed the principals {_TRIES} times meanwhile; try again")

    def _kept(self) -> tuple[int | None, bytes]:
        found = self._fetch(_READ)
        return (int(found[0]["edition"]), bytes(found[0]["data"])) if found else (None, b"")

    def exchange(self, spent: Mapping[str, float]) -> Mapping[str, float]:
        """Add to the buckets of principals; gives the seconds until each is full again. Raises AwayError."""
        found = self._fetch(_SPEND, list(spent), list(spent.values()))
        return {each["principal"]: each["seconds"] for each in found}

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._runner.run(self._drop())
            self._runner.close()

    def _fetch(self, statement: str, *values: object) -> Sequence[Mapping[str, Any]]:
        with self._lock:
            try:
                return self._runner.run(self._answered(statement, values))
            except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
                told = f"{self} has no tables: agentserver engine migrate makes them"
                raise UnusableError(told) from None
            except asyncpg.InsufficientPrivilegeError as error:
                raise UnusableError(f"{self}: {error}") from None
            except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
                raise AwayError(f"{self} does not answer: {say(error)}") from None

    async def _answered(self, statement: str, values: Sequence[object]) -> Sequence[Mapping[str, Any]]:
        """Run a statement, once more by a new connection where the one of before is lost."""
        if self._connection is not None and not self._connection.is_closed():
            try:
                return await self._run(self._connection, statement, values)
            except (asyncpg.PostgresConnectionError, asyncpg.InterfaceError, OSError):
                await self._drop()
                if statement == _WRITE:
                    raise
        self._connection = None
        connection = await connect_for_writing(
            self.url, ANSWER, command_timeout=ANSWER, statement_cache_size=0
        )
        self._connection = connection
        return await self._run(connection, statement, values)

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()
            await asyncio.sleep(0)  # in which its socket is closed

    async def _run(
        self, connection: asyncpg.Connection, statement: str, values: Sequence[object]
    ) -> Sequence[Mapping[str, Any]]:
        """Run a statement in a transaction of its own, which a pooler gives to one backend as a whole."""
        async with connection.transaction():
            found: Sequence[Mapping[str, Any]] = await connection.fetch(
                statement.replace("@", f'"{self.schema}".'), *values
            )
        return found
