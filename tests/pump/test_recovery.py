"""A pump on a journal: work that a restart continues, and work while no commit is possible."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from agentserver import HandlerResponse
from agentserver.core.messages import Done, Reply
from agentserver.core.records.audit import Event
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions
from agentserver.pump import schedule
from agentserver.testing import FakeClock
from tests.core.paper import Answer, Ask, listener
from tests.machine import HANGS
from tests.pump.desk import FullEngine, answer, desk, hang_forever, wait_until

pytestmark = pytest.mark.anyio
respond = HandlerResponse.respond


async def test_interrupted_work_runs_again_and_its_reply_waits_for_its_gateway(tmp_path):
    place = JournalOptions(tmp_path / "j")
    async with (
        SqliteEngine(place) as engine,
        desk((listener("a"), hang_forever), engine=engine, drain=0.0) as d,
    ):
        handle = await d.open()
        request = (await handle.send(d.markup(Ask("hi")), "a")).request
    async with SqliteEngine(place) as engine, desk((listener("a"), answer), engine=engine) as d:
        await wait_until(lambda: d.pump._accounts.pending == 0)
        assert await d.pump.conversations_of("console") == (handle.id,)
        assert await d.pump.conversations_of("somebody") == ()
        with pytest.raises(LookupError):
            await d.pump.resume("somebody", handle.id)
        again = await d.pump.resume("console", handle.id)
        assert await d.pump.conversations_of("console") == ()
        (reply, done) = again.iter_waiting()
        assert (d.decode(reply), reply.request, reply.redelivered) == (Answer("re: hi"), request, False)
        assert done == Done(handle.id, request, answered=True, place=(reply.place.version, 1))
        assert await d.ask(Ask("more"), handle=again) == Answer("re: more")
        again.detach()
        again = await d.pump.resume("console", handle.id)
        assert list(again.iter_waiting()) == []  # ask() took the reply and the end
        await again.close()
        assert await d.pump.conversations_of("console") == ()


async def test_interrupted_work_runs_again_in_the_order_of_its_requests(tmp_path):
    place, first_is_done, begun = JournalOptions(tmp_path / "j"), anyio.Event(), []

    async def answer_first(payload, metadata):
        begun.append(payload.text)
        await (first_is_done.wait() if payload.text == "1" else anyio.sleep_forever())
        return respond(Answer("done"))

    async with (
        SqliteEngine(place) as engine,
        desk((listener("a"), answer_first), engine=engine, drain=0.0) as d,
    ):
        handle = await d.open()
        first, second = [await d.send(handle, Ask(text)) for text in "12"]
        await wait_until(lambda: begun == ["1", "2"])
        first_is_done.set()
        await wait_until(lambda: first not in d.pump.conversation(handle.id).requests)
        third = await d.send(handle, Ask("3"))  # on the older thread, which rests now
        await wait_until(lambda: begun == ["1", "2", "3"])
        threads = d.pump.conversation(handle.id).tree.nodes.values()
        assert [one.inbox[0].request for one in threads if one.inbox] == [third, second]
    begun.clear()
    async with SqliteEngine(place) as engine, desk((listener("a"), answer_first), engine=engine, drain=0.0):
        await wait_until(lambda: len(begun) == 2)
    assert begun == ["2", "3"]


async def test_messages_that_arrive_while_a_gateway_resumes_are_in_order(tmp_path):
    async with (
        SqliteEngine(JournalOptions(tmp_path / "j")) as engine,
        desk((listener("a"), answer), engine=engine) as d,
    ):
        handle = await d.open()
        requests = [(await handle.send(d.markup(Ask(str(n))), "a")).request for n in range(5)]
        handle.detach()
        again = await d.pump.resume("console", handle.id)
        events = again.events()
        seen = [await anext(events) for _ in range(10)]
        assert {event.request for event in seen} == set(requests)
        for request in requests:
            assert [type(event) for event in seen if event.request == request] == [Reply, Done]


async def test_a_finished_conversation_can_be_fetched_once(tmp_path):
    place = JournalOptions(tmp_path / "j")
    clock = FakeClock(step=0.0)
    async with (
        SqliteEngine(place) as engine,
        desk((listener("a"), answer), engine=engine, clock=clock, idle=0.04) as d,
    ):
        handle = await d.open()
        await handle.send(d.markup(Ask("x")), "a")
        await wait_until(lambda: d.pump._accounts.pending == 0)
        clock.advance(1.0)
        await wait_until(lambda: d.pump.conversation(handle.id) is None)
    async with SqliteEngine(place) as engine, desk((listener("a"), answer), engine=engine) as d:
        again = await d.pump.resume("console", handle.id)
        seen = [event async for event in again.events()]
        assert [event.redelivered for event in seen] == [True, True]
        await wait_until(lambda: not engine._acknowledged)
        assert await d.pump.conversations_of("console") == ()


async def test_messages_for_a_removed_listener_fail(tmp_path):
    place = JournalOptions(tmp_path / "j")
    async with (
        SqliteEngine(place) as engine,
        desk((listener("a", retries=5), hang_forever), engine=engine, drain=0.0) as d,
    ):
        handle = await d.open()
        await handle.send(d.markup(Ask("hi")), "a")
    async with SqliteEngine(place) as engine, desk((listener("b"), answer), engine=engine) as d:
        await wait_until(lambda: any(r.event is Event.ANSWERED for r in d.records))
        (letter,) = await engine._do(engine._reader.dead)
        assert letter.reason == "internal: no listener is called a"


async def test_idle_conversations_of_an_earlier_run_are_closed(tmp_path):
    place = JournalOptions(tmp_path / "j")
    async with SqliteEngine(place) as engine, desk((listener("a"), answer), engine=engine) as d:
        handle = await d.open()
        await d.ask(Ask("x"), handle=handle)
    async with SqliteEngine(place) as engine, desk((listener("a"), answer), engine=engine, idle=0.04) as d:
        await wait_until(lambda: any(r.event is Event.CLOSED for r in d.records))
        assert await engine.load(handle.id) is None


async def test_messages_are_refused_and_results_wait_while_the_storage_is_down(monkeypatch):
    monkeypatch.setattr(schedule, "BACKOFF", 0.01)
    engine, calls = FullEngine(), []

    async def work(payload, metadata):
        calls.append(payload)
        engine.full = len(calls) == 1
        return respond(Answer("done"))

    async with desk((listener("a"), work), engine=engine) as d:
        answers = []

        async def one():
            answers.append(await d.ask(Ask("1")))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one)
            await wait_until(lambda: engine.full)
            other = await d.open()
            with pytest.raises(RuntimeError, match="cannot keep messages at present"):
                await d.ask(Ask("2"), handle=other)
            await asyncio.sleep(0.03)
            assert answers == []
            engine.full = False
        assert answers == [Answer("done")]
        assert await d.ask(Ask("3"), handle=other) == Answer("done")
        assert len(calls) == 2


async def test_workers_that_never_wait_stop_all_the_same():
    async def send_again(payload, metadata):
        return HandlerResponse(payload, "a")

    with anyio.fail_after(HANGS):
        async with desk((listener("a", "a"), send_again), drain=0.0, hops=10**9, messages=10**9) as d:
            handle = await d.open()
            await handle.send(d.markup(Ask("x")), "a")
