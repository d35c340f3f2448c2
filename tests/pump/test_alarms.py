"""Delayed messages while the pump runs, stops and starts again."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import anyio
import pytest

from agentserver import HandlerResponse, invocation
from agentserver.core.records.audit import Event
from agentserver.engines.memory import MemoryEngine
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions
from agentserver.testing import FakeClock
from tests.core.paper import Answer, Ask, listener
from tests.pump.desk import answer, desk, wait_until

pytestmark = pytest.mark.anyio

DAY = 86_400.0


@pytest.fixture(params=["memory", "sqlite"])
def engine(request, tmp_path):
    """Makes an engine on the same storage, again for each server."""
    if request.param == "memory":
        kept = MemoryEngine()
        return lambda: kept
    return lambda: SqliteEngine(JournalOptions(tmp_path / "journal.sqlite"))


class Shop:
    """``a`` sends its input to ``sink`` some days later, and answers with the reply."""

    def __init__(self, engine):
        self.engine, self.clock, self.seen = engine, FakeClock(), []

    async def a(self, payload, metadata):
        if isinstance(payload, Ask):
            days = timedelta(days=int(payload.text))
            invocation().later(HandlerResponse(payload, "sink"), after=days)
            return None
        return HandlerResponse.respond(Answer(f"told: {payload.text}"))

    async def sink(self, payload, metadata):
        self.seen.append(payload.text)
        return await answer(payload, metadata)


class RunningShop:
    """A server on the engine of a shop."""

    def __init__(self, shop):
        self.shop = shop

    async def __aenter__(self):
        listeners = (listener("a", "sink"), self.shop.a), (listener("sink"), self.shop.sink)
        self.engine = self.shop.engine()
        await self.engine.__aenter__()
        self.desk = desk(*listeners, engine=self.engine, clock=self.shop.clock)
        return await self.desk.__aenter__()

    async def __aexit__(self, *error):
        await self.desk.__aexit__(*error)
        await self.engine.__aexit__(*error)


async def pass_time(d, clock, seconds):
    await d.pump.settle_timers()
    clock.advance(seconds)
    await d.pump.settle_timers()


async def test_a_message_is_sent_when_its_time_has_come(engine):
    shop = Shop(engine)
    async with RunningShop(shop) as d:
        handle = await d.open()
        await d.send(handle, Ask("3"))
        await pass_time(d, shop.clock, 2 * DAY)
        assert shop.seen == []
        await pass_time(d, shop.clock, DAY)
        assert shop.seen == ["3"]
        await wait_until(lambda: [r.to for r in d.records if r.event is Event.ANSWERED] == ["console"])


async def test_overdue_messages_are_sent_once_and_in_their_order_after_a_stop(engine):
    shop = Shop(engine)
    days = ["5", "1", "4", "2", "3"]
    async with RunningShop(shop) as d:
        for text in days:
            await d.send(await d.open(), Ask(text))
        await d.pump.settle_timers()
    shop.clock.advance(10 * DAY)
    for _ in range(2):
        async with RunningShop(shop) as d:
            await d.pump.settle_timers()
    assert shop.seen == sorted(days)


async def test_a_clock_that_jumps_sends_nothing_twice(engine):
    shop = Shop(engine)
    async with RunningShop(shop) as d:
        await d.send(await d.open(), Ask("3"))
        await d.pump.settle_timers()
        for jump in (4 * DAY, -30 * DAY, 60 * DAY):
            shop.clock.jump(jump)
            await d.pump.settle_timers()
    assert shop.seen == ["3"]


async def test_a_stopping_server_does_not_wait_for_delayed_messages(engine):
    shop = Shop(engine)
    async with RunningShop(shop) as d:
        await d.send(await d.open(), Ask("3"))
        await d.pump.settle_timers()
        began = anyio.current_time()
    assert anyio.current_time() - began < 0.9, "the drain took no notice of it"


async def test_a_sleeping_conversation_leaves_memory_and_comes_back(tmp_path):
    shop = Shop(lambda: SqliteEngine(JournalOptions(tmp_path / "journal.sqlite")))
    async with RunningShop(shop) as d:
        handle = await d.open()
        await d.send(handle, Ask("3"))
        await d.pump.settle_timers()
        assert d.pump.conversation(handle.id) is not None
        d.pump.releasing.idle_time = 0.0
        for _ in range(2):
            await d.pump.releasing.release()
        assert d.pump.conversation(handle.id) is None
        assert not d.pump.alarms.due_times
        await d.ask(Ask("x"), "sink", handle)
        await pass_time(d, shop.clock, 3 * DAY)
        assert shop.seen == ["x", "3"]


async def test_who_asks_during_a_look_waits_for_the_next():
    class Slow(MemoryEngine):
        """Lists sleeping conversations when a test says so."""

        looks, permits = 0, asyncio.Semaphore(0)

        async def list_sleeping(self, limit):
            self.looks += 1
            await self.permits.acquire()
            return await super().list_sleeping(limit)

    engine = Slow()
    async with desk((listener("a"), answer), engine=engine) as d:
        await wait_until(lambda: engine.looks == 1)
        settling = asyncio.create_task(d.pump.alarms.settle())
        await asyncio.sleep(0)
        engine.permits.release()
        await wait_until(lambda: engine.looks == 2)
        assert not settling.done()
        engine.permits.release()
        await settling
        assert engine.looks == 2


async def test_a_sleeping_conversation_is_not_idle(engine):
    shop = Shop(engine)
    async with RunningShop(shop) as d:
        await d.send(await d.open(), Ask("3"))
        await d.pump.settle_timers()
        shop.clock.advance(2 * DAY)
        idle = [key async for key in d.pump._engine.idle(shop.clock.now)]
        assert idle == []


async def test_many_messages_of_one_conversation_come_in_their_order(engine):
    shop = Shop(engine)
    async with RunningShop(shop) as d:
        handle = await d.open()
        for text in ("3", "1", "2"):
            await d.send(handle, Ask(text))
        await pass_time(d, shop.clock, 5 * DAY)
        assert shop.seen == ["1", "2", "3"]
