"""What a hop costs here and in other systems, in one run.

Two tables. In memory: ten listeners (subscribers, agents, nodes) that each hand a message of four fields to the next.
Journalled: the same where each hop is on disk before the next one begins, with so many conversations (workflows,
threads) at work. The systems do different work for it, which each row says. CPU is that of the process, without the
database's; hops a second are by the clock. Every figure comes from a fresh process; rounds of all rows are interleaved,
and the ratios are medians over rounds.

The others live in an environment of their own, ``.venv-peers``, made from ``benchmarks/peers/requirements.lock``. Rows
with Postgres need its programs; the server is one of this run's own, with fsync on.

    ./run bench peers                 # three rounds
    ./run bench peers --rounds 6
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HERE = Path(__file__).parent
ROOT = HERE.parent
ENVIRONMENT = ROOT / ".venv-peers"
FLIGHTS = (1, 16)
FEWEST = 100
"""Hops of a row in a round, for systems of which few are measured."""


@dataclass(frozen=True)
class Row:
    """A system in one of the tables.

    Attributes:
        name: the system, as the table shows it.
        work: the checks and the storage of a hop.
        script: a script of ``benchmarks/peers``; empty for this project.
        kind: the first argument of the script, or the engine.
        share: hops of a round over those of the option, since some take a hundred times as long.
        database: whether it needs the Postgres server.
    """

    name: str
    work: str
    script: str
    kind: str
    share: float = 1.0
    database: bool = False


MEMORY = (
    Row("agentserver, provenance off", "XSD twice, peers, budgets, deadline", "", "off"),
    Row("agentserver, provenance audit", "the same, and the origin of each value", "", "audit"),
    Row("autogen-core", "no check of the message", "autogen", "chain", 0.25),
    Row("xml-pipeline", "XSD", "xml_pipeline", "chain", 0.25),
    Row("FastStream, broker in memory", "pydantic, twice", "faststream", "memory", 0.25),
    Row("LangGraph, no checkpoints", "no check of the state", "langgraph", "memory", 0.25),
)
JOURNALLED = (
    Row("agentserver, SQLite", "as above; message, state and record", "", "sqlite"),
    Row("agentserver, Postgres", "the same", "", "postgres", 0.5, database=True),
    Row("LangGraph, SqliteSaver", "state after each node", "langgraph", "sqlite", 0.1),
    Row("DBOS, SQLite", "result of each step", "dbos", "sqlite", 0.05),
    Row("DBOS, Postgres", "result of each step", "dbos", "postgres", 0.1, database=True),
)


def find_environment() -> Path:
    """Find the interpreter of the environment of the others, which is made if need be."""
    python = ENVIRONMENT / "bin" / "python"
    lock = HERE / "peers" / "requirements.lock"
    stamp = ENVIRONMENT / lock.name
    if not (stamp.exists() and stamp.read_bytes() == lock.read_bytes()):
        print("making", ENVIRONMENT.name, "...", file=sys.stderr)
        subprocess.run(
            [sys.executable, "-m", "venv", "--without-pip", "--clear", str(ENVIRONMENT)], check=True
        )
        pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--require-hashes"]
        subprocess.run([*pip, "-r", str(lock)], check=True)
        stamp.write_bytes(lock.read_bytes())
    return python


@contextmanager
def make_place(row: Row, server: object) -> Iterator[str]:
    """Make an empty journal: a file, or the address of a database."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as folder:
        if row.database:
            yield server.url(server.database())  # type: ignore[attr-defined]
        elif row.script == "dbos":
            yield f"sqlite:///{folder}/journal.sqlite"
        else:
            yield f"{folder}/journal.sqlite"


def measure(row: Row, hops: int, flight: int, python: Path, server: object) -> dict[str, float]:
    """Measure microseconds of CPU and of the clock a hop, in a fresh process."""
    many = str(max(FEWEST, round(hops * row.share)))
    with make_place(row, server) as place:
        if row.script:
            script = str(HERE / "peers" / f"{row.script}_hop.py")
            command = [str(python), script, row.kind, many, str(flight), place]
        elif row in MEMORY:
            script = str(HERE / "hop.py")
            command = [sys.executable, script, "--child", "chain of 10", "0.4 kB", row.kind, many, "cpu"]
        else:
            command = [sys.executable, __file__, "--child", row.kind, many, str(flight), place]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
    found = json.loads(done.stdout.strip().splitlines()[-1])
    each = 1e6 / found["deliveries"]
    return {"cpu": found["cpu"] * each, "wall": found.get("wall", found["cpu"]) * each}


def run_child(kind: str, hops: int, flight: int, place: str) -> None:
    """Measure a journalled hop of this project."""
    from durable import throughput

    found = asyncio.run(throughput(kind, place, flight, hops))
    line = {"cpu": found["cpu"] / 1e6 * hops, "wall": hops / found["rate"], "deliveries": hops}
    print(json.dumps(line))


def compare(rows: Sequence[Row], flight: int, args: argparse.Namespace, python: Path, server: object) -> None:
    """Print the rows of one table, with ratios to the first one."""
    took: dict[Row, list[dict[str, float]]] = {row: [] for row in rows}
    for number in range(args.rounds):
        for row in rows:
            progress = f"round {number + 1} of {args.rounds}, {row.name}"
            print(f"\r{progress:<60}", end="", file=sys.stderr, flush=True)
            took[row].append(measure(row, args.hops, flight, python, server))
    print("\r" + " " * 60, end="\r", file=sys.stderr)
    clocked = rows is not MEMORY
    print(f"{'':32}{'CPU us a hop':>14}{'spread':>16}{'times':>8}" + (f"{'hops/s':>9}" if clocked else ""))
    for row, rounds in took.items():
        cpu = [one["cpu"] for one in rounds]
        times = statistics.median(one / first["cpu"] for one, first in zip(cpu, took[rows[0]], strict=True))
        rate = f"{1e6 / statistics.median(one['wall'] for one in rounds):>9.0f}" if clocked else ""
        spread = f"{min(cpu):>8.0f}-{max(cpu):<7.0f}"
        print(f"{row.name:32}{statistics.median(cpu):>14.0f}{spread:>16}{times:>8.2f}{rate}   {row.work}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--hops", type=int, default=4000)
    parser.add_argument("--flight", type=int, action="append", help="only so many at work (may be repeated)")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        kind, hops, flight, place = args.child
        run_child(kind, int(hops), int(flight), place)
        return
    sys.path.insert(0, str(ROOT))
    from tests.postgres import run_server

    python = find_environment()
    print("in memory, 0.4 kB, ten in a row", flush=True)
    compare(MEMORY, 1, args, python, None)
    with run_server(fsync="on") as server:
        for flight in args.flight or FLIGHTS:
            print(f"\njournalled, 0.4 kB, {flight} at work", flush=True)
            compare(JOURNALLED, flight, args, python, server)


if __name__ == "__main__":
    main()
