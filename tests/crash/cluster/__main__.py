"""Attack three servers on a primary with a standby, and say whether anything was lost: ./run crash --postgres.

./run crash --postgres                       # 200 attacks
./run crash --postgres --kills 20 --seed 7   # as CI does, with another seed
./run crash --postgres --minutes 15          # as many of them as begin in that time
"""

from __future__ import annotations

import argparse
import asyncio
import math
import statistics
import sys
import tempfile
import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from tests.crash.cluster import organism
from tests.crash.cluster.acts import PLAN, perform
from tests.crash.cluster.database import pair
from tests.crash.cluster.stage import OFFSETS, Act, Stage, stage_servers
from tests.crash.cluster.verdict import Verdict, judge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.crash.cluster.database import Pair

TALKERS, STOCK = 8, 12


def schedule(kills: int, seed: str, *, disks: bool) -> list[Act]:
    """Draw the attacks: each one of the plan comes before any comes again."""
    random, found = Random(seed), []
    plan = [act for act in PLAN if disks or act.name != "fill the disk"]
    while len(found) < kills:
        found += random.sample(plan, len(plan))
    return found[:kills]


class Run:
    """One run: everything is set up, attacked and compared."""

    def __init__(self, kills: int, seed: str, home: Path, found: Pair, minutes: float = math.inf) -> None:
        self.most = 60 * minutes
        self.seed, self.home, self.pair = seed, home, found
        self.acts = schedule(kills, seed, disks=found.mounted)
        self.began = time.monotonic()

    def say(self, text: str) -> None:
        """Print a line of progress."""
        print(f"{time.monotonic() - self.began:7.1f} s  {text}", file=sys.stderr, flush=True)  # noqa: T201 - progress

    async def go(self) -> tuple[Stage, Verdict]:
        """Run it."""
        async with AsyncExitStack() as stack:
            stage = await stack.enter_async_context(stage_servers(self.pair, self.home, self.seed))
            tasks = [asyncio.ensure_future(stage.clients.talk()) for _ in range(TALKERS)]
            approving = asyncio.ensure_future(stage.clients.approve())
            stack.callback(approving.cancel)
            for number, act in enumerate(tuple(self.acts), 1):
                if time.monotonic() - self.began > self.most:
                    del self.acts[number - 1 :]
                    break
                if number % 40 == 1:
                    stage.stock = [await stage.clients.open() for _ in range(STOCK)]
                self.say(f"{number}/{len(self.acts)} {act.name} while {act.phase}")
                await perform(stage, act)
                await asyncio.sleep(stage.clients.random.random())
            self.say("the load ends; everything comes to rest")
            await stage.clients.rest(tasks)
            await stage.settle()
        self.say("the journal is compared with what clients were told")
        return stage, await asyncio.to_thread(
            judge, self.home, stage.clients.promises, self.pair.primary.url()
        )


def print_takeover(title: str, found: list[tuple[float, Act]]) -> str:
    """How long it took until others had the conversations of a server that was lost."""
    if not found:
        return f"{title}: not measured"
    times = [seconds for seconds, _ in found]
    late = sum(one > organism.LEASE + 1 for one in times)
    low, middle, high = min(times), statistics.median(times), max(times)
    slowest = max(found)[1]
    return (
        f"{title} {low:.1f} / {middle:.1f} / {high:.1f} s (min, median, max of {len(times)});"
        f" {late} later than lease + 1 s; the slowest: {slowest.name} while {slowest.phase}"
    )


def table(run: Run, stage: Stage, verdict: Verdict) -> Iterator[str]:
    """Format the final report."""
    counts = Counter(run.acts)
    yield f"{len(run.acts)} attacks, seed {run.seed}, in {time.monotonic() - run.began:.0f} s; clocks {OFFSETS} s wrong"
    phases = sorted({act.phase for act in PLAN})
    yield f"{'':22}" + "".join(f"{phase:>12}" for phase in phases)
    for name in dict.fromkeys(act.name for act in PLAN):
        cells = (counts[Act(name, phase)] for phase in phases)
        yield f"{name:22}" + "".join(f"{cell or '-':>12}" for cell in cells)
    yield f"the phase was not seen in time at {len(stage.unseen)}: {dict(Counter(stage.unseen)) if stage.unseen else '-'}"
    if not run.pair.mounted:
        yield "SKIPPED: fill the disk (no memory disk may be mounted here)"
    yield print_takeover("taken over after", stage.takeovers)
    yield print_takeover("soon after other trouble", stage.takeovers_in_trouble)
    yield "  ".join(f"{name.replace('_', ' ')} {count}" for name, count in verdict.good.items())
    yield "clients: " + ", ".join(
        f"{name} {count}" for name, count in sorted(stage.clients.promises.counts.items())
    )
    for name, count in verdict.bad.items():
        yield f"{name:26} {count:>6}   {'ok' if not count else 'FAILED'}"
    yield from (f"  {line}" for line in verdict.details[:40])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--minutes", type=float, default=math.inf, help="no attack begins later")
    parser.add_argument(
        "--keep", type=Path, help="a folder for the project, its log of calls and those of servers"
    )
    args = parser.parse_args()
    with pair() as found, tempfile.TemporaryDirectory(prefix="crash-") as folder:
        run = Run(args.kills, args.seed, args.keep or Path(folder), found, args.minutes)
        stage, verdict = asyncio.run(run.go())
        if args.keep:
            for server in stage.servers:
                (args.keep / f"{server.name}.log").write_text("\n".join(server.lines), "utf-8")
        print("\n".join(table(run, stage, verdict)), flush=True)  # noqa: T201 - the report
    return 0 if verdict.passed else 1


if __name__ == "__main__":
    sys.exit(main())
