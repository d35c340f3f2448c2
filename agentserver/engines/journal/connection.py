"""The connection to a journal's database, as far as reading and the care of it need one.

Owns the Protocol and the transaction. Statements are written once, with ``?`` and ``?1`` for values, in SQL that SQLite
and Postgres understand; what differs is translated by the connection. Must not know any driver.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class Rows(Protocol):
    """The rows of a statement."""

    def fetchone(self) -> Any:
        """The next row, a tuple; None after the last."""
        ...

    def fetchall(self) -> list[Any]:
        """All further rows, tuples."""
        ...

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A synchronous connection, used by one thread at a time. ``sqlite3.Connection`` is one."""

    @property
    def in_transaction(self) -> bool:
        """True between ``begin`` and its end."""
        ...

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Rows:
        """Run a statement. Raises what its driver raises."""
        ...

    def executemany(self, statement: str, values: Iterable[Sequence[Any]], /) -> object:
        """Run a statement for each sequence of values."""
        ...


@contextmanager
def transaction(connection: Connection) -> Iterator[None]:
    """Write in one transaction; in the one that is open, where one is."""
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
    """Roll back what is not committed, if anything is: a database may have done so itself."""
    if connection.in_transaction:
        connection.execute("rollback")


@contextmanager
def snapshot(connection: Connection) -> Iterator[None]:
    """Read everything as of one moment, whatever others write; in the transaction that is open, if one is."""
    if connection.in_transaction:
        yield
        return
    connection.execute("begin")
    try:
        yield
    finally:
        _roll_back(connection)
