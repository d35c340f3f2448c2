"""Flows against handlers: CPU of a message, of a run from the log, and memory of a flow that waits.

A flow and a handler of the same server ask a peer as often; both conversations are in memory. Ratios are of one
round, so that a busy machine shifts both sides.

    ./run bench flow [--rounds N] [--steps N]
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
import tracemalloc
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from _targets import record

from agentserver import HandlerMetadata, HandlerResponse, xmlify
from agentserver.assembly import build
from agentserver.core.blueprint import Limits
from agentserver.core.state.effects import ThreadStorage
from agentserver.flow import ask
from agentserver.flow.handler import IN_MEMORY, FlowHandler
from agentserver.flow.lines import KEPT, FlowLine
from agentserver.flow.runner import FlowRunner
from agentserver.payload.codec import Codecs
from agentserver.testing import listener, organism_of
from agentserver.wire.envelope import Bounds

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentserver.config.organism import BoundListener, Organism

HOP_AIM, RESUME_AIM, MEMORY_AIM = 1.15, 50.0, 4.0


@xmlify
@dataclass(frozen=True)
class Start:
    steps: int


@xmlify
@dataclass(frozen=True)
class Step:
    left: int
    note: str = "a step of a flow, with some words to carry"


@xmlify
@dataclass(frozen=True)
class Over:
    steps: int


CLASSES = (Start, Step, Over, *KEPT)


async def flow(start: Start) -> Over:
    """Ask the peer, one message after another."""
    for left in range(start.steps, 0, -1):
        await ask("peer", Step(left), reply=Step)
    return Over(start.steps)


async def handler(payload: Start | Step, metadata: HandlerMetadata) -> HandlerResponse:  # noqa: ARG001 - the contract's
    """Do the same as the flow, by hand."""
    left = payload.steps if isinstance(payload, Start) else payload.left - 1
    return HandlerResponse(Step(left), "peer") if left else HandlerResponse.respond(Over(0))


async def peer(payload: Step, metadata: HandlerMetadata) -> HandlerResponse:  # noqa: ARG001 - the contract's
    """Send each step back."""
    return HandlerResponse.respond(payload)


def house(steps: int) -> Organism:
    """Make the organism with both."""
    limits = Limits(
        storage=1 << 24, messages=4 * steps + 100, hops=10_000, conversation_messages=10**9, payload=1 << 20
    )
    flowing: BoundListener = listener(
        "flow", FlowHandler(flow, Codecs(CLASSES)), Start, replies=CLASSES, peers=["peer"]
    )
    return organism_of(
        flowing, listener("handler", handler, Start, peers=["peer"]), listener("peer", peer), limits=limits
    )


async def measure(organism: Organism, steps: int) -> dict[str, float]:
    """CPU seconds of one request to each."""
    found = {}
    async with build(organism, durable=False) as server:
        handle = await server.open("bench")
        data = server.rules.codecs.of(Start).encode(Start(steps)).encode()
        for name in ("handler", "flow", "handler", "flow"):
            gc.collect()
            began = time.process_time()
            await handle.ask(data, name)
            found[name] = time.process_time() - began
    return found


def encoder() -> tuple[Callable[[Any], str], Codecs]:
    """Return the function that writes payloads, and the codecs."""
    codecs = Codecs(CLASSES)

    def encode(payload: Any) -> str:
        return codecs.of(type(payload)).encode(payload)

    return encode, codecs


def resume(steps: int) -> float:
    """CPU milliseconds to run a flow of so many steps from its log, decoding included."""
    encode, codecs = encoder()
    handler = FlowHandler(flow, Codecs(CLASSES))
    storage = ThreadStorage({}, codecs, Bounds(), 1 << 30)

    async def record() -> None:
        runner, line = (
            FlowRunner(flow(Start(steps + 1)), encode, lambda *_: Step(1)),
            FlowLine("0", encode(Start(steps + 1))),
        )
        await runner.begin("0")
        for at in range(steps):
            storage.append(replace(line, events=runner.events))
            line = FlowLine(str(at + 1), encode(Step(1)), str(at))
            await runner.resume(line)
        runner.close()

    async def replay() -> None:
        lines = storage.log(FlowLine)
        again = FlowRunner(flow(handler._decode(lines[0].received)), encode, handler._read)  # noqa: SLF001 - as it does
        await again.replay(lines)
        again.close()

    anyio.run(record)
    began = time.process_time()
    anyio.run(replay)
    return (time.process_time() - began) * 1e3


def memory(flows: int) -> float:
    """Kilobytes of a flow that waits in memory."""
    encode, _ = encoder()
    waiting: list[Any] = []

    async def wait() -> None:
        for _ in range(flows):
            runner = FlowRunner(flow(Start(3)), encode, lambda *_: None)
            await runner.begin("0")
            waiting.append(runner)

    anyio.run(wait)
    waiting.clear()
    gc.collect()
    tracemalloc.start()
    anyio.run(wait)
    gc.collect()
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    for runner in waiting:
        runner.close()
    return taken / flows / 1e3


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=1000)
    options = parser.parse_args()
    organism = house(options.steps)
    ratios = []
    for _ in range(options.rounds):
        found = anyio.run(measure, organism, options.steps)
        ratios.append(found["flow"] / found["handler"])
    ratios.sort()
    print(f"{'':<44}{'least':>8}{'median':>8}{'most':>8}{'aim':>8}")
    record("CPU of a flow over that of a handler", ratios, HOP_AIM)
    middle = ratios[len(ratios) // 2]
    print(
        f"{'CPU of a flow over that of a handler':<44}{ratios[0]:>8.2f}{middle:>8.2f}{ratios[-1]:>8.2f}{HOP_AIM:>8}"
    )
    times = sorted(resume(options.steps) for _ in range(options.rounds))
    middle = times[len(times) // 2]
    label = f"ms to run {options.steps} steps from the log"
    print(f"{label:<44}{times[0]:>8.1f}{middle:>8.1f}{times[-1]:>8.1f}{RESUME_AIM:>8}")
    record(f"a flow of {options.steps} steps resumes, ms", times, RESUME_AIM)
    waiting = memory(IN_MEMORY)
    print(f"{'kB of a flow that waits in memory':<44}{waiting:>8.1f}{'':>16}{MEMORY_AIM:>8}")
    record("a flow that waits in memory, kB", [waiting], MEMORY_AIM)
    print(f"{'flows of a listener in memory, at most':<44}{IN_MEMORY:>8}")
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    sys.exit(main())
