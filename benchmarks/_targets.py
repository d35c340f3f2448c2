"""Collects figures, and prints those that have a target as one table at the end of ``./run bench``.

Each benchmark runs in its own process and appends to the file that ``BENCH_TARGETS`` names; without it, nothing is
collected.

    python benchmarks/_targets.py FILE     # print the table of a file
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

FILE = "BENCH_TARGETS"
HEAD = f"{'':58}{'median':>9}{'least':>9}{'most':>9}{'target':>11}"


def record(name: str, values: Sequence[float], target: float | None = None, *, least: bool = False) -> None:
    """Record a figure for the table, or for ``./run bench --against`` alone.

    Args:
        name: the measured quantity, with its unit.
        values: one of each round.
        target: the most that its median should be, or the least; without one, only trees are compared by it.
        least: whether the target is the least.
    """
    if path := os.environ.get(FILE):
        row = {"name": name, "values": list(values), "target": target, "least": least}
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def measure_floor(hops: int) -> float:
    """Measure CPU microseconds of the bare loop of lxml that ``bench hop`` calls the floor, in a fresh process."""
    script = str(Path(__file__).with_name("hop.py"))
    command = [sys.executable, script, "--child", "floor", "0.4 kB", "off", str(hops), "cpu"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
    line = json.loads(done.stdout.strip().splitlines()[-1])
    return float(line["cpu"]) / int(line["deliveries"]) * 1e6


def main() -> None:
    recorded = [json.loads(line) for line in Path(sys.argv[1]).read_text("utf-8").splitlines()]
    rows = [row for row in recorded if row["target"] is not None]
    print(f"\n{HEAD}")
    missed = 0
    for row in rows:
        values, target = row["values"], row["target"]
        median = statistics.median(values)
        met = median >= target if row["least"] else median <= target
        missed += not met
        figures = f"{median:>9.2f}{min(values):>9.2f}{max(values):>9.2f}"
        bound = f"{'>=' if row['least'] else '<='} {target:g}"
        print(f"{row['name']:58}{figures}{bound:>11}  {'met' if met else 'MISSED'}")
    print(f"{len(rows) - missed} targets met, {missed} missed")


if __name__ == "__main__":
    main()
