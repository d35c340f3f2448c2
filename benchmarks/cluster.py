"""What the cluster costs: the broker alone, then servers on it, against SQLite in the same run.

The first table needs the broker only. A commit is one message that the broker refuses once anybody else has claimed
the partition, so each publishes with that expectation; several entries that wait for one partition go as one message.

    ./run bench cluster            # every table
    ./run bench cluster --quick    # each just long enough to show that it works
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import nats
from nats.js.api import StreamConfig
from nats.js.errors import BadRequestError

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.brokers import Brokers  # noqa: E402 - the launcher stands once, beside the tests

if TYPE_CHECKING:
    from nats.js import JetStreamContext

ENTRY = b"x" * 600
"""About what one hop of a short message is, as it is kept."""
FLIGHTS = (1, 16, 64)
GATHERED = (1, 4, 16)
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
        except BadRequestError as error:
            if error.err_code != NOT_COMPARED:
                raise
            continue
        count += gathered
    return count


async def commits(url: str, replicas: int, flight: int, gathered: int, seconds: float) -> float:
    """Entries per second with so many partitions that each have one message in flight."""
    client = await nats.connect(url.split(","))
    js = client.jetstream(timeout=20)
    await js.add_stream(
        StreamConfig(name="BENCH", subjects=["bench.>"], num_replicas=replicas, allow_direct=True)
    )
    try:
        claims = [(await js.publish(f"bench.own.{n}", b"me")).seq for n in range(flight)]
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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one short measurement of each kind")
    args = parser.parse_args()
    if args.quick:
        asyncio.run(broker_alone(0.3, (16,), (1, 16)))
    else:
        asyncio.run(broker_alone(2.0, FLIGHTS, GATHERED))


if __name__ == "__main__":
    main()
