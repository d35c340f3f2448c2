"""A pump with what a test wants to say to it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import anyio

from agentserver import HandlerResponse
from agentserver.assembly import SystemClock
from agentserver.engines.memory import MemoryEngine
from agentserver.pump.editions import Callee
from agentserver.pump.pump import NO_HOOKS, Pump
from agentserver.pump.records import RecordStream
from agentserver.wire.envelope import read_envelope
from tests.core.paper import Answer, Note, rules
from tests.machine import HANGS


async def answer(payload, metadata):
    return HandlerResponse.respond(Answer(f"re: {payload.text}"))


class Desk:
    """A pump with what a test wants to say to it."""

    def __init__(self, pump, shop, records):
        self.pump, self.rules, self.records = pump, shop, records

    def markup(self, payload):
        return self.rules.codecs.of(type(payload)).encode(payload).encode()

    def decode(self, reply):
        if reply is None:
            return None
        payload = read_envelope(reply.message).payload
        return self.rules.codecs.for_root(payload.tag).decode(payload)

    async def open(self):
        return await self.pump.open("console")

    async def send(self, handle, payload, to="a"):
        submitted = await handle.send(self.markup(payload), to)
        return submitted.request

    async def ask(self, payload, to="a", handle=None):
        handle = handle or await self.open()
        return self.decode(await handle.ask(self.markup(payload), to))


@asynccontextmanager
async def desk(
    *pairs, engine=None, resources=(), settings=None, payloads=(Answer, Note), people=NO_HOOKS, clock=None, guards=None,
    **limits,
):  # fmt: skip
    shop = rules(*(one for one, _ in pairs), payloads=payloads, guards=guards, **{"drain": 1.0, **limits})
    bound = {one.name: Callee(one, handler, settings) for one, handler in pairs}
    records = []
    hooks = people._replace(stream=RecordStream(records.extend))
    pump = Pump(shop, bound, engine or MemoryEngine(), clock or SystemClock(), resources, hooks)
    with anyio.fail_after(HANGS):
        async with pump:
            yield Desk(pump, shop, records)


async def wait_until(condition):
    with anyio.fail_after(HANGS):
        while not condition():  # noqa: ASYNC110 - what is awaited has no event of its own
            await asyncio.sleep(0.001)
