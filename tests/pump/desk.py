"""A pump with what a test wants to say to it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import anyio

from agentserver import HandlerResponse
from agentserver.assembly import SystemClock
from agentserver.engines.memory import MemoryEngine
from agentserver.ports import EngineError
from agentserver.pump.editions import Callee
from agentserver.pump.pump import NO_HOOKS, Pump
from agentserver.pump.records import RecordStream
from agentserver.wire.envelope import read_envelope
from tests.core.paper import Answer, Ask, Note, rules
from tests.machine import HANGS


async def answer(payload, metadata):
    return HandlerResponse.respond(Answer(f"re: {payload.text}"))


async def hang_forever(payload, metadata):
    await anyio.sleep_forever()


async def pass_to_sink(payload, metadata):
    """Send what comes from outside to the sink, and tell what comes back."""
    if isinstance(payload, Ask):
        return HandlerResponse(payload, "sink")
    return HandlerResponse.respond(Answer(f"told: {getattr(payload, 'text', None) or payload.code}"))


class Person:
    """Is shown what waits for an approval."""

    def __init__(self):
        self.shown = []

    def show(self, approval):
        self.shown.append(approval)


class FullEngine(MemoryEngine):
    """Stores nothing while it is full."""

    full = False

    async def commit(self, claim, outcome):
        if self.full:
            raise EngineError("no space left")
        await super().commit(claim, outcome)


class GatedEngine(MemoryEngine):
    """Stores its input, and reports it while the gate is open."""

    prompt = False

    def __init__(self):
        super().__init__()
        self.gate, self.committing = anyio.Event(), anyio.Event()
        self.gate.set()

    def shut(self):
        """Hold the reports of the commits that come."""
        self.gate, self.committing = anyio.Event(), anyio.Event()

    async def commit(self, claim, outcome):
        await super().commit(claim, outcome)
        self.committing.set()
        await self.gate.wait()


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
