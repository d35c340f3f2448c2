"""The protocol of a database connection, and its transactions.

Statements are written once, with ``?`` and ``?1`` for values, in SQL that SQLite and Postgres understand. A connection
translates what differs.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class Rows(Protocol):
    """Iterator over the rows of a statement."""

    def fetchone(self) -> Any:
        """Fetch the next row, a tuple; None after the last."""

    def fetchall(self) -> list[Any]:
        """Fetch the remaining rows, tuples."""

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """Synchronous connection used by one thread at a time, such as ``sqlite3.Connection``."""

    @property
    def in_transaction(self) -> bool:
        """True between ``begin`` and its end."""

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Rows:
        """Run a statement. Raises what its driver raises."""

    def executemany(self, statement: str, values: Iterable[Sequence[Any]], /) -> object:
        """Run a statement for each sequence of values."""


@contextmanager
def transaction(connection: Connection) -> Iterator[None]:
    """Run the block in a transaction, or in the one that is already open."""
    if connection.in_transaction:
        yield
        return
    connection.execute("begin immediate")
    try:
        yield
        connection.execute("commit")
    finally:
        _roll_back(connection)


def _roll_back(connection: Connection) -> None:
    """Roll back an open transaction; the database may have done so itself."""
    if connection.in_transaction:
        connection.execute("rollback")


@contextmanager
def snapshot(connection: Connection) -> Iterator[None]:
    """Read from one snapshot, or within the transaction that is already open."""
    if connection.in_transaction:
        yield
        return
    connection.execute("begin")
    try:
        yield
    finally:
        _roll_back(connection)
