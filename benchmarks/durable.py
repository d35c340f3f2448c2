"""What durability costs, against the memory engine in the same run.

Every conversation is a row of calls from one listener to another that never ends; a hop is one such delivery: read,
handled, decided, committed. Each figure comes from a fresh process; rounds of all candidates are interleaved, and
ratios are medians over rounds, because the machine may be shared.

    ./run bench durable                # hops per second, latency, bytes kept and written, recovery
    ./run bench durable --big 1000000  # recovery of a journal of a million hops
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from _targets import measure_floor, record

from agentserver import HandlerResponse, xmlify
from agentserver.assembly import SystemClock
from agentserver.cli.process import collect_as_usual, collect_rarely
from agentserver.config import Organism
from agentserver.config.organism import BoundListener as Configured
from agentserver.config.organism import SourceLine
from agentserver.config.yaml.secrets import Secrets
from agentserver.core.blueprint import Limits, Listener
from agentserver.core.guard import Rules
from agentserver.engines.conformance.sample import at_work
from agentserver.engines.memory import MemoryEngine
from agentserver.engines.postgres import PostgresEngine, PostgresOptions
from agentserver.engines.sqlite import file as journal_file
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.payload.codec import Codecs
from agentserver.pump.editions import Callee
from agentserver.pump.pump import Pump
from agentserver.rulebook import build_blueprint, list_guards, make_explainer
from agentserver.wire.envelope import Bounds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agentserver.core.records.outcome import Outcome
    from agentserver.ports import Claim

IN_FLIGHT = (1, 16, 64, 256)
AT_LOAD = (16, 64)
CPU_AIM, WRITTEN_AIM = 11.0, 5.0
"""Floors of CPU, and kilobytes that are written to the journal and its log, of a hop."""
LATENCY = (1, 16, 256)
KINDS = ("memory", "sqlite", "sqlite-normal", "alone")
TEXT = "x" * 300
HELD = 8_000
"""Hops of a big journal that are not copies."""


@xmlify
@dataclass(frozen=True)
class Order:
    """The message of every measurement."""

    note: str
    count: int
    price: float
    urgent: bool


class UngroupedEngine(SqliteEngine):
    """One commit per message: what grouping is compared with."""

    def commit(self, claim: Claim, outcome: Outcome) -> asyncio.Future[None]:  # noqa: ARG002 - there is one
        """Commit by itself."""
        return asyncio.ensure_future(self._alone(outcome))

    async def _alone(self, outcome: Outcome) -> None:
        (error,) = await self._do(lambda: self._writer.commit([outcome]))
        if error is not None:
            raise error


def engine_of(kind: str, path: Path | str) -> Any:
    """The engine of a candidate, in a file, or at the address of a database."""
    if kind == "memory":
        return MemoryEngine()
    if kind == "postgres":
        return PostgresEngine(PostgresOptions(str(path), name="bench"))
    sync = journal_file.Sync.NORMAL if kind == "sqlite-normal" else journal_file.Sync.FULL
    return (UngroupedEngine if kind == "alone" else SqliteEngine)(
        journal_file.JournalOptions(Path(path), sync)
    )


class Meter:
    """Counts hops; waits for a number of them."""

    def __init__(self) -> None:
        self.hops = 0
        self.wanted = 0
        self.reached = asyncio.Event()

    def hit(self) -> None:
        """One more."""
        self.hops += 1
        if self.hops == self.wanted:
            self.reached.set()

    async def wait(self, more: int) -> None:
        """Until ``more`` further hops have passed."""
        self.wanted, self.reached = self.hops + more, asyncio.Event()
        await self.reached.wait()


def organism(handlers: dict[str, Any]) -> tuple[Rules, dict[str, Callee]]:
    """Listeners that are all each other's peers, without bounds that a benchmark would meet."""
    listeners = [
        Listener(name, (Order,), "x", peers=frozenset(handlers), concurrency=4096) for name in handlers
    ]
    codecs = Codecs([Order])
    limits = Limits(
        hops=10**9, messages=10**9, queue=10**6, principal_queue=10**6, concurrency=512, drain=0.2
    )
    here = SourceLine(Path(__file__), 1)
    declared = tuple(
        Configured(one, handlers[one.name], None, returns_bytes=False, schema=None, source=here)
        for one in listeners
    )
    whole = Organism("bench", Path.cwd(), declared, limits, None, Secrets(), ())
    facts = build_blueprint(whole, codecs, make_explainer(whole, codecs))
    rules = Rules(facts, codecs, list_guards(whole, codecs, facts.listeners), Bounds())
    return rules, {one.name: Callee(one, handlers[one.name]) for one in listeners}


