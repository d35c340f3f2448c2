"""A server with a flow that sleeps a day: it begins one and waits to be killed, or runs two days later."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from agentserver import xmlify
from agentserver.assembly import build
from agentserver.config.keys.models import Journal
from agentserver.flow import sleep
from agentserver.testing import FakeClock, listener, organism_of

FOLDER = Path(sys.argv[1])
NOW = 1_000_000_000.0
LATER = NOW + 2 * 86_400


@xmlify
@dataclass(frozen=True)
class Go:
    number: int


@dataclass(frozen=True)
class Woke:
    text: str


async def flow(go: Go) -> Woke:
    await sleep(timedelta(days=1))
    with (FOLDER / "log").open("a") as log:
        log.write("woke\n")
    return Woke("done")


MADE = replace(organism_of(listener("flow", flow)), project=FOLDER, journal=Journal())


async def main(begins):
    async with build(MADE, clock=FakeClock(NOW if begins else LATER), durable=True) as server:
        if begins:
            handle = await server.open("ada")
            await handle.send(server.rules.codecs.of(Go).encode(Go(1)).encode(), "flow")
        await server.settle_timers()
        sys.stdout.write("sleeping\n" if begins else "settled\n")
        sys.stdout.flush()
        if begins:
            await asyncio.sleep(60)


asyncio.run(main(sys.argv[2] == "begin"))
