"""What a hop costs, as ratios measured in one run.

Prints CPU microseconds per delivery and two ratios: to the floor (a bare loop of lxml: parse, validate envelope and
payload, build an envelope around the payload, serialise) and against xml-pipeline 0.4.0. Every figure comes from a
fresh process; rounds of all candidates are interleaved, and ratios are medians over rounds, because the machine may
be shared.

    ./run bench hop                  # floor and agentserver
    ./run bench hop --peers          # the same beside xml-pipeline, in an environment made for it
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
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from lxml import etree

from agentserver import HandlerMetadata, HandlerResponse, xmlify
from agentserver.assembly import SystemClock, blueprint, guards
from agentserver.config import Bound as Configured
from agentserver.config import Organism, Place, Secrets
from agentserver.core import envelope, familiar
from agentserver.core.blueprint import Limits, Listener
from agentserver.core.envelope import Bounds
from agentserver.core.guard import Rules
from agentserver.core.payload.codec import Codecs
from agentserver.engines.marks import MarkFile
from agentserver.engines.memory import MemoryEngine
from agentserver.pump import Bound, Pump

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
PEERS = HERE.parent / ".venv-peers"
WARM = 200
OUTER: Any = {None: envelope.NAMESPACE}
THREAD = "7c9e6679-7425-40de-944b-e07fc1f90ae7"


@xmlify
@dataclass(frozen=True)
class Order:
    """The message of every measurement: four fields, a text of given length among them."""

    note: str
    count: int
    price: float
    urgent: bool


@xmlify
@dataclass(frozen=True)
class Items:
    """A message of many elements."""

    item: list[str]


def following(order: Order) -> Order:
    return Order(order.note, order.count + 1, order.price, not order.urgent)


class Meter:
    """CPU time from the WARM-th delivery on, until ``hops`` more have passed."""

    def __init__(self, hops: int) -> None:
        self.hops, self.seen, self.start, self.cpu = hops, 0, 0.0, 0.0

    def hit(self) -> bool:
        """Count a delivery; False when there have been enough."""
        self.seen += 1
        if self.seen == WARM:
            self.start = time.process_time()
        if self.seen == WARM + self.hops:
            self.cpu = time.process_time() - self.start
        return self.seen < WARM + self.hops


def floor(meter: Meter, payload: Any) -> None:
    """Bare lxml, no event loop."""
    codec = Codecs([type(payload)]).of(type(payload))
    parser = etree.XMLParser(resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True)
    outer = etree.XMLSchema(etree.fromstring(envelope.SCHEMA.encode()))
    inner = etree.XMLSchema(etree.fromstring(codec.xsd().encode()))
    raw = envelope.write("a", "b", THREAD, codec.encode(payload))
    space = f"{{{envelope.NAMESPACE}}}"
    while meter.hit():
        root = etree.fromstring(raw, parser)
        if not (outer.validate(root) and inner.validate(root[-1])):
            raise ValueError("the message is valid")
        built = etree.Element(f"{space}message", nsmap=OUTER)
        for name, text in (("from", "a"), ("to", "b"), ("thread", THREAD)):
            etree.SubElement(built, space + name).text = text
        built.append(root[-1])
        raw = etree.tostring(built)


async def pump(handlers: dict[str, Any], payload: Any, talk: Callable[[Any, bytes], Any]) -> None:
    """An organism of the handlers in which everybody is everybody's peer."""
    listeners = [Listener(name, (type(payload),), "x", peers=frozenset(handlers)) for name in handlers]
    place = Place(HERE, 1)
    configured = [Configured(one, handlers[one.name], None, False, None, place) for one in listeners]
    limits = Limits(
        hops=1 << 40, messages=1 << 40, conversation_messages=1 << 40, principal_conversations=1 << 40
    )
    organism = Organism("bench", HERE, tuple(configured), limits, None, Secrets(), ())
    codecs = Codecs([type(payload)])
    known = familiar.names([envelope.SCHEMA, *(codec.xsd() for codec in codecs)])
    rules = Rules(blueprint(organism, codecs), codecs, guards(organism, codecs), Bounds(names=known))
    bound = {one.name: Bound(one, handlers[one.name]) for one in listeners}
    async with Pump(rules, bound, MemoryEngine(), SystemClock()) as running:
        await talk(running, codecs.of(type(payload)).encode(payload).encode())


def between(meter: Meter, payload: Any) -> None:
    """Two listeners, a message to and fro: every second hop is an answer."""
    stop = asyncio.Event()

    async def a(order: Any, _metadata: HandlerMetadata) -> HandlerResponse | None:
        if meter.hit():
            return HandlerResponse(following(order) if isinstance(order, Order) else order, "b")
        stop.set()
        return None

    async def b(order: Any, _metadata: HandlerMetadata) -> HandlerResponse | None:
        if meter.hit():
            return HandlerResponse.respond(following(order) if isinstance(order, Order) else order)
        stop.set()
        return None

    async def talk(running: Pump, data: bytes) -> None:
        exchange = await running.open("bench")
        await exchange.send(data, "a")
        await stop.wait()

    anyio.run(pump, {"a": a, "b": b}, payload, talk)


