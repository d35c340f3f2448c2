"""One measurement of xml-pipeline 0.4.0, run by ``benchmarks/peers.py`` in the peers' environment.

Prints one JSON line: CPU seconds and deliveries. ``chain``: ten listeners that each hand a message of four
fields to the next; the last keeps it, and the next one comes in from outside on a thread of its own. The process ends
with the measurement.
"""

import asyncio
import builtins
import json
import logging
import sys
import time
import uuid
from dataclasses import dataclass
from typing import Any

from third_party.xmlable import xmlify
from xml_pipeline.message_bus.message_state import HandlerResponse
from xml_pipeline.message_bus.stream_pump import ListenerConfig, OrganismConfig, StreamPump

WARM = 100
CHAIN = 10


@xmlify
@dataclass
class Order:
    note: str
    count: int
    price: float
    urgent: bool


async def main(hops: int) -> None:  # noqa: C901 - one measurement, read from top to bottom
    logging.disable(logging.CRITICAL)
    say, builtins.print = builtins.print, lambda *_a, **_k: None
    pump, stop, seen, marks = StreamPump(OrganismConfig(name="bench")), asyncio.Event(), 0, []

    def hit() -> bool:
        nonlocal seen
        seen += 1
        if seen in (WARM, WARM + hops):
            marks.append(time.process_time())
        if len(marks) == 2:
            stop.set()
        return not stop.is_set()

    def next_order(order: Order) -> Order:
        return Order(order.note, order.count + 1, order.price, not order.urgent)

    def step(number: int) -> Any:
        async def handler(order: Order, _metadata: object) -> HandlerResponse | None:
            if not hit():
                return None
            if number + 1 < CHAIN:
                return HandlerResponse(next_order(order), f"step{number + 1}")
            await begin()
            return None

        return handler

    async def begin() -> None:
        thread = str(uuid.uuid4())
        first = pump._wrap_in_envelope(Order("x" * 120, 1, 199.95, True), "ext", "step0", thread)  # noqa: SLF001 - no public way in
        await pump.inject(first, thread_id=thread, from_id="ext")

    for number in range(CHAIN):
        pump.register_listener(
            ListenerConfig(
                name=f"step{number}",
                payload_class_path="",
                handler_path="",
                description="",
                payload_class=Order,
                handler=step(number),
            )
        )
    running = asyncio.create_task(pump.run())
    await begin()
    await stop.wait()
    running.cancel()
    say(json.dumps({"cpu": marks[1] - marks[0], "deliveries": hops}))


asyncio.run(main(int(sys.argv[2])))
