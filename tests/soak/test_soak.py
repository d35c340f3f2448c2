"""Memory stays flat however many conversations there have been, whatever became of them.

Each test runs rounds that are alike and compares what lives after an early round with what lives after the last. The
short form runs with all the other tests; ``--soak-scale 100`` makes 100,000 conversations of a round's 1,000.
"""

from __future__ import annotations

import asyncio
import gc
import os
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from agentserver import HandlerResponse, invocation
from agentserver.assembly import SystemClock
from agentserver.engines.memory import MemoryEngine
from agentserver.pump.editions import Callee
from agentserver.pump.pump import Pump, PumpHooks
from agentserver.pump.records import RecordStream
from agentserver.trace.store import TraceBook
from tests.core.paper import Answer, Ask, Note, listener, rules
from tests.pump.desk import wait_until

pytestmark = [pytest.mark.anyio, pytest.mark.soak]
respond = HandlerResponse.respond

OBJECTS = 500
"""Objects by which two rounds may differ: caches of the interpreter and of libraries settle late."""

RESIDENT = 16 << 20
"""Bytes of resident memory by which the process may have grown between two rounds."""


async def answer_text(payload, metadata):
    invocation().storage.set(Note(payload.text))
    return respond(Answer(f"re: {payload.text}"))


async def ask_b(payload, metadata):
    return HandlerResponse(payload, "b") if isinstance(payload, Ask) else respond(payload)


async def raise_again(payload, metadata):
    raise ValueError("again")


async def endless(payload, metadata):
    await anyio.sleep_forever()


async def send_loop(payload, metadata):
    return [HandlerResponse(Ask("x"), "loop")] * 3


class Room:
    """A pump, and the sizes of everything in which it could forget something."""

    def __init__(self, pump, engine, trace, shop):
        self.pump, self.engine, self.trace = pump, engine, trace
        self.data = shop.codecs.of(Ask).encode(Ask("hello")).encode()

    def sizes(self):
        pump = self.pump
        return {
            "live": len(pump._live),
            "locks": len(pump._steps.lock.inside),
            "handles": len(pump._handles.handles),
            "delivered": len(pump._handles._delivered),
            "outbox": len(self.engine._events.queued),
            "parsed": len(pump._parsed),
            "pending": pump._accounts.pending,
            "running": len(pump._invoker._calls),
            "waiting": len(pump._queue._ready) + sum(map(len, pump._schedule._parked.values())),
            "tasks": len(asyncio.all_tasks()),
            "kept": len(self.engine._conversations),
        }

    async def open(self):
        return await self.pump.open("console")


@asynccontextmanager
async def room(**limits):
    handlers = {"a": ask_b, "b": answer_text, "crash": raise_again, "endless": endless, "loop": send_loop}
    listeners = [
        listener("a", "b"),
        listener("b"),
        listener("crash"),
        listener("endless", concurrency=4096),
        listener("loop", "loop"),
    ]
    shop = rules(*listeners, **{"concurrency": 64, "drain": 0.0, "messages": 1 << 30, **limits})
    engine, trace = MemoryEngine(), TraceBook()
    bound = {one.name: Callee(one, handlers[one.name]) for one in listeners}
    async with Pump(shop, bound, engine, SystemClock(), (), PumpHooks(RecordStream(trace))) as pump:
        yield Room(pump, engine, trace, shop)


def count_objects():
    # asyncio keeps some hundred cancelled timers with their callbacks, until there are more.
    loop = asyncio.get_running_loop()
    loop._scheduled = [handle for handle in sorted(loop._scheduled) if not handle.cancelled()]
    loop._timer_cancelled_count = 0
    gc.collect()
    return len(gc.get_objects())


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


CLOSED = 300
"""Conversations after which the engine knows as many closed ones as it ever does."""


async def flat(r, once, count, settled):
    """Run ``once`` until what lives has settled, and ``count`` times more."""
    for _ in range(settled):
        await once()
    sizes, objects, memory = r.sizes(), count_objects(), resident()
    for _ in range(count):
        await once()
    await wait_until(lambda: r.sizes() == sizes)
    assert count_objects() - objects < OBJECTS
    assert resident() - memory < RESIDENT


async def test_conversations_that_ask_and_close(soak_scale):
    async with room() as r:

        async def once():
            handle = await r.open()
            assert (await handle.ask(r.data, "a")) is not None
            await handle.close()

        await flat(r, once, 1000 * soak_scale, settled=CLOSED)


async def test_conversations_that_are_refused_crash_or_overrun(soak_scale, caplog):
    caplog.set_level("CRITICAL", "agentserver")
    async with room(messages=7) as r:

        async def once():
            handle = await r.open()
            for name in ("nobody", "crash", "loop"):
                assert (await handle.ask(r.data, name)).error
            await handle.close()

        await flat(r, once, 150 * soak_scale, settled=CLOSED)


async def test_conversations_that_close_while_handlers_run(soak_scale):
    async with room() as r:

        async def once():
            handle = await r.open()
            await handle.send(r.data, "endless")
            await handle.send(r.data, "a")
            await asyncio.sleep(0)
            await handle.close()
            await asyncio.sleep(0)

        await flat(r, once, 500 * soak_scale, settled=CLOSED)


async def test_one_conversation_with_many_requests(soak_scale):
    async with room() as r:
        handle = await r.open()

        async def watch():
            async for _ in handle.events():
                pass

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)

            async def once():
                assert (await handle.ask(r.data, "a")) is not None
                await handle.send(r.data, "b")
                await wait_until(lambda: r.pump._accounts.pending == 0)

            # Settled is what fills the trace of one conversation.
            await flat(r, once, 300 * soak_scale, settled=600)
            assert len(r.pump.conversation(handle.id).tree.nodes) == 3
            await handle.close()


async def test_conversations_that_are_dropped_without_a_word(soak_scale):
    """Opened and never used, used and never closed, given up half-way: the idle limit takes them all."""
    async with room(idle=0.05) as r:

        async def once():
            for _ in range(50):
                await r.open()
                await (await r.open()).ask(r.data, "a")
                with anyio.move_on_after(0):
                    await (await r.open()).ask(r.data, "a")
            await wait_until(lambda: not r.pump._live)

        await flat(r, once, 4 * soak_scale, settled=2)