def count_written() -> int:
    """Return the bytes that this process has given to the system to write, whatever the file."""
    counts = dict(line.split(": ") for line in Path("/proc/self/io").read_text("ascii").splitlines())
    return int(counts["wchar"])


async def checkpoint(engine: Any) -> None:
    """Have a journal move its log into its file, so that hops between two of these have all of their bytes counted."""
    if isinstance(engine, SqliteEngine):
        await engine._do(lambda: engine._connection.execute("pragma wal_checkpoint").fetchall())  # noqa: SLF001


def size_of(path: Path) -> int:
    """Return the bytes of a file; 0 without one."""
    return path.stat().st_size if path.exists() else 0


async def throughput(
    kind: str, path: Path | str, flight: int, hops: int, *, killed: bool = False
) -> dict[str, float]:
    """Hops per second with so many conversations at work, each handing one message back and forth.

    ``killed`` ends the process in the middle of it.
    """
    meter = Meter()

    def pass_order(other: str) -> Any:
        async def handle(order: Order, _: Any) -> HandlerResponse:
            meter.hit()
            # A self-call would open a thread each time: two listeners answer each other instead.
            if other == "respond":
                return HandlerResponse.respond(order)
            return HandlerResponse(Order(order.note, order.count + 1, order.price, not order.urgent), other)

        return handle

    rules, bound = organism({"a": pass_order("b"), "b": pass_order("respond")})
    data = rules.codecs.of(Order).encode(Order(TEXT, 1, 1.5, urgent=True)).encode()
    async with engine_of(kind, path) as engine, Pump(rules, bound, engine, SystemClock()) as pump:
        collect_as_usual()  # as ``agentserver run`` does when it has started
        for _ in range(flight):
            handle = await pump.open("bench")
            await handle.send(data, "a")
        await meter.wait(max(200, hops // 5))
        await checkpoint(engine)
        hops_before, written = meter.hops, count_written()
        wall, cpu = time.perf_counter(), time.process_time()
        await meter.wait(hops)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        if killed:
            os._exit(0)
        await checkpoint(engine)
        written = count_written() - written
        hops_written = meter.hops - hops_before
    size = size_of(Path(path)) / meter.hops
    return {"rate": hops / wall, "cpu": cpu / hops * 1e6, "bytes": size, "written": written / hops_written}


async def latency(kind: str, path: Path, flight: int, count: int) -> dict[str, float]:
    """Milliseconds from handing in a message to its answer (two commits), with so many askers."""

    async def answer(order: Order, _: Any) -> HandlerResponse:
        return HandlerResponse.respond(order)

    rules, bound = organism({"a": answer})
    data = rules.codecs.of(Order).encode(Order(TEXT, 1, 1.5, urgent=True)).encode()
    took: list[float] = []
    async with engine_of(kind, path) as engine, Pump(rules, bound, engine, SystemClock()) as pump:
        collect_as_usual()

        async def ask() -> None:
            handle = await pump.open("bench")
            for _ in range(max(5, count // flight)):
                start = time.perf_counter()
                await handle.ask(data, "a")
                took.append((time.perf_counter() - start) * 1000)

        async with anyio.create_task_group() as tasks:
            for _ in range(flight):
                tasks.start_soon(ask)
    cuts = statistics.quantiles(took[len(took) // 10 :], n=100)
    return {"p50": cuts[49], "p95": cuts[94], "p99": cuts[98]}


def build(path: Path, hops: int) -> None:
    """A journal of about so many hops, as a server leaves it that is killed: the newest are only in its log.

    Some conversations were really held, the others are finished copies of them under other ids, because a million
    hops would take many minutes. To whoever opens the file they are rows like any others.
    """
    held = path.with_name("held.sqlite")
    asyncio.run(throughput("sqlite-normal", held, 64, min(hops // 4, HELD)))
    shutil.copy(held, path)
    with closing(sqlite3.connect(path, isolation_level=None)) as journal:
        journal.execute("pragma synchronous = off")
        journal.execute("attach ? as held", (str(held),))
        (count,) = journal.execute("select count(*) from held.step").fetchone()
        for number in range(1, max(2, round(hops / count))):  # one at least, to find a stale copy
            copy(journal, number)
    os.sync()
    asyncio.run(throughput("sqlite-normal", path, 64, min(hops // 4, HELD) // 4, killed=True))


def copy(journal: sqlite3.Connection, number: int) -> None:
    """Add the conversations that were held once more, finished."""
    shift = {
        table: number * (journal.execute(f"select max(number) from held.{table}").fetchone()[0] or 0)
        for table in ("conversation", "step", "delivery", "event")
    }
    journal.execute("begin")
    for table, changed in COPIED.items():
        names = [name for _, name, *_ in journal.execute(f"pragma held.table_info({table})")]
        values = ", ".join(changed.get(name, name) for name in names)
        journal.execute(
            f"insert into {table} ({', '.join(names)}) select {values} from held.{table}",
            {"copy": f"{number:08x}", **shift},
        )
    journal.execute("commit")


COPIED = {
    "conversation": {
        "number": "number + :conversation",
        "id": ":copy || substr(id, 9)",
        "closed": "touched",
        "due": "null",
        "last": "last + :step",
        "state": "x''",
        "seal": "x''",
    },
    "step": {
        "number": "number + :step",
        "conversation": "conversation + :conversation",
        "previous": "previous + (previous > 0) * :step",
        "first_delivery": "first_delivery + :delivery",
        "first_event": "first_event + :event",
    },
    "delivery": {
        "number": "number + :delivery",
        "conversation": "conversation + :conversation",
        "mark": "x''",
    },
    "event": {
        "number": "number + :event",
        "conversation": "conversation + :conversation",
        "waiting": "0",
        "mark": "x''",
    },
}
"""The tables of a copy, and the values of its rows that differ from those of the originals."""


def cold(path: Path) -> None:
    """Have the operating system drop its cache of a file."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


async def recovery(path: Path) -> dict[str, float]:
    """Seconds to open a journal and have everything that waits in it runnable."""
    size, log = size_of(path), size_of(path.with_name(f"{path.name}-wal"))
    cold(path)
    start = time.perf_counter()
    async with engine_of("sqlite", path) as engine:
        opened = time.perf_counter() - start
        waiting = [await engine.load(key) for key in await at_work(engine)]
        took = time.perf_counter() - start
        (steps,) = engine._connection.execute("select count(*) from step").fetchone()  # noqa: SLF001 - counts only
    return {"open": opened, "all": took, "waiting": len(waiting), "steps": steps, "size": size, "log": log}


def recoveries(hops: int) -> None:
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as folder:
        start = time.perf_counter()
        measure("build", "sqlite", 256, hops, folder)
        print(f"\na journal of {hops} hops was built in {time.perf_counter() - start:.0f} s", flush=True)
        for name in ("after a kill, cold", "after a clean stop, cold"):
            one = measure("recovery", "sqlite", 256, hops, folder)
            print(
                f"recovery {name}: {one['steps']:.0f} steps, {one['size'] / 1e6:.0f} MB"
                f" and {one['log'] / 1e6:.0f} MB of log: opened and checked in {one['open']:.2f} s,"
                f" all {one['waiting']:.0f} conversations at work loaded after {one['all']:.2f} s"
            )


def measure(what: str, kind: str, flight: int, number: int, folder: str | None = None) -> dict[str, float]:
    """One figure, in a process of its own."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as own:
        argv = [sys.executable, __file__, "--child", what, kind, str(flight), str(number), folder or own]
        done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout or "{}"))


def child(what: str, kind: str, flight: int, number: int, folder: str) -> None:
    path = Path(folder) / "journal.sqlite"
    collect_rarely()
    if what == "build":
        build(path, number)
        return
    work: Any = {
        "throughput": lambda: throughput(kind, path, flight, number),
        "latency": lambda: latency(kind, path, flight, number),
        "recovery": lambda: recovery(path),
    }[what]
    print(json.dumps(asyncio.run(work())))


def number_of(kind: str, flight: int, hops: int) -> int:
    """Fewer hops where each waits for the disk by itself."""
    if kind == "memory":
        return hops
    return max(200, hops // 10) if kind == "alone" or flight == 1 else hops


def rates(rounds: int, hops: int, flights: Sequence[int]) -> None:
    floor = measure_floor(hops)
    print(f"hops per second (ratio to memory, median of {rounds} rounds)")
    print(f"{'in flight':>10}", *(f"{kind:>24}" for kind in KINDS), f"{'kept/hop':>10}", f"{'written':>10}")
    for flight in flights:
        seen: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
        for _ in range(rounds):
            for kind in KINDS:
                seen[kind].append(measure("throughput", kind, flight, number_of(kind, flight, hops)))
        own = seen["sqlite"]
        if flight in AT_LOAD:
            name = f"hop with a journal, {flight} in flight"
            record(f"{name}, floors", [one["cpu"] / floor for one in own], CPU_AIM)
            record(f"{name}, kB written", [one["written"] / 1000 for one in own], WRITTEN_AIM)
        kept, written = (statistics.median(one[name] for one in own) for name in ("bytes", "written"))
        print(f"{flight:>10}", *row(seen), f"{kept:>10.0f}", f"{written:>10.0f}")


def row(seen: dict[str, list[dict[str, float]]]) -> Iterator[str]:
    for values in seen.values():
        rate = statistics.median(one["rate"] for one in values)
        ratio = statistics.median(
            one["rate"] / base["rate"] for one, base in zip(values, seen["memory"], strict=True)
        )
        cpu = statistics.median(one["cpu"] for one in values)
        yield f"{rate:>9.0f} {ratio:>5.2f} {cpu:>4.0f}us".rjust(24)


def latencies(count: int, flights: Sequence[int]) -> None:
    print("\nmilliseconds from message to answer, p50 / p95 / p99")
    print(f"{'in flight':>10}", *(f"{kind:>24}" for kind in KINDS[:3]))
    for flight in flights:
        found = [measure("latency", kind, flight, count) for kind in KINDS[:3]]
        cells = (f"{one['p50']:.2f} / {one['p95']:.2f} / {one['p99']:.2f}" for one in found)
        print(f"{flight:>10}", *(f"{cell:>24}" for cell in cells))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--hops", type=int, default=2500)
    parser.add_argument("--big", type=int, default=20_000, help="hops in the journal that is recovered")
    parser.add_argument("--quick", action="store_true", help="one short round, fewer measurements")
    parser.add_argument("--child", nargs=5, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        what, kind, flight, number, folder = args.child
        child(what, kind, int(flight), int(number), folder)
        return
    if args.quick:
        args.rounds, args.hops, args.big = 1, 300, 2000
    rates(args.rounds, args.hops, (64,) if args.quick else IN_FLIGHT)
    latencies(args.hops // 5, (16,) if args.quick else LATENCY)
    recoveries(args.big)


if __name__ == "__main__":
    main()
