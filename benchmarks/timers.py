"""Delayed messages: timers released a second, and what a waiting one costs on disk and in memory.

Each conversation delays one message by a day. Then the time comes at once, for all of them. The clock is a fake one.

    ./run bench timers [--timers N] [--engine sqlite|memory]
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from agentserver import HandlerMetadata, HandlerResponse, invocation, xmlify
from agentserver.assembly import build
from agentserver.config.keys.models import Journal
from agentserver.core.blueprint import Limits
from agentserver.testing import FakeClock, listener, organism_of

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


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--timers", type=int, default=10_000)
    parser.add_argument("--engine", choices=["sqlite", "memory"], default="sqlite")
    parser.add_argument("--quick", action="store_true", help="with few timers")
    options = parser.parse_args()
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
