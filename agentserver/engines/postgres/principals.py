"""Principals, their rate limits and the sessions of browsers in the shared database.

The connection blocks its thread: it serves commands and polling, never a step.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from agentserver.engines.postgres.connection import DatabaseAwayError as LostError
from agentserver.engines.postgres.connection import PostgresOptions, say
from agentserver.engines.postgres.threads import SyncConnection
from agentserver.ports import EngineError
from agentserver.ports.principals import (
    InvalidPrincipalsError,
    StoreAwayError,
    StoredPrincipals,
    StoredSession,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from agentserver.ports.principals import SessionKey

ANSWER: Final = 2.0
"""Seconds after which an unresponsive database counts as unreachable."""

_TRIES: Final = 20
_EDITION: Final = "select edition from principals"
_READ: Final = "select edition, data from principals"
_WRITE: Final = (
    "insert into principals as kept (edition, data) values (?1, ?2) on conflict (one)"
    " do update set edition = excluded.edition, data = excluded.data where kept.edition = ?1 - 1 returning edition"
)
_SPEND: Final = (
    "insert into pace as kept (principal, full_at)"
    " select name, now() + seconds * interval '1 second'"
    " from unnest(?1::text[], ?2::float8[]) as spent (name, seconds) order by name"
    " on conflict (principal)"
    " do update set full_at = greatest(kept.full_at, now()) + (excluded.full_at - now())"
    " returning principal, extract(epoch from full_at - now())::float8 as seconds"
)

_ADD_SESSION: Final = (
    "with expired as (delete from browser_session where until <= ?8),"
    " oldest as (update browser_session set data = null where key in (select key from browser_session"
    " where name = ?2 and data is not null and until > ?8 order by until desc offset ?9))"
    " insert into browser_session (key, name, data, until, sid, login, edition)"
    " values (?1, ?2, ?3, ?4, ?5, nullif(?6, ''), ?7) on conflict do nothing returning key"
)
_READ_SESSION: Final = (
    "select key, name, data, until, sid, coalesce(login, ''), edition from browser_session"
    " where key = ?1 and data is not null and until > ?2"
)
_REPLACE_SESSION: Final = (
    "update browser_session set data = ?2, edition = ?3"
    " where key = ?1 and edition = ?3 - 1 and data is not null returning key"
)
_END_SESSIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "key": "update browser_session set data = null where key = ?1 returning key",
        "name": "update browser_session set data = null where name = ?1 returning key",
        "sid": "update browser_session set data = null where sid = ?1 returning key",
    }
)
"""A session without data has ended; the row shows that its sign-in is used."""

_EACH: Final = 20
"""Sessions of one principal at once."""


@dataclass
class _SharedTable:
    """Table in a shared database.

    Args:
        url: of the database; PG* variables complete it.
        schema: of the tables.
    """

    url: str = field(repr=False)
    schema: str
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        options = PostgresOptions(self.url, schema=self.schema)
        self._connection = SyncConnection(options, "principals", within=ANSWER)

    def __str__(self) -> str:
        return f"the database (schema {self.schema})"

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._connection.close()

    def _fetch(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Run a statement. Raises InvalidPrincipalsError, or its subclass StoreAwayError."""
        with self._lock:
            try:
                return self._run(statement, values)
            except EngineError as error:
                raise self._make_unusable_error(error.__cause__ or error) from None

    def _run(self, statement: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        """Run a statement, and retry with a new connection if the old one is lost."""
        again = self._connection.connected and statement != _WRITE
        try:
            return self._connection.execute(statement, values).fetchall()
        except LostError:
            if not again:
                raise
        return self._connection.execute(statement, values).fetchall()

    def _make_unusable_error(self, error: BaseException) -> InvalidPrincipalsError:
        if isinstance(error, asyncpg.UndefinedTableError | asyncpg.InvalidSchemaNameError):
            return InvalidPrincipalsError(
                f"{self} has no tables: create them with agentserver engine migrate"
            )
        if isinstance(error, asyncpg.InsufficientPrivilegeError):
            return InvalidPrincipalsError(f"{self}: {error}")
        return StoreAwayError(f"{self} does not answer: {say(error)}")


class PrincipalTable(_SharedTable):
    """Store of principals and their rate limits in a shared database."""

    def edition(self) -> int | None:
        """Read the edition, or None before the first. Raises InvalidPrincipalsError, or its subclass StoreAwayError."""
        found = self._fetch(_EDITION)
        return int(found[0][0]) if found else None

    def read(self) -> StoredPrincipals:
        """Read the principals. Raises InvalidPrincipalsError, or its subclass StoreAwayError."""
        return StoredPrincipals(*self._read_row())

    def change(self, change: Callable[[bytes], bytes]) -> None:
        """Replace the text with the result of ``change``.

        Raises InvalidPrincipalsError, OSError, and the errors of ``change``.

        An unanswered change may have taken effect, so it is looked for before it is repeated.
        """
        written = b""
        for _ in range(_TRIES):
            edition, data = self._read_row()
            if written and data == written:
                return
            written = change(data)
            try:
                if self._fetch(_WRITE, (edition or 0) + 1, written):
                    return
                written = b""
            except StoreAwayError:
                continue
        raise OSError(f"others changed the principals {_TRIES} times meanwhile; try again")

    def _read_row(self) -> tuple[int | None, bytes]:
        found = self._fetch(_READ)
        return (int(found[0][0]), bytes(found[0][1])) if found else (None, b"")

    def exchange(self, spent: Mapping[str, float]) -> Mapping[str, float]:
        """Add to the buckets of principals. Returns the seconds until each is full again. Raises StoreAwayError."""
        return dict(self._fetch(_SPEND, list(spent), list(spent.values())))


class SessionTable(_SharedTable):
    """Store of the sessions of browsers in a shared database."""

    def add(self, session: StoredSession, now: float) -> bool:
        """Add a session. Returns False if its sign-in has begun one already. Raises InvalidPrincipalsError."""
        return bool(self._fetch(_ADD_SESSION, *session, now, _EACH - 1))

    def read(self, key: str, now: float) -> StoredSession | None:
        """Read a session; None when it has ended. Raises InvalidPrincipalsError."""
        found = self._fetch(_READ_SESSION, key, now)
        if not found:
            return None
        _, name, data, until, sid, login, edition = found[0]
        return StoredSession(key, name, bytes(data), until, sid, login, edition)

    def replace(self, session: StoredSession) -> bool:
        """Store the next edition of a session. Returns False if it has ended or another server was first."""
        return bool(self._fetch(_REPLACE_SESSION, session.key, session.data, session.edition))

    def end(self, by: SessionKey, value: str) -> None:
        """End the sessions with this property. Their sign-ins begin no other. Raises InvalidPrincipalsError."""
        self._fetch(_END_SESSIONS[by], value)
