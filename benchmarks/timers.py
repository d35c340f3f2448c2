"""Delayed messages: timers released a second, and what a waiting one costs on disk and in memory.

Each conversation delays one message by a day. Then the time comes at once, for all of them. The clock is a fake one.

    ./run bench timers [--timers N] [--engine sqlite|memory]

With --rows, one sleeping conversation is copied as rows, and the engine is asked for those that are due first.

    ./run bench timers --rows 1000000 [--engine sqlite|postgres]
"""

from __future__ import annotations

import argparse
import gc
import os
import sqlite3
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

sys.path.insert(0, str(Path(__file__).parents[1]))

from agentserver import HandlerMetadata, HandlerResponse, invocation, xmlify
from agentserver.assembly import build
from agentserver.config.keys.models import Journal
from agentserver.core.blueprint import Limits
from agentserver.engines.postgres import PostgresEngine, PostgresOptions
from agentserver.engines.sqlite.file import read_journal
from agentserver.testing import FakeClock, listener, organism_of
from tests.postgres import Postgres, run_server

if TYPE_CHECKING:
    from agentserver.assembly import Server
    from agentserver.config.organism import Organism

DAY = timedelta(days=1)
TOGETHER = 200
"""Conversations that are opened at once."""


@xmlify
@dataclass(frozen=True)
class Begin:
    number: int


@xmlify
@dataclass(frozen=True)
class Remind:
    number: int
    text: str = "an invoice of some length that is due tomorrow"


async def desk(payload: Begin, metadata: HandlerMetadata) -> HandlerResponse | None:  # noqa: ARG001 - the contract's
    """Delay a message to the other listener."""
    invocation().later(HandlerResponse(Remind(payload.number), "sink"), after=DAY)
    return None


SEEN: list[int] = []


async def sink(payload: Remind, metadata: HandlerMetadata) -> None:  # noqa: ARG001 - the contract's
    """Note the message."""
    SEEN.append(payload.number)


def house(folder: Path) -> Organism:
    """Make the organism."""
    limits = Limits(principal_conversations=10**7, principal_queue=10**6, queue=10**6, idle=3600)
    made = organism_of(
        listener("desk", desk, Begin, replies=[Remind], peers=["sink"]),
        listener("sink", sink, Remind),
        limits=limits,
    )
    return replace(made, project=folder, journal=Journal())


def resident() -> int:
    """Bytes of memory of the process."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def fill(server: Server, timers: int) -> None:
    """Open conversations that delay a message each."""
    codec = server.rules.codecs.of(Begin)

    async def one(number: int) -> None:
        handle = await server.open("bench")
        await handle.send(codec.encode(Begin(number)).encode(), "desk")

    for first in range(0, timers, TOGETHER):
        async with anyio.create_task_group() as tasks:
            for number in range(first, min(first + TOGETHER, timers)):
                tasks.start_soon(one, number)
    await server.settle_timers()


async def measure(folder: Path, timers: int) -> None:
    """Print the figures of the engine in a file."""
    organism, clock = await anyio.to_thread.run_sync(house, folder), FakeClock()
    before = resident()
    async with build(organism, clock=clock, durable=True) as server:
        began = time.perf_counter()
        await fill(server, timers)
        took = time.perf_counter() - began
        print(f"{'timers set a second':<44}{timers / took:>12,.0f}")
        print(
            f"{'kB a conversation in memory, before it rests':<44}{(resident() - before) / timers / 1e3:>12.2f}"
        )
    size = await anyio.to_thread.run_sync(lambda: next(folder.rglob("*.sqlite")).stat().st_size)
    print(f"{'kB a waiting timer in the journal':<44}{size / timers / 1e3:>12.2f}")


async def restart(folder: Path, timers: int) -> None:
    """Print the figures of a server that begins with the timers of an earlier one."""
    organism, clock = await anyio.to_thread.run_sync(house, folder), FakeClock(now=1_000_050_000.0)
    before, began = resident(), time.perf_counter()
    async with build(organism, clock=clock, durable=True) as server:
        print(f"{'seconds to start with all of them':<44}{time.perf_counter() - began:>12.2f}")
        print(
            f"{'kB a waiting timer in memory, after a start':<44}{(resident() - before) / timers / 1e3:>12.2f}"
        )
        await release(server, clock, timers)


async def release(server: Server, clock: FakeClock, timers: int) -> None:
    """Let the time come, and print how fast the messages are handled."""
    SEEN.clear()
    clock.advance(2 * DAY.total_seconds())
    began = time.perf_counter()
    await server.settle_timers()
    took = time.perf_counter() - began
    print(f"{'timers released and handled a second':<44}{len(SEEN) / took:>12,.0f}")
    if sorted(SEEN) != list(range(timers)):
        print("not each timer was released once", file=sys.stderr)


async def in_memory(folder: Path, timers: int) -> None:
    """Print the figures of the engine in memory."""
    organism, clock = await anyio.to_thread.run_sync(house, folder), FakeClock()
    before = resident()
    async with build(organism, clock=clock, durable=False) as server:
        began = time.perf_counter()
        await fill(server, timers)
        print(f"{'timers set a second':<44}{timers / (time.perf_counter() - began):>12,.0f}")
        print(f"{'kB a waiting timer in memory':<44}{(resident() - before) / timers / 1e3:>12.2f}")
        await release(server, clock, timers)


_COPY = """
    {numbers} insert into {table} ({columns})
    select {values} from {table} c, {source} where c.due is not null
