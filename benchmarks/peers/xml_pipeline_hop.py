"""One measurement of xml-pipeline 0.4.0, run by hop.py with the interpreter of the peers' environment.

Prints one JSON line: CPU seconds and deliveries. Two listeners hand a message of four fields to and fro: ``forward`` by
name (it stores the whole chain for each hop), ``respond`` with every second hop an answer.
"""

import asyncio
import builtins
import json
import logging
import sys
import time
import uuid
from dataclasses import dataclass

from third_party.xmlable import xmlify
from xml_pipeline.message_bus.message_state import HandlerResponse
from xml_pipeline.message_bus.stream_pump import ListenerConfig, OrganismConfig, StreamPump

WARM = 100


@xmlify
@dataclass
class Order:
    note: str
    count: int
    price: float
    urgent: bool


async def main(mode: str, hops: int) -> None:
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

    def following(order: Order) -> Order:
        return Order(order.note, order.count + 1, order.price, not order.urgent)

    async def a(order: Order, _metadata: object) -> HandlerResponse | None:
        return HandlerResponse(following(order), "b") if hit() else None

    async def b(order: Order, _metadata: object) -> HandlerResponse | None:
        if not hit():
            return None
        return (
            HandlerResponse.respond(following(order))
            if mode == "respond"
            else HandlerResponse(following(order), "a")
        )

    for name, handler in (("a", a), ("b", b)):
        pump.register_listener(
            ListenerConfig(
                name=name,
                payload_class_path="",
                handler_path="",
                description="",
                payload_class=Order,
                handler=handler,
            )
        )
    thread = str(uuid.uuid4())
    running = asyncio.create_task(pump.run())
    first = pump._wrap_in_envelope(Order("x" * 120, 1, 199.95, True), "ext", "a", thread)  # noqa: SLF001 - no public way in
    await pump.inject(first, thread_id=thread, from_id="ext")
    await stop.wait()
    running.cancel()
    say(json.dumps({"cpu": marks[1] - marks[0], "deliveries": hops}))


asyncio.run(main(sys.argv[1], int(sys.argv[2])))
