"""What one principal's flood costs another one, as ratios measured in one run.

Prints the 99th percentile of how long a stranger waits for an answer while another principal floods the server, over
its 99th percentile when nothing else happens. The floods: sending in a tight loop, fan-outs, and many chains at once.
Each flood and the idle stretch before it are measured in one process, on a server that is loaded and built as
``agentserver run`` does it. Each ratio is given twice: in time on the clock, which other processes of the machine
disturb, and in processor time of the server between question and answer, which they do not.

    ./run bench fairness             # every flood, with and without a journal
    ./run bench fairness --quick
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import statistics
import tempfile
import time
from contextlib import asynccontextmanager
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio
from _targets import record

from agentserver.assembly import build
from agentserver.cli.process import collect_as_usual, collect_rarely
from agentserver.config import load

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from agentserver.assembly import Server
    from agentserver.pump.handle import ServerHandle

AIM = 4.0
"""How many times as long as on an idle server a stranger may wait."""

ORGANISM = """
name: fairness
journal: {journal}
listeners:
  - {{name: echo, description: Answers., payload_class: fair_payloads.Say, handler: fair_payloads.echo}}
  - {{name: fan, description: Asks many., handler: fair_payloads.fan, peers: [echo]}}
  - {{name: chain, description: Asks one after another., handler: fair_payloads.chain, peers: [echo]}}
"""

HANDLERS = """
from dataclasses import dataclass

from agentserver import HandlerResponse, xmlify


@xmlify
@dataclass(frozen=True)
class Say:
    text: str


@xmlify
@dataclass(frozen=True)
class Many:
    count: int


@xmlify
@dataclass(frozen=True)
class Said:
    text: str


async def echo(payload: Say, metadata):
    return HandlerResponse.respond(Said(payload.text))


async def fan(payload: Many | Said, metadata):
    if isinstance(payload, Many):
        return [HandlerResponse(Say(str(number)), "echo") for number in range(payload.count)]


async def chain(payload: Many | Said, metadata):
    left = payload.count if isinstance(payload, Many) else int(payload.text) - 1
    return HandlerResponse(Say(str(left)), "echo") if left > 0 else HandlerResponse.respond(Said("done"))
"""


def markup(name: str, field: str, value: object) -> bytes:
    return f'<{name} xmlns="urn:agentserver:payload:{name}:v1"><{field}>{value}</{field}></{name}>'.encode()


async def send_endlessly(server: Server) -> None:
    """Send without a pause, in one conversation."""
    handle = await server.open("flood")
    while True:
        await handle.send(markup("Say", "text", "x"), "echo")


def fan_out(count: int) -> Callable[[Server], Coroutine[Any, Any, None]]:
    """One message to many listeners, again and again."""

    async def flood(server: Server) -> None:
        handle = await server.open("flood")
        while True:
            await handle.ask(markup("Many", "count", count), "fan")

    return flood


async def run_chains(server: Server) -> None:
    """Run 64 conversations; each sends one request after another."""

    async def one() -> None:
        handle = await server.open("flood")
        while True:
            await handle.ask(markup("Many", "count", 100), "chain")

    async with anyio.create_task_group() as tasks:
        for _ in range(64):
            tasks.start_soon(one)


FLOODS: dict[str, Callable[[Server], Coroutine[Any, Any, None]]] = {
    "tight loop of sends": send_endlessly,
    "fan-out of 300": fan_out(300),
    "fan-out of 800": fan_out(800),
    "64 chains": run_chains,
}


FEWEST = 2
"""Questions that are asked however long they take: on a busy machine one may take all the time there is."""


class WaitingTimes(NamedTuple):
    """How long a stranger waited for an answer, in seconds: on the clock, and of the server's processor."""

    clock: float
    work: float


async def time_questions(handle: ServerHandle, seconds: float) -> list[WaitingTimes]:
    """How long each of a stranger's questions took, one after another with a pause."""
    took: list[WaitingTimes] = []
    over = time.perf_counter() + seconds
    while time.perf_counter() < over or len(took) < FEWEST:
        start, worked = time.perf_counter(), time.process_time()
        reply = await handle.ask(markup("Say", "text", "hello"), "echo")
        took.append(WaitingTimes(time.perf_counter() - start, time.process_time() - worked))
        if reply is None or reply.error:
            raise RuntimeError("the stranger was refused")
        await asyncio.sleep(0.002)
    return took


def p99(took: list[WaitingTimes]) -> WaitingTimes:
    """The 99th percentile of either."""
    return WaitingTimes(
        *(statistics.quantiles(values, n=100, method="inclusive")[98] for values in zip(*took, strict=True))
    )


@asynccontextmanager
async def serve_file(folder: Path, journal: str) -> AsyncIterator[Server]:
    """A server from a file, with or without a journal, which collects garbage as ``agentserver run`` does."""
    path = folder / "organism.yaml"
    path.write_text(ORGANISM.format(journal=journal))
    collect_rarely()
    async with build(load(path, environ={}), durable=journal != "none") as server:
        collect_as_usual()
        yield server


async def measure(folder: Path, journal: str, name: str, seconds: float) -> tuple[WaitingTimes, WaitingTimes]:
    """A stranger's 99th percentile without and with a flood, in seconds."""
    async with serve_file(folder, journal) as server:
        handle = await server.open("stranger")
        await time_questions(handle, seconds / 4)  # until everything is warm
        idle = p99(await time_questions(handle, seconds))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(FLOODS[name], server)
            await asyncio.sleep(seconds / 4)
            flooded = p99(await time_questions(handle, seconds))
            tasks.cancel_scope.cancel()
    return idle, flooded


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a second each, without a journal")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long each stretch is measured")
    args = parser.parse_args()
    seconds = 0.5 if args.quick else args.seconds
    logging.disable()
    print(f"{'99th percentiles':34}{'idle':>10}{'flooded':>10}{'ratio':>8}{'of work':>10}   (aim: {AIM:g})")
    with tempfile.TemporaryDirectory(prefix="fairness-") as name:
        folder = Path(name)
        (folder / "fair_payloads.py").write_text(dedent(HANDLERS))
        for journal in ("none",) if args.quick else ("none", "{path: data/journal.db}"):
            kept = "in memory" if journal == "none" else "journal"
            for flood in FLOODS:
                idle, flooded = anyio.run(measure, folder, journal, flood, seconds)
                told = f"{kept}, {flood}"
                times = f"{idle.clock * 1e3:>7.2f} ms{flooded.clock * 1e3:>7.2f} ms"
                record(f"p99 beside load over idle, {told}", [flooded.clock / idle.clock], AIM)
                ratios = f"{flooded.clock / idle.clock:>8.1f}{flooded.work / idle.work:>10.1f}"
                print(f"{told:34}{times}{ratios}", flush=True)


if __name__ == "__main__":
    main()
