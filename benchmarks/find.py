"""Server CPU of a first page and of searches over many stored conversations, on SQLite and Postgres.

Rows are written as a server stores them, without steps, so that 100,000 conversations take seconds. The CPU is
that of the reading process and, for Postgres, of its backend, the mean of several rounds. Aim: 100 ms for each query.

    ./run bench find
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from agentserver.engines.journal.connection import transaction
from agentserver.engines.journal.finding import POSTGRES_WORDS
from agentserver.engines.journal.reader import Reader
from agentserver.engines.sqlite.file import JournalOptions, Sync, open_writing
from agentserver.history.filters import parse_filter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentserver.engines.journal.connection import Connection

MANY, FEW = 100_000, 2_000
AIM = 100.0
"""Milliseconds."""

OVERVIEW_AIM = 1_000.0
"""Milliseconds for the sums of the overview over all conversations, which the live view reads once in 30 seconds."""

NOW = 1_796_000_000.0
QUERIES = {
    "first page": "",
    "common word": "text=order",
    "rare word": "text=needle",
    "two words": 'text="order city7"',
    "no such word": "text=absent",
    "word and listener": "text=order listener=bank",
    "rare principal": "principal=user7",
    "rare code": "code=late",
    "refused": "refused=yes",
    "cost": "cost>0.99",
    "nothing costs so much": "cost>1000",
    "duration": "duration>=59s",
    "open": "state=open",
    "waiting": "waiting>0",
    "everything at once": "principal=user7 listener=bank text=order refused=no cost>=0 duration<1h",
}


def write(connection: Connection, count: int) -> None:
    """Write conversations with their facets and words."""
    with transaction(connection):
        for first in range(1, count + 1, 500):
            _write_batch(connection, range(first, min(first + 500, count + 1)))


def _write_batch(connection: Connection, numbers: range) -> None:
    conversations: list[tuple[object, ...]] = []
    facets: list[tuple[object, ...]] = []
    words: list[tuple[object, ...]] = []
    for n in numbers:
        opened = NOW + n
        closed = None if n % 1000 == 0 else opened + n % 60
        row = (n, f"{n:032x}", f"user{n % 500}", "Order", "", opened, opened + n % 60, 10, closed)
        conversations.append((*row, n, bytes(32), bytes(16), 0, None, n % 900, n % 1000 * 1000, bytes(16)))
        facets += [(n, "listener", name, opened) for name in ("clerk", "till", "bank" if n % 3 else "desk")]
        if n % 50 == 0:
            facets += [
                (n, "mark", "refused", opened),
                (n, "code", "late" if n % 5000 == 0 else "denied", opened),
            ]
        said = ["order", f"city{n % 100}", *(f"word{n * 7 + k * k}" for k in range(40))]
        words.append((n, 10, " ".join(said + ["needle"] * (n % 20_000 == 0))))
    for table, rows in (("conversation", conversations), ("facet", facets), ("wordlist", words)):
        _insert(connection, table, rows)


_COLUMNS = {
    "conversation": "number, id, principal, root, rights, opened, touched, version, closed, last, chain, state, asks,"
    " due, tokens, money, seal",
    "facet": "conversation, kind, value, opened",
    "wordlist": "conversation, version, words",
}


def _insert(connection: Connection, table: str, rows: list[tuple[object, ...]]) -> None:
    places = f"({', '.join('?' * len(rows[0]))})"
    for first in range(0, len(rows), 250):
        part = rows[first : first + 250]
        text = f"insert into {table} ({_COLUMNS[table]}) values {', '.join([places] * len(part))}"
        connection.execute(text, [value for row in part for value in row])


def cpu_of(process: int) -> float:
    """Read the CPU milliseconds of a process."""
    fields = Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


def measure(reader: Reader, where: str, backend: int | None, rounds: int) -> tuple[float, int]:
    """Measure a query. Returns its milliseconds of CPU, the mean of the rounds, and the number of its rows."""
    chosen, found = parse_filter(where), reader.list_conversations(parse_filter(where))
    before = time.process_time() * 1000, 0.0 if backend is None else cpu_of(backend)
    for _ in range(rounds):
        found = reader.list_conversations(chosen)
    spent = time.process_time() * 1000 - before[0] + (0.0 if backend is None else cpu_of(backend) - before[1])
    return spent / rounds, len(found.rows)


def measure_overview(reader: Reader, since: float, backend: int | None, rounds: int) -> float:
    """Measure the sums of the overview's page in milliseconds of CPU, the mean of the rounds."""
    before = time.process_time() * 1000 + (0.0 if backend is None else cpu_of(backend))
    for _ in range(rounds):
        reader.list_activity(since, NOW + MANY + 1, 24)
    return (time.process_time() * 1000 + (0.0 if backend is None else cpu_of(backend)) - before) / rounds


