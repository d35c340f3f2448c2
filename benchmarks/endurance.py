"""What must not grow while one server runs on: memory, latency and bytes of the journal, at each tenth of many hops.

`agentserver run` is started as a user would, with a journal that is synced for every commit, and reads messages from
a pipe: one conversation, one request after the other. A request goes back and forth between two listeners for 20
hops, and the console prints the answer. Each hop is read, handled, decided and committed before the next begins. The
latency is the time from writing a line to reading its answer, over its hops.

A row has the server's resident memory, and of that tenth the percentiles of the latency, the server's CPU time a hop,
and the bytes of the journal and its log a hop. The verdict compares the median of the last three tenths with that of
the second to fourth, because the first warms up: memory, CPU time and the median latency are flat, and the file is
linear, if they grew by a tenth at most. Other work of the machine changes the latency most, the CPU time less, and
memory and bytes not at all.

    ./run bench endurance                  # 20,000 hops
    ./run bench endurance --hops 200000    # the promise
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from _targets import record

if TYPE_CHECKING:
    from collections.abc import Sequence

TENTHS = 10
ROW = 20
"""Hops of a request."""
EARLY, LATE = slice(1, 4), slice(-3, None)
"""The tenths that are compared. The first warms up."""
GROWTH = 1.1
"""The most that the late tenths may be over the early ones."""

HANDLERS = '''
from dataclasses import dataclass, replace

from agentserver import HandlerResponse, xmlify


@xmlify
@dataclass(frozen=True)
class Turn:
    """One turn of a request.

    Args:
        left: hops that follow.
        note: what is passed on.
    """

    left: int
    note: str = ""


async def front(turn: Turn, metadata) -> HandlerResponse:
    if turn.left <= 0:
        return HandlerResponse.respond(turn)
    return HandlerResponse(replace(turn, left=turn.left - 1, note="x" * 300), "back")


async def back(turn: Turn, metadata) -> HandlerResponse:
    return HandlerResponse.respond(replace(turn, left=turn.left - 1))
'''
ORGANISM = """
name: endurance
journal: {path: endurance.sqlite, sync: full}
limits: {hops: 10000, messages: 1000000}
listeners:
  - {name: front, description: Begins and ends., payload_class: turning.Turn, handler: turning.front, peers: [back]}
  - {name: back, description: Answers., payload_class: turning.Turn, handler: turning.back}
"""


@dataclass(frozen=True)
class Tenth:
    """Figures at the end of a tenth.

    Args:
        memory: resident bytes of the server.
        took: seconds a hop, of each request of this tenth.
        cpu: seconds of the server's CPU time a hop, of this tenth.
        written: bytes of the journal and its log a hop, of this tenth.
    """

    memory: int
    took: list[float]
    cpu: float
    written: float

    @property
    def latencies(self) -> tuple[float, float, float]:
        """The median, the 95th and the 99th percentile, in milliseconds."""
        cuts = statistics.quantiles(self.took, n=100)
        return cuts[49] * 1e3, cuts[94] * 1e3, cuts[98] * 1e3


def resident(process: int) -> int:
    """Bytes of resident memory of a process."""
    pages = int(Path(f"/proc/{process}/statm").read_text("utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def used_cpu(process: int) -> float:
    """Seconds of CPU time of a process with all its threads."""
    fields = Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def size(folder: Path) -> int:
    """Bytes of the journal with its log."""
    return sum(path.stat().st_size for path in folder.glob("endurance.sqlite*"))


def ask(server: subprocess.Popen[str], written: IO[str], answers: IO[str]) -> float:
    """Send a request and wait for its answer; seconds a hop."""
    start = time.perf_counter()
    written.write(f"@front left={ROW}\n")
    written.flush()
    while "| left: " not in (line := answers.readline()):
        if not line:
            raise RuntimeError(f"the server ended with status {server.wait()}")
    return (time.perf_counter() - start) / (ROW + 1)


def run(hops: int, folder: Path) -> list[Tenth]:
    """Measure each tenth of so many hops, and print its row."""
    (folder / "turning.py").write_text(HANDLERS, "utf-8")
    (folder / "organism.yaml").write_text(ORGANISM, "utf-8")
    command = [sys.executable, "-m", "agentserver", "run", "organism.yaml"]
    requests = max(2, hops // TENTHS // (ROW + 1))
    found: list[Tenth] = []
    with subprocess.Popen(
        command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        each = requests * (ROW + 1)
        before, cpu = size(folder), used_cpu(server.pid)
        for number in range(TENTHS):
            took = [ask(server, server.stdin, server.stdout) for _ in range(requests)]
            now, spent = size(folder), used_cpu(server.pid)
            found.append(Tenth(resident(server.pid), took, (spent - cpu) / each, (now - before) / each))
            before, cpu = now, spent
            show(each * (number + 1), found[-1])
        server.stdin.close()
    if server.returncode:
        raise RuntimeError(f"the server ended with status {server.returncode}")
    return found


def show(hops: int, tenth: Tenth) -> None:
    """Print the row of a tenth."""
    latencies = "".join(f"{each:>9.2f}" for each in tenth.latencies)
    print(
        f"{hops:>10}{tenth.memory / 1e6:>10.1f}{latencies}{tenth.cpu * 1e3:>9.2f}{tenth.written:>12.0f}",
        flush=True,
    )


def judge(name: str, shape: str, figures: Sequence[float]) -> None:
    """Print whether the figures of the tenths kept their shape."""
    growth = statistics.median(figures[LATE]) / statistics.median(figures[EARLY])
    print(f"{name}: {shape if growth <= GROWTH else 'GROWS'}, late tenths {growth:.3f} of the early ones")
    record(f"{name}, late tenths over early ones", [growth], GROWTH)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hops", type=int, default=20_000)
    args = parser.parse_args()
    print(f"{'hops':>10}{'RSS, MB':>10}{'p50, ms':>9}{'p95':>9}{'p99':>9}{'CPU, ms':>9}{'bytes/hop':>12}")
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR"), prefix="endurance-") as folder:
        tenths = run(args.hops, Path(folder))
    judge("memory", "flat", [one.memory for one in tenths])
    judge("CPU time a hop", "flat", [one.cpu for one in tenths])
    judge("median latency", "flat", [one.latencies[0] for one in tenths])
    judge("bytes of the journal a hop", "linear", [one.written for one in tenths])
    record("latency of a journalled hop, p99 of the last tenth, ms", [tenths[-1].latencies[2]])


if __name__ == "__main__":
    main()