"""
"""Copies of the only sleeping conversation, one due each second."""
_CHANGED = {"number": "c.number + g.n", "id": "c.id || '-' || g.n", "due": "c.due + g.n"}
_NUMBERS = "with recursive g(n) as (select 1 union all select n + 1 from g where n < {})"
AT_ONCE = 100
"""Due conversations that the server asks for."""


def copy(columns: list[str], rows: int, table: str, *, recursive: bool) -> str:
    """Make the statement that copies the sleeping conversation."""
    values = ", ".join(_CHANGED.get(name, f"c.{name}") for name in columns)
    source = "g" if recursive else f"generate_series(1, {rows}) g(n)"
    numbers = _NUMBERS.format(rows) if recursive else ""
    return _COPY.format(
        numbers=numbers, table=table, columns=", ".join(columns), values=values, source=source
    )


def print_search(times: list[float]) -> None:
    """Print how long it takes to find the conversations that are due first."""
    times.sort()
    print(
        f"{f'ms to find the first {AT_ONCE}, least and median':<44}{times[0] * 1e3:>12.2f}{times[10] * 1e3:>8.2f}"
    )


async def rows_in_sqlite(folder: Path, rows: int) -> None:
    """Print the figures of rows in a file."""
    organism = await anyio.to_thread.run_sync(house, folder)
    async with build(organism, clock=FakeClock(), durable=True) as server:
        await fill(server, 1)

    def insert() -> float:
        path = next(folder.rglob("*.sqlite"))
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("pragma wal_checkpoint(truncate)")
            before = path.stat().st_size
            columns = [row[1] for row in connection.execute("pragma table_info(conversation)")]
            connection.execute(copy(columns, rows, "conversation", recursive=True))
            connection.commit()
            connection.execute("pragma wal_checkpoint(truncate)")
        return (path.stat().st_size - before) / rows

    def search() -> None:
        with read_journal(next(folder.rglob("*.sqlite"))) as reader:
            times = []
            for _ in range(20):
                began = time.perf_counter()
                assert len(reader.list_sleeping(AT_ONCE)) == AT_ONCE
                times.append(time.perf_counter() - began)
            print_search(times)

    print(f"{'bytes a row, with its indexes':<44}{await anyio.to_thread.run_sync(insert):>12,.0f}")
    await anyio.to_thread.run_sync(search)


async def rows_in_postgres(folder: Path, database: Postgres, rows: int) -> None:
    """Print the figures of rows in a database."""
    made = replace(await anyio.to_thread.run_sync(house, folder), journal=None)
    guards, table = build(made).rules.guards, "agentserver.conversation"
    first = PostgresEngine(PostgresOptions(database.url(), name="a"), guards)
    async with build(made, engine=first, clock=FakeClock()) as server:
        await fill(server, 1)

    def insert() -> float:
        asked = f"select attname from pg_attribute where attrelid = '{table}'::regclass and attnum > 0"
        columns = [name for (name,) in database.execute(asked)]
        before = database.execute(f"select pg_total_relation_size('{table}')")[0][0]
        database.execute(copy(columns, rows, table, recursive=False))
        database.execute(f"analyze {table}")
        return float(database.execute(f"select pg_total_relation_size('{table}')")[0][0] - before) / rows

    print(f"{'bytes a row, with its indexes':<44}{await anyio.to_thread.run_sync(insert):>12,.0f}")
    async with PostgresEngine(PostgresOptions(database.url(), name="b"), guards) as engine:
        times = []
        for _ in range(20):
            began = time.perf_counter()
            assert len(await engine.list_sleeping(AT_ONCE)) == AT_ONCE
            times.append(time.perf_counter() - began)
        print_search(times)


def measure_rows(folder: Path, engine: str, rows: int) -> None:
    """Print what a sleeping conversation costs as a row."""
    print(f"{rows:,} rows, engine {engine}")
    if engine == "postgres":
        with run_server() as database:
            anyio.run(rows_in_postgres, folder, database, rows)
    else:
        anyio.run(rows_in_sqlite, folder, rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--timers", type=int, default=10_000)
    parser.add_argument("--engine", choices=["sqlite", "memory", "postgres"], default="sqlite")
    parser.add_argument("--rows", type=int, default=0, help="copy a sleeping conversation as so many rows")
    parser.add_argument("--quick", action="store_true", help="with few timers")
    options = parser.parse_args()
    if options.engine == "postgres" and not options.rows:
        parser.error("--engine postgres needs --rows")
    if options.rows:
        with tempfile.TemporaryDirectory() as name:
            measure_rows(Path(name), options.engine, options.rows)
        return 0
    timers = 300 if options.quick else options.timers
    print(f"{timers:,} conversations, engine {options.engine}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.engine == "memory":
            anyio.run(in_memory, folder, timers)
        else:
            anyio.run(measure, folder, timers)
            anyio.run(restart, folder, timers)
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    sys.exit(main())
