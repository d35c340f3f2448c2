"""A handler that does not keep its deadline keeps nobody else waiting, whatever it does about being cancelled."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from agentserver import HandlerResponse, invocation
from agentserver.core.records.audit import Event
from agentserver.core.records.wording import WORDING
from agentserver.engines.memory import MemoryEngine
from agentserver.pump.invoke import Deadlines
from tests.core.paper import Answer, Ask, Note, listener
from tests.machine import HANGS
from tests.pump.desk import answer, desk, wait_until

pytestmark = pytest.mark.anyio
respond = HandlerResponse.respond


class Stubborn:
    """Swallows every cancellation until it is released; records its invocation afterwards."""

    def __init__(self):
        self.released = asyncio.Event()
        self.running = 0
        self.found = []

    async def __call__(self, payload, metadata):
        call = invocation()
        self.running += 1
        while not self.released.is_set():
            try:
                await self.released.wait()
            except asyncio.CancelledError:
                continue
        self.running -= 1
        call.storage.set(Note("too late"))
        self.found.append(invocation() is call)
        return respond(Answer("too late"))


def stubborn():
    holding = Stubborn()

    async def handler(payload, metadata):
        return await holding(payload, metadata)

    return holding, handler


async def answer_late(d, payload, handle=None):
    """Return the answer to a message whose handler runs past its deadline, however quick the machine is."""
    answers = []

    async def ask():
        answers.append(await d.ask(payload, handle=handle))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await wait_until(lambda: d.pump._invoker._calls)
        (call,) = d.pump._invoker._calls.values()
        call.expire()
    return answers[0]


async def test_a_handler_that_swallows_its_cancellation_is_abandoned_and_its_worker_continues(caplog):
    holding, handler = stubborn()
    slow = listener("a", deadline=0.01)
    async with desk((slow, handler), (listener("b"), answer), concurrency=1, grace=0.01) as d:
        assert (await d.ask(Ask("x"))).code == "timeout"
        assert await d.ask(Ask("hi"), to="b") == Answer("re: hi")
        assert holding.running == 1
        assert "a did not end within 0.01 s of being cancelled and is abandoned; 1 of its" in caplog.text
        holding.released.set()
        await wait_until(lambda: not d.pump._invoker._abandoned["a"])
    assert [WORDING.join_lines(r.detail) for r in d.records if r.event is Event.FAILED] == [
        "no result within 0.01 s"
    ]


async def test_results_and_storage_of_an_abandoned_handler_do_not_count():
    holding, handler = stubborn()

    async def remember_call(payload, metadata):
        if payload.text == "hold":
            return await handler(payload, metadata)
        mine = invocation()
        holding.released.set()
        await wait_until(lambda: holding.found)
        assert invocation() is mine
        return respond(Answer(str(mine.storage.get(Note))))

    async with desk((listener("a", deadline=HANGS), remember_call), grace=0.01) as d:
        handle = await d.open()
        assert (await answer_late(d, Ask("hold"), handle)).code == "timeout"
        assert await d.ask(Ask("beside it"), handle=handle) == Answer("None")
        assert await d.ask(Ask("after it"), handle=handle) == Answer("None")
    assert holding.found == [True]


async def test_a_listener_with_too_many_abandoned_is_busy_until_one_ends():
    holding, handler = stubborn()
    slow = listener("a", deadline=HANGS, concurrency=2)
    async with desk((slow, handler), grace=0.01) as d:
        codes = [(await answer_late(d, Ask("x"))).code for _ in range(2)]
        codes += [(await d.ask(Ask("x"))).code for _ in range(2)]
        assert codes == ["timeout", "timeout", "busy", "busy"]
        assert holding.running == 2
        holding.released.set()
        await wait_until(lambda: not d.pump._invoker._abandoned["a"])
        assert await d.ask(Ask("x")) == Answer("too late")


async def test_one_that_never_yields_is_late_all_the_same():
    async def block_loop(payload, metadata):
        loop = asyncio.get_running_loop()
        start = loop.time()
        while loop.time() < start + 0.05:
            pass
        return respond(Answer("x"))

    async with desk((listener("a", deadline=0.01), block_loop)) as d:
        assert (await d.ask(Ask("x"))).code == "timeout"


async def test_one_that_ends_in_its_grace_is_late_and_not_abandoned(caplog):
    async def tidy(payload, metadata):
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.02)

    async with desk((listener("a", deadline=0.01), tidy)) as d:
        assert (await d.ask(Ask("x"))).code == "timeout"
    assert "abandoned" not in caplog.text


async def test_one_that_is_cancelled_before_its_first_step_is_late():
    async with desk((listener("a", deadline=1e-9), answer), grace=1000.0) as d:
        assert (await d.ask(Ask("x"))).code == "timeout"


async def test_the_end_of_a_thread_frees_the_worker_of_a_handler_that_runs_on():
    holding, handler = stubborn()
    async with desk((listener("a"), handler), (listener("b"), answer), concurrency=1, grace=0.01) as d:
        handle = await d.open()
        await d.send(handle, Ask("x"))
        await wait_until(lambda: holding.running)
        await handle.close()
        assert await d.ask(Ask("hi"), to="b") == Answer("re: hi")
        holding.released.set()
        await wait_until(lambda: not holding.running)
    assert not [record for record in d.records if record.event is Event.FAILED]


@pytest.mark.parametrize("drain", [0.0, 0.05])
async def test_a_stop_waits_for_nobody_and_keeps_the_message(drain):
    holding, handler = stubborn()
    engine = MemoryEngine()
    async with desk((listener("a"), handler), engine=engine, drain=drain) as d:
        await d.send(await d.open(), Ask("x"))
        await wait_until(lambda: holding.running)
    (kept,) = engine._conversations.values()
    assert sum(len(thread.inbox) for thread in kept.tree.nodes.values()) == 1
    assert [record.event for record in d.records] == ["received", "sent"]
    holding.released.set()
    await wait_until(lambda: not holding.running)
    assert engine._conversations == {kept.id: kept}
    async with desk((listener("a"), answer), engine=engine) as d:
        await wait_until(lambda: any(record.event is Event.HANDLED for record in d.records))


class Due:
    """A call, as far as its deadline goes."""

    def __init__(self, due):
        self.loop_deadline, self.stopped = due, False

    def expire(self):
        self.stopped = True


async def test_one_timer_serves_all_calls_and_ignores_ended_ones():
    loop = asyncio.get_running_loop()
    begun = loop.time()
    calls = [Due(begun + 3600), Due(begun), Due(begun + 0.001), Due(begun + 0.002)]
    deadlines = Deadlines(lambda: calls)
    for call in calls:
        deadlines.watch(call)
    ended = calls.pop()
    await wait_until(lambda: all(call.stopped for call in calls[1:]))
    assert not calls[0].stopped
    assert not ended.stopped
    deadlines.end()