def outside(meter: Meter, payload: Any) -> None:
    """Bytes in through a gateway, one handler, bytes out: a request and its answer count as one delivery."""

    async def a(order: Any, _metadata: HandlerMetadata) -> HandlerResponse:
        return HandlerResponse.respond(order)

    async def talk(running: Pump, data: bytes) -> None:
        exchange = await running.open("bench")
        message = envelope.write("bench", "a", None, data.decode())
        while meter.hit():
            await exchange.ask(message)

    anyio.run(pump, {"a": a}, payload, talk)


def resident() -> int:
    """Resident memory in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def memory(count: int) -> float:
    """Bytes of resident memory per live conversation with two threads at rest."""
    grown: list[float] = []

    async def a(order: Any, _metadata: HandlerMetadata) -> HandlerResponse:
        return HandlerResponse(order, "b") if order.count == 1 else HandlerResponse.respond(order)

    async def b(order: Order, _metadata: HandlerMetadata) -> HandlerResponse:
        return HandlerResponse.respond(following(order))

    async def talk(running: Pump, data: bytes) -> None:
        kept = []
        for number in range(count + 200):
            if number == 200:
                start = resident()
            exchange = await running.open("bench")
            await exchange.ask(data, "a")
            kept.append(exchange)
        grown.append((resident() - start) / count)

    anyio.run(pump, {"a": a, "b": b}, PAYLOADS["0.4 kB"], talk)
    return grown[0]


def marking(calls: int) -> float:
    """CPU microseconds for which a call is marked beside the journal and the mark is cleared."""
    with tempfile.TemporaryDirectory() as folder:
        marks = MarkFile(Path(folder) / "journal.sqlite")
        asyncio.run(marks.begin({}, 64))
        start = time.process_time()
        for _ in range(calls):
            marks.leave(marks.enter(THREAD))
        took = time.process_time() - start
        marks.close()
    return took / calls * 1e6


PAYLOADS = {
    "0.4 kB": Order("x" * 120, 1, 199.95, urgent=True),
    "4 kB text": Order("x" * 3500, 1, 199.95, urgent=True),
    "4 kB items": Items([f"SKU-{n:05d}" for n in range(180)]),
}
OURS = {"floor": floor, "hop": between, "outside": outside}


def child(kind: str, size: str, hops: int) -> None:
    """One measurement; prints one JSON line."""
    meter = Meter(hops)
    OURS[kind](meter, PAYLOADS[size])
    print(json.dumps({"cpu": meter.cpu, "deliveries": hops}))


def measure(command: list[str]) -> float:
    """CPU microseconds per delivery of one fresh process."""
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    line = json.loads(done.stdout.strip().splitlines()[-1])
    return float(line["cpu"]) / int(line["deliveries"]) * 1e6


def peers() -> Path:
    """The interpreter of the environment that holds xml-pipeline, made if need be."""
    python = PEERS / "bin" / "python"
    if not python.exists():
        print("making", PEERS.name, "...", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(PEERS)], check=True)
        pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--require-hashes"]
        subprocess.run([*pip, "-r", str(HERE / "peers" / "requirements.lock")], check=True)
    return python


def compare(rounds: int, hops: int, size: str, peer: Path | None) -> None:
    """All candidates, round by round, and their medians."""
    own = [sys.executable, str(Path(__file__)), "--child"]
    commands = {kind: [*own, kind, size, str(hops)] for kind in OURS}
    if peer is not None and size == "0.4 kB":
        script = str(HERE / "peers" / "xml_pipeline_hop.py")
        for mode in ("respond", "forward"):
            commands[f"xml-pipeline {mode}"] = [str(peer), script, mode, str(max(500, hops // 10))]
    took: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(rounds):
        for name, command in commands.items():
            print(f"\r{size}: round {number + 1} of {rounds}, {name}      ", end="", file=sys.stderr)
            took[name].append(measure(command))
    print("\r" + " " * 60, end="\r", file=sys.stderr)
    print(f"\n{size}\n{'':24}{'us/delivery':>12}{'x floor':>10}{'hop is faster by':>18}")
    for name, values in took.items():
        ratio = statistics.median(v / f for v, f in zip(values, took["floor"], strict=True))
        faster = statistics.median(v / h for v, h in zip(values, took["hop"], strict=True))
        told = f"{faster:>17.1f}x" if name.startswith("xml-pipeline") else ""
        print(f"{name:24}{statistics.median(values):>12.1f}{ratio:>10.2f}{told}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--hops", type=int, default=5000)
    parser.add_argument("--peers", action="store_true", help="measure xml-pipeline 0.4.0 in the same run")
    parser.add_argument("--child", nargs=3, metavar=("KIND", "SIZE", "HOPS"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.child[0], args.child[1], int(args.child[2]))
        return
    peer = peers() if args.peers else None
    for size in PAYLOADS:
        compare(args.rounds, args.hops, size, peer)
    print(f"\nmarking a call: {min(marking(20_000) for _ in range(args.rounds)):.2f} us")
    print(f"memory per live conversation: {memory(2000) / 1024:.1f} kB")


if __name__ == "__main__":
    main()
