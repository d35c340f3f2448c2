"""One measurement of autogen-core 0.7.5, run by ``benchmarks/peers.py`` in the peers' environment.

Prints one JSON line: CPU seconds and deliveries. ``chain``: ten agents that each publish to the topic of the
next.
"""

import asyncio
import json
import logging
import sys
import time
from dataclasses import dataclass, replace

from autogen_core import (
    MessageContext,
    RoutedAgent,
    SingleThreadedAgentRuntime,
    TopicId,
    TypeSubscription,
    message_handler,
)

WARM = 100
CHAIN = 10


@dataclass
class Order:
    note: str
    count: int
    price: float
    urgent: bool


async def main(hops: int) -> None:
    logging.disable(logging.CRITICAL)
    runtime, stop, seen, marks = SingleThreadedAgentRuntime(), asyncio.Event(), 0, []

    def hit() -> None:
        nonlocal seen
        seen += 1
        if seen in (WARM, WARM + hops):
            marks.append(time.process_time())
        if len(marks) == 2:
            stop.set()

    class Step(RoutedAgent):
        def __init__(self, number: int) -> None:
            super().__init__("a step of the chain")
            self.following = TopicId(f"topic{(number + 1) % CHAIN}", "default")

        @message_handler
        async def on_order(self, message: Order, ctx: MessageContext) -> None:  # noqa: ARG002 - its signature
            hit()
            if not stop.is_set():
                await self.publish_message(
                    replace(message, count=message.count + 1, urgent=not message.urgent), self.following
                )

    for number in range(CHAIN):
        await Step.register(runtime, f"step{number}", lambda number=number: Step(number))
        await runtime.add_subscription(TypeSubscription(f"topic{number}", f"step{number}"))
    runtime.start()
    await runtime.publish_message(Order("x" * 120, 1, 199.95, True), TopicId("topic0", "default"))
    await stop.wait()
    print(json.dumps({"cpu": marks[1] - marks[0], "deliveries": hops}))


asyncio.run(main(int(sys.argv[2])))
