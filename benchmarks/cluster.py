"""What the cluster costs: the broker alone, then servers on it, against SQLite in the same run.

The first table needs the broker only. A commit is one message that the broker refuses once anybody else has claimed
the partition, so each publishes with that expectation; several entries that wait for one partition go as one message.

    ./run bench cluster            # every table
    ./run bench cluster --quick    # each just long enough to show that it works
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import durable
import nats
from nats.js.api import StreamConfig
from nats.js.errors import BadRequestError, NoStreamResponseError

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from agentserver import HandlerResponse  # noqa: E402
from agentserver.assembly import SystemClock  # noqa: E402
from agentserver.broker.address import BrokerAddress  # noqa: E402
from agentserver.engines.nats.log import LogOptions, NatsLog  # noqa: E402
from agentserver.engines.replica.engine import ReplicaEngine  # noqa: E402
from agentserver.pump import Pump  # noqa: E402
from tests.brokers import Broker, Brokers, Gate  # noqa: E402 - the launcher stands once, beside the tests

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from nats.js import JetStreamContext

ENTRY = b"x" * 600
"""About what one hop of a short message is, as it is kept."""
FLIGHTS = (1, 16, 64)
GATHERED = (1, 4, 16)
TICKS = os.sysconf("SC_CLK_TCK")
NOT_COMPARED = 10164
"""What three copies answer while the message before it, though acknowledged, is not yet off the leader's hands."""


async def publishing(js: JetStreamContext, partition: int, claimed: int, gathered: int, until: float) -> int:
    """Commit as an owner does, one message after the other; gives how many entries."""
    subject, body, count = f"bench.step.{partition}", ENTRY * gathered, 0
    expected = {
        "Nats-Expected-Last-Subject-Sequence": str(claimed),
        "Nats-Expected-Last-Subject-Sequence-Subject": f"bench.own.{partition}",
    }
    while time.perf_counter() < until:
        try:
            await js.publish(subject, body, headers=dict(expected))
        except (TimeoutError, NoStreamResponseError):  # the nodes choose another leader: it is sent again
            continue
        except BadRequestError as error:
            if error.err_code != NOT_COMPARED:
                raise
            continue
        count += gathered
    return count


async def claimed(js: JetStreamContext, subject: str) -> int:
    """Claim a partition; a stream is said to be made before every node knows who leads it."""
    while True:
        try:
            return (await js.publish(subject, b"me")).seq
        except NoStreamResponseError:
            await asyncio.sleep(0.05)


async def commits(url: str, replicas: int, flight: int, gathered: int, seconds: float) -> float:
    """Entries per second with so many partitions that each have one message in flight."""
    client = await nats.connect(url.split(","))
    js = client.jetstream(timeout=20)
    await js.add_stream(
        StreamConfig(name="BENCH", subjects=["bench.>"], num_replicas=replicas, allow_direct=True)
    )
    try:
        claims = [await claimed(js, f"bench.own.{n}") for n in range(flight)]
        start = time.perf_counter()
        done = await asyncio.gather(
            *(publishing(js, n, claim, gathered, start + seconds) for n, claim in enumerate(claims))
        )
        return sum(done) / (time.perf_counter() - start)
    finally:
        await js.delete_stream("BENCH")
        await client.close()


async def broker_alone(seconds: float, flights: tuple[int, ...], gathers: tuple[int, ...]) -> None:
    print(f"the broker alone, syncing always, entries of {len(ENTRY)} bytes: entries per second")
    print(f"{'copies':>6} {'in flight':>10}", *(f"{f'{g} a message':>14}" for g in gathers))
    for replicas in (1, 3):
        with tempfile.TemporaryDirectory(dir=None) as folder:
            async with Brokers(Path(folder), replicas) as brokers:
                for flight in flights:
                    rates = [await commits(brokers.url, replicas, flight, g, seconds) for g in gathers]
                    print(f"{replicas:>6} {flight:>10}", *(f"{rate:>14.0f}" for rate in rates), flush=True)


# --- servers ---------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def engine_of(url: str, folder: Path) -> AsyncIterator[Any]:
    """The engine over the broker, or SQLite where there is no URL."""
    if url:
        log = NatsLog(LogOptions("bench", BrokerAddress(url, replicas=3), relaxed=True))
        async with ReplicaEngine(log, folder, "bench") as engine:
            yield engine
        return
    async with durable.engine_of("sqlite", folder / "journal.sqlite") as engine:
        yield engine


async def passed(meter: durable.Meter, hops: int) -> None:
    """Wait until more hops have passed than these."""
    while meter.hops <= hops:  # noqa: ASYNC110 - its event is set by one number of hops
        await asyncio.sleep(0.01)


