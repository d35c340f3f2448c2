"""Principals and their rate limits in the shared database.

The connection blocks its thread: it serves commands and polling, never a step.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from agentserver.engines.postgres.connection import AwayError as LostError
from agentserver.engines.postgres.connection import PostgresOptions, say
from agentserver.engines.postgres.threads import SyncConnection
from agentserver.ports import EngineError
from agentserver.ports.principals import AwayError, KeptPrincipals, UnusableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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


@dataclass
class PrincipalTable:
    """Store of principals and their rate limits in a shared database.

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

    def edition(self) -> int | None:
        """Read the edition, or None before the first. Raises UnusableError, or its subclass AwayError."""
        found = self._fetch(_EDITION)
        return int(found[0][0]) if found else None

    def read(self) -> KeptPrincipals:
        """Read the principals. Raises UnusableError, or its subclass AwayError."""
        return KeptPrincipals(*self._read_row())

    def change(self, change: Callable[[bytes], bytes]) -> None:
        """Replace the text with the result of ``change``. Raises UnusableError, OSError, and the errors of ``change``.

        An unanswered change may have taken effect, so it is looked for before it is repeated.
        """
        sent = b""
        for _ in range(_TRIES):
            edition, data = self._read_row()
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

    def _read_row(self) -> tuple[int | None, bytes]:
        found = self._fetch(_READ)
        return (int(found[0][0]), bytes(found[0][1])) if found else (None, b"")

    def exchange(self, spent: Mapping[str, float]) -> Mapping[str, float]:
        """Add to the buckets of principals. Returns the seconds until each is full again. Raises AwayError."""
        return dict(self._fetch(_SPEND, list(spent), list(spent.values())))

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._connection.close()

    def _fetch(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Run a statement. Raises UnusableError, or its subclass AwayError."""
        with self._lock:
            try:
                return self._run(statement, values)
            except EngineError as error:
                raise self._unusable(error.__cause__ or error) from None

    def _run(self, statement: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        """Run a statement, and retry with a new connection if the old one is lost."""
        again = self._connection.connected and statement != _WRITE
        try:
            return self._connection.execute(statement, values).fetchall()
        except LostError:
            if not again:
                raise
        return self._connection.execute(statement, values).fetchall()

    def _unusable(self, error: BaseException) -> UnusableError:
        if isinstance(error, asyncpg.UndefinedTableError | asyncpg.InvalidSchemaNameError):
            return UnusableError(f"{self} has no tables: create them with agentserver engine migrate")
        if isinstance(error, asyncpg.InsufficientPrivilegeError):
            return UnusableError(f"{self}: {error}")
        return AwayError(f"{self} does not answer: {say(error)}")
