"""Of an exclusive listener one invocation runs at a time in the whole organism; a plain limit is of each process."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from agentserver import HandlerResponse
from agentserver.core.blueprint import Listener
from agentserver.engines.memory import MemoryEngine
from agentserver.ports import EngineError
from agentserver.pump import schedule
from tests.core.paper import Answer, Note
from tests.pump.desk import desk
from tests.pump.pair import pair

pytestmark = pytest.mark.anyio

ALONE = Listener("a", (Note,), "answers", concurrency=1, exclusive=True)
PLAIN = replace(ALONE, exclusive=False)


class ConcurrencyCount:
    """A handler that knows how many of it run at once, and how many did."""

    def __init__(self):
        self.now = self.most = self.done = 0

    async def __call__(self, payload, metadata):
        self.now += 1
        self.most = max(self.most, self.now)
        for _ in range(20):
            await asyncio.sleep(0)
        self.now -= 1
        self.done += 1
        return HandlerResponse.respond(Answer(f"re: {payload.text}"))


def handler(counting):
    async def handle(payload, metadata):
        return await counting(payload, metadata)

    return handle


async def ask_all(*desks, each=5):
    asked = [desk.ask(Note(str(number))) for desk in desks for number in range(each)]
    assert sorted([one.text for one in await asyncio.gather(*asked)]) == sorted(
        [f"re: {number}" for number in range(each)] * len(desks)
    )


async def test_one_runs_at_a_time_at_all_processes_together():
    counting = ConcurrencyCount()
    async with pair((ALONE, handler(counting))) as two:
        await ask_all(two.a, two.b)
    assert (counting.most, counting.done) == (1, 10)


async def test_a_plain_limit_is_of_each_process():
    counting = ConcurrencyCount()
    async with pair((PLAIN, handler(counting))) as two:
        await ask_all(two.a, two.b)
    assert (counting.most, counting.done) == (2, 10)


async def test_on_one_process_it_is_a_limit_of_one():
    counting = ConcurrencyCount()
    async with desk((ALONE, handler(counting))) as one:
        await ask_all(one)
    assert (counting.most, counting.done) == (1, 5)


async def test_a_listener_that_others_wait_for_holds_no_other_up():
    free, began = asyncio.Event(), asyncio.Event()

    async def holds(payload, metadata):
        began.set()
        await free.wait()
        return HandlerResponse.respond(Answer("held"))

    async def quick(payload, metadata):
        return HandlerResponse.respond(Answer("quick"))

    listeners = (ALONE, {"a": holds, "b": quick}), (Listener("b", (Note,), "answers"), quick)
    async with pair(*listeners, concurrency=1) as two:
        first = asyncio.ensure_future(two.a.ask(Note("1")))
        await began.wait()
        second = asyncio.ensure_future(two.b.ask(Note("2")))
        assert (await two.b.ask(Note("3"), to="b")).text == "quick"
        assert not second.done()
        free.set()
        assert [(await one).text for one in (first, second)] == ["held", "quick"]


async def test_a_process_presumed_dead_blocks_no_other():
    began = asyncio.Event()

    async def holds(payload, metadata):
        began.set()
        await asyncio.Event().wait()

    async def quick(payload, metadata):
        return HandlerResponse.respond(Answer("quick"))

    async with pair((ALONE, {"a": holds, "b": quick}), drain=0.01) as two:
        asking = asyncio.ensure_future((await two.a.open()).send(two.a.markup(Note("1")), "a"))
        await began.wait()
        await asking
        second = asyncio.ensure_future(two.b.ask(Note("2")))
        await two.stop("a")
        assert (await second).text == "quick"


async def test_a_token_that_cannot_be_had_is_asked_for_again(monkeypatch):
    monkeypatch.setattr(schedule, "BACKOFF", 0.001)
    failures = []

    class FailingEngine(MemoryEngine):
        @asynccontextmanager
        async def exclusive(self, name):
            if len(failures) < 3:
                failures.append(name)
                raise EngineError("away")
            yield

    counting = ConcurrencyCount()
    async with desk((ALONE, handler(counting)), engine=FailingEngine()) as one:
        await ask_all(one)
    assert (counting.most, failures) == (1, ["a"] * 3)