async def serve(url: str, folder: Path, flight: int, seconds: float) -> None:
    """One server: says when it has what it may have, works when it is told to, and tells what that came to."""
    meter = durable.Meter()

    def passing(other: str) -> Any:
        async def handle(order: durable.Order, _: Any) -> HandlerResponse:
            meter.hit()
            if other == "respond":
                return HandlerResponse.respond(order)
            return HandlerResponse(order, other)

        return handle

    rules, bound = durable.organism({"a": passing("b"), "b": passing("respond")})
    data = rules.codecs.of(durable.Order).encode(durable.Order(durable.TEXT, 1, 1.5, urgent=True)).encode()
    async with engine_of(url, folder) as engine, Pump(rules, bound, engine, SystemClock()) as pump:
        print("open", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        for _ in range(flight):
            await (await pump.open("bench")).send(data, "a")
        if flight:  # on a busy machine the first may take its time
            await passed(meter, 0)
        await asyncio.sleep(seconds / 4)
        hops, wall, cpu = meter.hops, time.perf_counter(), time.process_time()
        await asyncio.sleep(seconds)
        if flight:
            await passed(meter, hops)
        told = {
            "hops": meter.hops - hops,
            "seconds": time.perf_counter() - wall,
            "cpu": time.process_time() - cpu,
        }
        print(json.dumps(told), flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        os._exit(0)  # a row of calls that never ends is not drained


@dataclass(frozen=True)
class Measured:
    """What so many servers did in one time.

    Args:
        rate: hops per second of all of them.
        deciding: microseconds of CPU of a server's process for each hop that it decided itself.
        following: for each hop that others decided.
        broking: of all brokers, for each hop.
        there: bytes to the broker for each hop.
        back: bytes from the broker for each hop and server.
    """

    rate: float
    deciding: float
    following: float
    broking: float
    there: float
    back: float


async def measured(
    url: str, loads: Sequence[int], seconds: float, brokers: Brokers | None = None
) -> Measured:
    """Run servers, of which each has so many conversations at work."""
    async with AsyncExitStack() as stack:
        gates = (
            [await stack.enter_async_context(Gate(node.port)) for node in brokers.nodes] if brokers else []
        )
        through = ",".join(gate.url for gate in gates) or url
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR"))))
        children = [
            await Child.begun(through, folder / str(n), load, seconds) for n, load in enumerate(loads)
        ]
        for child in children:
            stack.callback(child.end)
        await asyncio.gather(*(child.says() for child in children))
        if url:
            await asyncio.sleep(3)  # until the servers have shared the partitions among them
        for child in children:
            child.go_on()
        await asyncio.sleep(seconds / 4)
        before, busy = [(gate.bytes_there, gate.bytes_back) for gate in gates], cpu_of(brokers)
        told = [json.loads(text) for text in await asyncio.gather(*(child.says() for child in children))]
        busy = cpu_of(brokers) - busy
        there = sum(gate.bytes_there - one[0] for gate, one in zip(gates, before, strict=True))
        back = sum(gate.bytes_back - one[1] for gate, one in zip(gates, before, strict=True))
        hops = sum(one["hops"] for one in told)
        idle = [one["cpu"] for one, load in zip(told, loads, strict=True) if not load]
        busiest = max(told, key=lambda one: int(one["hops"]))
        return Measured(
            sum(one["hops"] / one["seconds"] for one in told),
            busiest["cpu"] / busiest["hops"] * 1e6,
            sum(idle) / max(1, len(idle)) / hops * 1e6,
            busy / hops * 1e6,
            there / hops,
            back / hops / len(loads),
        )


class Child:
    """A server's process.

    Args:
        process: which says a line at a time, and goes on when it is given one.
        log: the file of its log.
    """

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self.process, self.log = process, log

    @classmethod
    async def begun(cls, url: str, folder: Path, load: int, seconds: float) -> Child:
        """Start one."""
        await asyncio.to_thread(folder.mkdir)
        with (folder / "log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable, __file__, "--child", url, str(folder), str(load), str(seconds),
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=log,
            )  # fmt: skip
        return cls(process, folder / "log")

    async def says(self) -> str:
        """The line that it says next. Raises RuntimeError with the end of its log when it has ended."""
        assert self.process.stdout is not None
        text = (await self.process.stdout.readline()).decode()
        if not text:
            raise RuntimeError(f"a server has ended:\n{self.log.read_text()[-3000:]}")
        return text

    def go_on(self) -> None:
        """Let it go on."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")

    def end(self) -> None:
        """End it."""
        if self.process.returncode is None:
            self.process.kill()


def cpu_of(brokers: Brokers | None) -> float:
    """Seconds of CPU that the brokers have had."""
    return (
        sum(
            sum(map(int, Path(f"/proc/{node.pid}/stat").read_text().split()[13:15]))
            for node in nodes_of(brokers)
        )
        / TICKS
    )


def nodes_of(brokers: Brokers | None) -> Sequence[Broker]:
    """Its nodes; none without one."""
    return brokers.nodes if brokers else ()


async def servers(seconds: float, flights: Sequence[int], numbers: Sequence[int]) -> None:
    print("\nhops per second, three brokers with three copies, syncing always, against SQLite (sync: full)")
    print("servers  conversations      hops/s  of SQLite  us decide  us follow  us broker  B there   B back")
    for flight in flights:
        alone = await measured("", [flight], seconds)
        row("SQLite", flight, alone, alone)
        for number in numbers:
            with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as folder:
                async with Brokers(Path(folder)) as brokers:
                    row(
                        str(number),
                        flight,
                        await measured(brokers.url, [flight] * number, seconds, brokers),
                        alone,
                    )
    if len(flights) == 1:
        return
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as folder:
        async with Brokers(Path(folder)) as brokers:
            loads = [max(flights), 0]
            row("1 and 1 idle", loads[0], await measured(brokers.url, loads, seconds, brokers), alone)


def row(name: str, flight: int, one: Measured, alone: Measured) -> None:
    print(
        f"{name:>12} {flight:>9} {one.rate:>11.0f} {one.rate / alone.rate:>10.2f} {one.deciding:>10.0f}"
        f" {one.following:>10.0f} {one.broking:>10.0f} {one.there:>8.0f} {one.back:>8.0f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one short measurement of each kind")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        url, folder, flight, seconds = args.child
        asyncio.run(serve(url, Path(folder), int(flight), float(seconds)))
    elif args.quick:
        asyncio.run(broker_alone(0.3, (16,), (1, 16)))
        asyncio.run(servers(0.5, (16,), (1,)))
    else:
        asyncio.run(broker_alone(2.0, FLIGHTS, GATHERED))
        asyncio.run(servers(4.0, (1, 16, 64), (1, 2, 3)))


if __name__ == "__main__":
    main()
