"""One measurement of FastStream with its broker in memory, run by ``benchmarks/peers.py`` in the peers' environment.

Prints one JSON line: CPU seconds, seconds by the clock, and deliveries. Ten subscribers that each publish to the
subject of the next; the last one ends the chain, and the next chain is published from outside.
"""

import asyncio
import json
import logging
import sys
import time

from faststream.nats import NatsBroker, TestNatsBroker
from pydantic import BaseModel

CHAIN = 10
WARM = 10


class Order(BaseModel):
    note: str
    count: int
    price: float
    urgent: bool


async def main(hops: int) -> None:
    logging.disable(logging.CRITICAL)
    broker = NatsBroker(logger=None)

    def subscribe(number: int) -> None:
        @broker.subscriber(f"step{number}")
        async def step(order: Order) -> None:
            if number + 1 < CHAIN:
                following = order.model_copy(update={"count": order.count + 1, "urgent": not order.urgent})
                await broker.publish(following, f"step{number + 1}")

    for number in range(CHAIN):
        subscribe(number)
    async with TestNatsBroker(broker) as memory:
        order = Order(note="x" * 120, count=1, price=199.95, urgent=True)
        for _ in range(WARM):
            await memory.publish(order, "step0")
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(hops // CHAIN):
            await memory.publish(order, "step0")
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    print(json.dumps({"cpu": cpu, "wall": wall, "deliveries": hops // CHAIN * CHAIN}))


asyncio.run(main(int(sys.argv[2])))
