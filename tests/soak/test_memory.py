"""Finished conversations leave memory. The long form (``./run soak``) runs 100,000 of them."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

from agentserver import HandlerResponse
from agentserver.assembly import SystemClock
from agentserver.engines.memory import MemoryEngine
from agentserver.gateways.trace import TraceBook
from agentserver.pump import Bound, Pump
from tests.core.paper import Answer, Ask, Note, listener, rules

pytestmark = [pytest.mark.anyio, pytest.mark.soak]

CONVERSATIONS = 1000
GROWTH = 8 << 20
"""Bytes of resident memory that may be gained after the first fifth: allocators keep some, a leak gains far more."""


def resident():
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def ask(payload, metadata):
    return HandlerResponse(Ask("on"), "b") if isinstance(payload, Ask) else HandlerResponse.respond(payload)


async def answer(payload, metadata):
    return [HandlerResponse.respond(Answer("x" * 500)), HandlerResponse(Note("n"), "log")]


async def log(payload, metadata):
    return None


async def test_finished_conversations_leave_memory(soak_scale):
    shop = rules(listener("a", "b"), listener("b", "log"), listener("log", payloads=(Note,)))
    handlers = {"a": ask, "b": answer, "log": log}
    bound = {name: Bound(shop.blueprint.listeners[name], handler) for name, handler in handlers.items()}
    engine, trace = MemoryEngine(), TraceBook()
    message = shop.codecs.of(Ask).encode(Ask("hi")).encode()
    count = CONVERSATIONS * soak_scale
    async with Pump(shop, bound, engine, SystemClock(), (), (trace.observe,)) as pump:
        for number in range(count):
            if number == count // 5:
                early = resident()
            exchange = await pump.open("console")
            assert await exchange.ask(message, "a") is not None
            await exchange.close()
        kept = [value for value in vars(pump).values() if isinstance(value, dict)]
        # What is left by name: the listeners' own tables, and nothing that grew with the conversations.
        assert max(map(len, kept)) <= len(handlers)
        assert not engine._kept
        assert resident() - early < GROWTH


async def test_conversations_that_were_never_used_are_swept(soak_scale):
    shop = rules(listener("a"), idle=0.05)
    bound = {"a": Bound(shop.blueprint.listeners["a"], answer)}
    async with Pump(shop, bound, MemoryEngine(), SystemClock()) as pump:
        opened = [await pump.open("console") for _ in range(100 * soak_scale)]
        for exchange in opened:
            async for _ in exchange.events():
                pass
        assert all(pump.conversation(exchange.id) is None for exchange in opened)
