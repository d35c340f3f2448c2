"""Deliveries that a gateway gets once, repeated ones, and the ids that tell them apart."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import anyio
import pytest

from agentserver import HandlerResponse
from agentserver.core.messages import Done, Reply
from agentserver.engines.memory import MemoryEngine
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions
from agentserver.ports import EngineError
from tests.core.paper import Answer, Ask, listener
from tests.pump.desk import answer, desk, wait_until

pytestmark = pytest.mark.anyio
respond = HandlerResponse.respond


class KilledError(Exception):
    """Acts as a kill: nothing is cleaned up on the way out."""


@asynccontextmanager
async def shop(path, *pairs):
    async with (
        SqliteEngine(JournalOptions(path)) as engine,
        desk(*(pairs or [(listener("a"), answer)]), engine=engine) as d,
    ):
        yield d


@asynccontextmanager
async def kill_shop(path, *pairs):
    """A shop whose process dies at the end of the block."""
    with pytest.raises(BaseExceptionGroup) as raised:
        async with shop(path, *pairs) as d:
            yield d
            raise KilledError
    assert raised.group_contains(KilledError)


async def remaining_deliveries(d, key):
    """List deliveries for the resumer of a conversation, as the engine has them once it is idle."""
    await asyncio.sleep(0)
    await wait_until(lambda: not d.pump._engine._acknowledged and not d.pump._engine._writing)
    return [event async for event in d.pump._engine.outbox(key)]


def places(events):
    return [tuple(event.place) for event in events]


async def ask(d, handle, text="hi"):
    return await handle.ask(d.markup(Ask(text)), "a")


async def test_every_event_has_a_place_of_its_own_in_order(tmp_path):
    async def several(payload, metadata):
        return [respond(Answer("1")), respond(Answer("2"))]

    async with shop(tmp_path / "j", (listener("a"), several)) as d:
        handle = await d.open()
        events = handle.events()
        for number in range(3):
            await d.send(handle, Ask(str(number)))
        seen = [await anext(events) for _ in range(9)]
        assert places(seen) == sorted(set(places(seen)))
        assert not any(event.redelivered for event in seen)


async def test_an_answer_outlives_a_kill_after_ask_has_returned(tmp_path):
    async with kill_shop(tmp_path / "j") as d:
        handle = await d.open()
        reply = await ask(d, handle)
        assert not reply.redelivered
    async with shop(tmp_path / "j") as d:
        again, done = (await d.pump.resume("console", handle.id)).iter_waiting()
    assert again == reply._replace(redelivered=True)
    assert isinstance(done, Done)
    assert done.redelivered


async def test_an_answer_is_acknowledged_by_the_next_call(tmp_path):
    async with kill_shop(tmp_path / "j") as d:
        handle = await d.open()
        await ask(d, handle, "1")
        second = await ask(d, handle, "2")
        assert places(await remaining_deliveries(d, handle.id)) == [second.place, (second.place.version, 1)]


@pytest.mark.parametrize("end", ["leave", "close", "stop"])
async def test_an_answer_is_acknowledged_by_a_clean_end(tmp_path, end):
    async with shop(tmp_path / "j") as d:
        handle = await d.open()
        await ask(d, handle)
        if end == "leave":
            handle.detach()
        elif end == "close":
            await handle.close()
    async with shop(tmp_path / "j") as d:
        assert await remaining_deliveries(d, handle.id) == []


async def test_the_end_of_replies_is_repeated_after_a_kill(tmp_path):
    async with kill_shop(tmp_path / "j") as d:
        handle = await d.open()
        (reply,) = [each async for each in handle.replies(d.markup(Ask("x")), "a")]
    async with shop(tmp_path / "j") as d:
        (done,) = (await d.pump.resume("console", handle.id)).iter_waiting()
    assert done.redelivered
    assert done.place > reply.place


@pytest.mark.parametrize("way", ["events", "replies", "ask"])
async def test_deliveries_interrupted_by_a_kill_are_repeated(tmp_path, way):
    async with kill_shop(tmp_path / "j") as d:
        handle = await d.open()
        if way == "events":
            stream = handle.events()
            await d.send(handle, Ask("x"))
        else:
            stream = handle.replies(d.markup(Ask("x")), "a")
        reply = await (ask(d, handle) if way == "ask" else anext(stream))
        assert not reply.redelivered
    async with shop(tmp_path / "j") as d:
        again, done = (await d.pump.resume("console", handle.id)).iter_waiting()
    assert again == reply._replace(redelivered=True)
    assert isinstance(done, Done)
    assert done.redelivered


async def test_tasks_do_not_acknowledge_deliveries_of_others(tmp_path):
    async with kill_shop(tmp_path / "j") as d:
        handle = await d.open()
        got, go = [], asyncio.Event()

        async def one():
            got.append(await ask(d, handle))
            await go.wait()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one)
            await wait_until(lambda: got)
            await ask(d, handle)
            await ask(d, handle)
            assert got[0].place in places(await remaining_deliveries(d, handle.id))
            go.set()
        assert got[0].place in places(await remaining_deliveries(d, handle.id)), (
            "it returned; its gateway may not have passed it on"
        )
        await ask(d, handle)
        assert got[0].place not in places(await remaining_deliveries(d, handle.id))


async def test_asks_that_are_gathered_are_acknowledged_once_the_gateway_is_back(tmp_path):
    async with kill_shop(tmp_path / "j") as d:
        handle = await d.open()
        replies = await asyncio.gather(*(ask(d, handle, str(n)) for n in range(5)))
        assert set(places(replies)) <= set(places(await remaining_deliveries(d, handle.id)))
        last = await ask(d, handle)
        assert [
            event.place for event in await remaining_deliveries(d, handle.id) if isinstance(event, Reply)
        ] == [last.place]


@pytest.mark.parametrize("engine", ["journal", "memory"])
async def test_unfinished_deliveries_of_a_cancelled_task_are_repeated_and_marked(tmp_path, engine):
    engine = MemoryEngine() if engine == "memory" else SqliteEngine(JournalOptions(tmp_path / "j"))
    async with engine, desk((listener("a"), answer), engine=engine) as d:
        handle = await d.open()
        seen = []

        async def gateway():
            async for event in handle.events():
                seen.append(event)
                await anyio.sleep_forever()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(gateway)
            await asyncio.sleep(0)
            await d.send(handle, Ask("x"))
            await wait_until(lambda: seen)
            tasks.cancel_scope.cancel()
        await asyncio.sleep(0)
        handle.detach()
        again = await d.pump.resume("console", handle.id)
        reply, done = again.iter_waiting()
        assert reply == seen[0]._replace(redelivered=True)
        assert not done.redelivered, "nobody had it"
        again.detach()
        assert d.pump._handles._delivered == {}


async def test_unfinished_deliveries_of_a_failed_task_are_repeated(tmp_path, caplog):
    async with shop(tmp_path / "j") as d:
        handle = await d.open()

        async def gateway():
            await ask(d, handle)
            raise OSError("the client is gone")

        with pytest.raises(OSError, match="gone"):
            await asyncio.create_task(gateway())
        await asyncio.sleep(0)
        assert "redelivered" in caplog.text
        handle.detach()
        again = await d.pump.resume("console", handle.id)
        assert [event.redelivered for event in again.iter_waiting()] == [True, True]


async def test_deliveries_without_a_waiting_task_go_to_a_watcher():
    async def several(payload, metadata):
        return [respond(Answer(str(n))) for n in range(3)]

    async with desk((listener("a"), several)) as d:
        handle = await d.open()
        events = handle.events()
        assert d.decode(await ask(d, handle)) == Answer("0")
        assert [d.decode(await anext(events)) for _ in range(2)] == [Answer("1"), Answer("2")]
        assert isinstance(await anext(events), Done)


async def test_one_gateway_at_a_time_fetches_a_finished_conversation(tmp_path):
    async with shop(tmp_path / "j") as d:
        handle = await d.open()
        handle.listen()
        await d.send(handle, Ask("x"))
        await wait_until(lambda: d.pump._accounts.pending == 0)
        await d.pump._boundary.close(handle.id, "over")
        assert await d.pump.conversations_of("console") == (), "its gateway has not taken what waits"
        assert [type(event) for event in handle.iter_waiting()] == [Reply, Done]
        assert await remaining_deliveries(d, handle.id) == []


async def test_a_finished_conversation_that_was_not_fetched_can_be_resumed_again(tmp_path):
    async with kill_shop(tmp_path / "j") as d:
        handle = await d.open()
        await d.send(handle, Ask("x"))
        await wait_until(lambda: d.pump._accounts.pending == 0)
        await d.pump._boundary.close(handle.id, "over")
    async with shop(tmp_path / "j") as d:
        first = await d.pump.resume("console", handle.id)
        with pytest.raises(LookupError):
            await d.pump.resume("console", handle.id)
        first.detach()
        second = await d.pump.resume("console", handle.id)
        assert [type(event) async for event in second.events()] == [Reply, Done]
        assert d.pump._handles.handles == {}


async def test_a_detached_handle_refuses_requests():
    async with desk((listener("a"), answer)) as d:
        handle = await d.open()
        await ask(d, handle)
        handle.detach()
        with pytest.raises(RuntimeError, match="resume"):
            await ask(d, handle)
        assert handle._request_streams == {}


async def test_closing_drops_the_account_of_deliveries():
    async with desk((listener("a"), answer)) as d:
        handle = await d.open()
        await ask(d, handle)
        await handle.close()
        assert (d.pump._handles._delivered, d.pump._handles.handles) == ({}, {})
        assert handle.delivered == set()


@pytest.mark.parametrize("method", ["outbox", "load"])
async def test_a_conversation_that_could_not_be_resumed_can_be_resumed_later(method, monkeypatch):
    engine = MemoryEngine()
    async with desk((listener("a"), answer), engine=engine) as d:
        handle = await d.open()
        await ask(d, handle)
        handle.detach()

        def fails(conversation):
            raise EngineError("the disk cannot be read")

        with monkeypatch.context() as patched:
            patched.setattr(engine, method, fails)
            d.pump._live.clear()
            with pytest.raises(EngineError):
                await d.pump.resume("console", handle.id)
        again = await d.pump.resume("console", handle.id)
        assert await ask(d, again) is not None


async def test_who_is_cancelled_while_resuming_does_not_hold_the_conversation(tmp_path):
    async with shop(tmp_path / "j") as d:
        handle = await d.open()
        await ask(d, handle)
        handle.detach()
        for delay in range(4):
            task = asyncio.create_task(d.pump.resume("console", handle.id))
            for _ in range(delay):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            assert d.pump._handles.handles == {}
        assert await ask(d, await d.pump.resume("console", handle.id)) is not None
