"""A thread that reads the journal from Postgres with the same synchronous statements as from SQLite."""

from __future__ import annotations

import asyncio
import re
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar

from agentserver.engines.postgres.connection import (
    DRIVER,
    DatabaseAwayError,
    StatementFailure,
    classify,
    connect,
    make_away_error,
    make_refusal,
)
from agentserver.engines.postgres.tables import NAMES, POSTGRES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from agentserver.engines.postgres.connection import Connection, PostgresOptions

T = TypeVar("T")

PATIENCE, PAUSE = 5.0, 0.1
"""Seconds for which a read waits for an unreachable database, and between two attempts."""

_TABLE = re.compile(rf"\b(from|join|into|update) ({'|'.join(NAMES)})\b")
_BYTES = re.compile(r"x'([0-9a-f]*)'")
_PLACE = re.compile(r"\?(\d*)")


def translate(statement: str, schema: str) -> str:
    """Translate a journal statement to Postgres and a schema. Either all or none of its placeholders are numbered."""
    places = iter(range(1, statement.count("?") + 1))
    text = _PLACE.sub(lambda found: f"${found[1] or next(places)}", statement)
    text = _BYTES.sub(lambda found: found[1].join(POSTGRES.literal), text)
    return _TABLE.sub(lambda found: f'{found[1]} "{schema}".{found[2]}', text)


class Cursor:
    """Iterator over the rows of a statement."""

    def __init__(self, rows: Sequence[Any]) -> None:
        self._rows = iter([tuple(map(_convert_plain, row)) for row in rows])

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Iterate over the remaining rows."""
        return self._rows

    def fetchone(self) -> tuple[Any, ...] | None:
        """Fetch the next row."""
        return next(self._rows, None)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Fetch the remaining rows."""
        return list(self._rows)


def _convert_plain(value: Any) -> Any:
    return int(value) if isinstance(value, Decimal) else value


class SyncConnection:
    """Synchronous reconnecting connection, used by one thread.

    Args:
        options: of the database.
        role: of the connection.
        within: seconds after which an unresponsive database counts as unreachable; None for no limit.
    """

    def __init__(self, options: PostgresOptions, role: str, *, within: float | None = None) -> None:
        self._options, self._role, self._within = options, role, within
        self._runner = asyncio.Runner()
        self._texts: dict[str, str] = {}
        self._connection: Connection | None = None
        self.in_transaction = False

    @property
    def connected(self) -> bool:
        """True while the connection appears open."""
        return self._connection is not None and not self._connection.is_closed()

    def execute(self, text: str, values: Sequence[Any] = ()) -> Cursor:
        """Run a statement. Raises EngineError."""
        try:
            return Cursor(self._runner.run(self._execute(text, values)))
        except (*DRIVER, TimeoutError) as error:
            if classify(error) is StatementFailure.AWAY:
                self.drop()
                raise make_away_error(error) from error
            raise make_refusal(error) from error

    def executemany(self, text: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement for each row. Raises EngineError."""
        for row in rows:
            self.execute(text, row)

    async def _execute(self, text: str, values: Sequence[Any]) -> Sequence[Any]:
        async with asyncio.timeout(self._within):
            return await self._run(text, values)

    async def _run(self, text: str, values: Sequence[Any]) -> Sequence[Any]:
        if self._connection is None or self._connection.is_closed():
            if self.in_transaction:
                self.in_transaction = False
                raise ConnectionResetError("the connection was lost within a transaction")
            self._connection = await connect(self._options, self._role)
        if text in ("begin", "begin immediate", "commit", "rollback"):
            begins = text.startswith("begin")
            level = " isolation level repeatable read" if text == "begin" else ""
            await self._connection.execute(f"begin{level}" if begins else text)
            self.in_transaction = begins
            return ()
        found = self._texts.get(text)
        if found is None:
            found = self._texts[text] = translate(text, self._options.schema)
        return list(await self._connection.fetch(found, *values))

    def drop(self) -> None:
        """Drop the connection."""
        self.in_transaction = False
        connection, self._connection = self._connection, None
        if connection is not None:
            self._runner.run(_terminate(connection))

    def give_up(self) -> None:
        """Abort a waiting statement from another thread."""
        connection = self._connection
        if connection is not None:
            with suppress(RuntimeError):  # its loop was closed meanwhile
                self._runner.get_loop().call_soon_threadsafe(connection.terminate)

    def close(self) -> None:
        """Close the connection and the loop of the thread."""
        self.drop()
        self._runner.close()


async def _terminate(connection: Connection) -> None:
    connection.terminate()


class ReadingThread:
    """Thread that reads for an engine.

    Args:
        options: of the database.
    """

    def __init__(self, options: PostgresOptions) -> None:
        self._pool = ThreadPoolExecutor(1, "journal")
        self._options = options
        self._made: SyncConnection | None = None
        self._over = False

    @property
    def connection(self) -> SyncConnection:
        """The connection, for use in the thread."""
        if self._made is None:
            self._made = SyncConnection(self._options, "reading")
        return self._made

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Run a function in the thread. May be called from any thread."""
        return self._pool.submit(self._run_and_clean_up, work)

    async def do(self, work: Callable[[], T]) -> T:
        """Run a function in the thread, and retry for a while if the database is unreachable. Raises EngineError."""
        end = asyncio.get_running_loop().time() + PATIENCE
        while True:
            try:
                return await asyncio.wrap_future(self.submit(work))
            except DatabaseAwayError:
                if self._over or asyncio.get_running_loop().time() > end:
                    raise
                await asyncio.sleep(PAUSE)

    def _run_and_clean_up(self, work: Callable[[], T]) -> T:
        try:
            return work()
        finally:
            if self.connection.in_transaction:
                self.connection.drop()

    def _close(self) -> None:
        self.connection.close()

    def execute(self, text: str, values: Sequence[Any]) -> Cursor:
        """Run a statement, in the thread."""
        return self.connection.execute(text, values)

    async def close(self) -> None:
        """Close the connection and end the thread, aborting a statement that takes too long."""
        self._over = True
        closing = asyncio.wrap_future(self._pool.submit(self._close))
        done, _ = await asyncio.wait([closing], timeout=PATIENCE)
        while not done and self._made is not None:
            self._made.give_up()
            done, _ = await asyncio.wait([closing], timeout=PATIENCE)
        self._pool.shutdown(wait=False)
