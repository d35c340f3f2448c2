from __future__ import annotations

import asyncio

import anyio
import pytest

from agentserver import HandlerResponse
from agentserver.core.messages import Done
from agentserver.engines.memory import MemoryEngine
from agentserver.pump.handle import FEW, Returns
from tests.core.paper import Answer, Ask, listener
from tests.pump.desk import answer, desk, wait_until

pytestmark = pytest.mark.anyio
respond = HandlerResponse.respond


class Slow(MemoryEngine):
    """Keeps an outcome at once and says so later."""

    async def commit(self, claim, outcome):
        await super().commit(claim, outcome)
        await asyncio.sleep(0.02)


async def test_who_gives_up_waiting_leaves_nothing_half_done():
    async with desk((listener("a"), answer), engine=Slow()) as d:
        handle = await d.open()
        with anyio.move_on_after(0.005) as scope:
            await d.ask(Ask("1"), handle=handle)
        assert scope.cancelled_caught
        await wait_until(lambda: d.pump._accounts.pending == 0)
        assert [record.event for record in d.records].count("answered") == 1
        assert await d.ask(Ask("2"), handle=handle) == Answer("re: 2")
        assert handle._request_streams == {}


async def test_who_gives_up_closing_has_closed():
    async with desk((listener("a"), answer), engine=Slow()) as d:
        handle = await d.open()
        with anyio.move_on_after(0.005):
            await handle.close()
        assert d.pump.conversation(handle.id) is None


async def test_an_abandoned_stream_of_replies_does_not_hold_up_the_others():
    async def answer_twice(payload, metadata):
        return [respond(Answer("1")), respond(Answer("2"))]

    async with desk((listener("a"), answer_twice)) as d:
        handle = await d.open()
        stream = handle.replies(d.markup(Ask("x")), "a")
        assert d.decode(await anext(stream)) == Answer("1")
        await stream.aclose()
        assert await d.ask(Ask("x"), handle=handle) == Answer("1")


async def test_every_watcher_of_a_conversation_is_released_at_its_end():
    ends = []
    async with desk((listener("a"), answer)) as d:
        handle = await d.open()

        async def watch():
            ends.append([event async for event in handle.events()])

        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(watch)
            await asyncio.sleep(0)
            await d.send(handle, Ask("x"))
            await handle.close()
    assert sorted(len(seen) for seen in ends) == [0, 0, 1]
    assert [type(event) for seen in ends for event in seen] == [Done]


async def test_the_answer_comes_before_the_end_however_slow_the_engine():
    class Jittery(MemoryEngine):
        turns = 0

        async def commit(self, claim, outcome):
            await super().commit(claim, outcome)
            self.turns += 1
            await asyncio.sleep(0.004 if self.turns % 2 else 0)

    async def a(payload, metadata):
        if payload == Ask("hi"):
            return [respond(Answer("now")), *(HandlerResponse(Ask(str(n)), "b") for n in range(4))]
        return None

    async with desk((listener("a", "b"), a), (listener("b"), answer), engine=Jittery()) as d:
        handle = await d.open()
        for _ in range(5):
            found = [d.decode(reply) async for reply in handle.replies(d.markup(Ask("hi")), "a")]
            assert found == [Answer("now")]


async def test_two_gateways_do_not_hear_of_each_other():
    async with desk((listener("a"), answer)) as d:
        first, second = await d.pump.open("first"), await d.pump.open("second")
        heard = {}

        async def watch(name, handle):
            heard[name] = [event async for event in handle.events()]

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch, "first", first)
            tasks.start_soon(watch, "second", second)
            await asyncio.sleep(0)
            request = await d.send(first, Ask("x"))
            await wait_until(lambda: d.pump._accounts.pending == 0)
            await first.close()
            await second.close()
    assert {event.request for event in heard["first"]} == {request}
    assert heard["second"] == []


class WaitingEngine(MemoryEngine):
    async def conversations_of(self, principal):
        async for key in super().conversations_of(principal):
            yield key
            await asyncio.sleep(0)


async def test_only_one_of_two_gateways_comes_back_to_a_conversation():
    async with desk((listener("a"), answer), engine=WaitingEngine()) as d:
        handle = await d.open()
        assert await d.ask(Ask("1"), handle=handle) == Answer("re: 1")
        handle.detach()
        back, refused = [], []

        async def resume():
            try:
                back.append(await d.pump.resume("console", handle.id))
            except LookupError:
                refused.append(True)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(resume)
            tasks.start_soon(resume)
        assert (len(back), len(refused)) == (1, 1)
        assert d.pump._handles.handles == {handle.id: back[0]}
        assert await d.ask(Ask("2"), handle=back[0]) == Answer("re: 2")


async def test_what_a_returned_task_has_of_a_finished_conversation_is_acknowledged_by_the_next():
    finished = asyncio.Event()

    async def ask():
        await d.ask(Ask("x"), handle=handle)
        await finished.wait()

    async with desk((listener("a"), answer)) as d:
        handle = await d.open()
        asking = asyncio.create_task(ask())
        await wait_until(lambda: len(handle.delivered) == 2)
        handle.finish()
        assert handle.id not in d.pump._handles.handles
        finished.set()
        await asking
        assert list(handle.iter_waiting()) == []
        assert handle.delivered == frozenset()


async def test_a_task_that_has_closed_many_conversations_is_registered_for_few():
    async with desk((listener("a"), answer)) as d:
        for number in range(4 * FEW):
            handle = await d.pump.open(f"p{number}")
            await d.ask(Ask("x"), handle=handle)
            await handle.close()
        (watched,) = d.pump._handles._returns._watched.values()
        assert len(watched) <= FEW


async def test_a_task_that_holds_many_conversations_is_not_looked_through_with_each_event():
    class Held(dict):
        looks = 0

        def __contains__(self, key):
            self.looks += 1
            return super().__contains__(key)

    held = Held.fromkeys([str(number) for number in range(2 * FEW - 1)])
    returns, task = Returns(held), asyncio.current_task()
    for key in held:
        returns.watch(key, task)
    for _ in range(10 * FEW):
        returns.watch("0", task)
    assert held.looks <= 20 * FEW
    held.clear()  # the task of the test has no handle