def report(name: str, reader: Reader, backend: int | None, rounds: int) -> bool:
    """Print a row for each query. Returns whether all are within the aim."""
    within = True
    for title, where in QUERIES.items():
        spent, rows = measure(reader, where, backend, rounds)
        within = within and spent < AIM
        print(f"{name:9} {title:22} {spent:7.1f} ms CPU  {rows:3} rows  {where}", flush=True)
    for title, since in (("overview of all", NOW), ("overview of the last hour", NOW + MANY - 3_600)):
        spent = measure_overview(reader, since, backend, rounds)
        within = within and spent < OVERVIEW_AIM
        print(f"{name:9} {title:22} {spent:7.1f} ms CPU, aim {OVERVIEW_AIM:.0f} ms", flush=True)
    page, pages, start = reader.list_conversations(), 1, time.process_time()
    while page.after and pages < 20:
        page, pages = reader.list_conversations(after=page.after), pages + 1
    print(f"{name:9} {pages} further pages: {(time.process_time() - start) * 1000 / pages:.1f} ms CPU each")
    return within


@contextmanager
def sqlite_reader(count: int, folder: Path) -> Iterator[tuple[Reader, int | None]]:
    """Yield a reader of a journal file."""
    with closing(open_writing(JournalOptions(folder / "journal.sqlite", Sync.NORMAL))) as connection:
        write(connection, count)
        yield Reader(connection), None


@contextmanager
def postgres_reader(count: int) -> Iterator[tuple[Reader, int | None]]:
    """Yield a reader of a database of its own."""
    import asyncio

    from agentserver.engines.postgres import connection as connections
    from agentserver.engines.postgres import operations, tables
    from tests.postgres import run_server

    async def migrate(options: connections.PostgresOptions) -> None:
        made = await connections.connect(options, "benchmark")
        await tables.migrate(made, options)
        await made.close()

    with run_server() as server:
        options = connections.PostgresOptions(server.url(server.database()))
        asyncio.run(migrate(options))
        with operations.open_database(options) as connection:
            write(connection, count)
            connection.execute("vacuum analyze")
            ((backend,),) = connection.execute("select pg_backend_pid()").fetchall()
            yield Reader(connection, (), POSTGRES_WORDS), backend


def main() -> int:
    """Print both databases' rows. Returns 1 when a query of the full size misses the aim."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few conversations")
    parser.add_argument("--only", choices=("sqlite", "postgres"))
    args = parser.parse_args()
    count, rounds = (FEW, 3) if args.quick else (MANY, 10)
    print(f"{count} conversations, pages of 50; aim {AIM:.0f} ms")
    within = True
    if args.only != "postgres":
        with tempfile.TemporaryDirectory() as folder, sqlite_reader(count, Path(folder)) as (reader, backend):
            within = report("SQLite", reader, backend, rounds)
    if args.only != "sqlite":
        with postgres_reader(count) as (reader, backend):
            within = report("Postgres", reader, backend, rounds) and within
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
