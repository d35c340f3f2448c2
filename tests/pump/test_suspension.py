"""One conversation that cannot continue is suspended: its principal gets an error, and the server serves the others."""

from __future__ import annotations

import sqlite3
from contextlib import asynccontextmanager, closing

import anyio
import pytest

from agentserver import HandlerResponse, SystemError
from agentserver.core.decide import decisions
from agentserver.core.messages import Done, Reply
from agentserver.engines.journal import suspension
from agentserver.engines.memory import MemoryEngine
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions, open_reading
from agentserver.guards.builtin import PeersGuard
from agentserver.ports import EngineError
from agentserver.testing import FakeClock
from tests.core.paper import Answer, Ask, listener
from tests.pump.desk import answer, desk, hang_forever, wait_until
from tests.pump.test_boundary import Fragile, guard_with

pytestmark = pytest.mark.anyio


PEERS = (PeersGuard(),)


@asynccontextmanager
async def server(place, handler=answer, guards=PEERS, names=("a",), **more):
    pairs = [(listener(name), handler) for name in names]
    async with SqliteEngine(place, guards) as engine, desk(*pairs, engine=engine, guards=guards, **more) as d:
        yield d


def change(place, *statements):
    with closing(sqlite3.connect(place.path, isolation_level=None)) as connection:
        for statement, *values in statements:
            assert connection.execute(statement, values).rowcount


def suspended(place):
    with closing(open_reading(place.path)) as connection:
        return suspension.list_suspended(connection)


async def left_two(place, **more):
    """Two conversations in which a message is being handled when the server stops."""
    async with server(place, hang_forever, drain=0.0, **more) as d:
        first, second = await d.open(), await d.open()
        requests = [await d.send(handle, Ask(name)) for handle, name in ((first, "1"), (second, "2"))]
        handles = first.id, second.id
    return handles, requests


DAMAGES = {
    "state is no JSON": ("update conversation set state = x'00' where number = 1",),
    "state is something else": ("update conversation set state = cast('[2]' as blob) where number = 1",),
    "state is empty": ("update conversation set state = x'' where number = 1",),
    "state is deep": ("update conversation set state = cast(? as blob) where number = 1", "[" * 100_000),
    "state is of a later version": ("update conversation set state = cast('[99]' as blob) where number = 1",),
    "a delivery is gone": ("delete from delivery where conversation = 1",),
    "a delivery has another id": ("update delivery set id = 'x' where conversation = 1",),
    "a delivery is on another thread": ("update delivery set thread = 'x' where conversation = 1",),
    "a delivery is of another request": ("update delivery set request = 'x' where conversation = 1",),
    "a delivery is no text": ("update delivery set root = cast(x'ff' as text) where conversation = 1",),
    "a guard's memory is damaged": ("update value set data = x'' where conversation = 1",),
    "a guard's memory is gone": ("delete from value where conversation = 1",),
    "the last step is unknown": ("update conversation set last = 0 where number = 1",),
    "the queue is gone": ("delete from queue where conversation = 1",),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
async def test_a_damaged_conversation_is_suspended_and_the_rest_is_served(tmp_path, damage, caplog):
    place, guards = JournalOptions(tmp_path / "j"), guard_with(Fragile())
    async with server(place, answer, guards) as d:  # a memory is there from the first observation on
        first, second = await d.open(), await d.open()
        for handle in (first, second):
            await d.ask(Ask("x"), handle=handle)
            handle.detach()
    async with server(place, hang_forever, guards, drain=0.0) as d:
        requests = [
            await d.send(await d.pump.resume("console", key), Ask("y")) for key in (first.id, second.id)
        ]
    await anyio.to_thread.run_sync(change, place, damage)
    async with server(place, answer, guards) as d:
        await wait_until(lambda: d.pump._accounts.pending == 0)
        kept = (await d.pump.resume("console", second.id)).iter_waiting()
        assert [d.decode(event) for event in kept if isinstance(event, Reply)][-1] == Answer("re: y")
        if "delete from delivery" in damage[0]:  # it was suspended at the start, and nothing waits in it
            with pytest.raises(LookupError):
                await d.pump.resume("console", first.id)
            told = []
        else:
            told = [*(await d.pump.resume("console", first.id)).iter_waiting()]
        assert await d.ask(Ask("more")) == Answer("re: more")
    (one,) = await anyio.to_thread.run_sync(suspended, place)
    assert (one.id, one.principal) == (first.id, "console")
    assert "suspended" in caplog.text
    if "delete from delivery" not in damage[0]:
        reply, done = told[-2:]
        request = "x" if "request" in damage[0] else requests[0]
        assert (d.decode(reply).code, reply.request) == ("internal", request)
        assert (done.request, done.answered) == (request, True)
    async with server(place, answer, guards) as d:  # and the next start does not meet it again
        assert await d.ask(Ask("more")) == Answer("re: more")
    assert len(await anyio.to_thread.run_sync(suspended, place)) == 1


async def test_a_guard_that_is_gone_suspends_its_conversations_and_is_named(tmp_path):
    place, guards = JournalOptions(tmp_path / "j"), guard_with(Fragile())
    async with server(place, answer, guards) as d:
        handle = await d.open()
        await d.ask(Ask("x"), handle=handle)
        handle.detach()
    async with server(place) as d:
        again = await d.pump.resume("console", handle.id)
        with pytest.raises(RuntimeError, match="ended"):
            await d.ask(Ask("y"), handle=again)
        assert await d.ask(Ask("z")) == Answer("re: z")
    (one,) = await anyio.to_thread.run_sync(suspended, place)
    assert "the guard fragile, which is not there" in one.reason
    await anyio.to_thread.run_sync(put_back, place, one.id)
    async with server(place, answer, guards) as d:
        again = await d.pump.resume("console", handle.id)
        assert await d.ask(Ask("y"), handle=again) == Answer("re: y")
        assert d.pump.conversation(handle.id).memory["fragile"] == (2, 0)


def put_back(place, key):
    with closing(sqlite3.connect(place.path, isolation_level=None)) as connection:
        suspension.resume(connection, key, 1.0)


async def test_a_conversation_about_which_nothing_can_be_decided_is_suspended(tmp_path, caplog):
    async def a(payload, metadata):
        return HandlerResponse.respond(Answer(payload.text))

    place, guard = JournalOptions(tmp_path / "j"), Fragile("observe", "miss")
    async with server(place, a, guard_with(guard)) as d:
        handle = await d.open()
        reply = await d.ask(Ask("poison"), handle=handle)
        assert (type(reply), reply.code) == (SystemError, "internal")
        assert [event async for event in handle.events()] == [], "it is over"
        assert await d.ask(Ask("x")) == Answer("x")
        assert d.pump._accounts.pending == 0
    (one,) = await anyio.to_thread.run_sync(suspended, place)
    assert (one.id, one.waiting) == (handle.id, 1)
    assert "a bug of ours" in one.reason


@pytest.mark.parametrize("what", ["close", "idle"])
async def test_one_that_cannot_be_closed_is_suspended(what, monkeypatch):
    def raise_bug(*_):
        raise LookupError("a bug of ours")

    engine, clock = MemoryEngine(), FakeClock(step=0.0)
    idle = 0.02 if what == "idle" else 100.0
    async with desk((listener("a"), answer), engine=engine, clock=clock, idle=idle) as d:
        handle = await d.open()
        await d.ask(Ask("x"), handle=handle)
        monkeypatch.setattr(decisions, "close", raise_bug)
        clock.advance(1.0)
        if what == "close":
            await handle.close()
        await wait_until(lambda: handle.id not in engine._conversations)
        assert await d.ask(Ask("x")) == Answer("re: x")


async def test_a_conversation_that_cannot_be_suspended_permanently_is_met_again(tmp_path, caplog):
    class Full(SqliteEngine):
        async def suspend(self, conversation, reason, at):
            raise EngineError("the disk is full")

    place = JournalOptions(tmp_path / "j")
    await left_two(place)
    await anyio.to_thread.run_sync(change, place, DAMAGES["state is no JSON"])
    async with Full(place, PEERS) as engine, desk((listener("a"), answer), engine=engine) as d:
        assert await d.ask(Ask("x")) == Answer("re: x")
    assert "the next start tries again" in caplog.text
    assert await anyio.to_thread.run_sync(suspended, place) == []


async def test_its_requests_end_where_its_gateway_has_it():
    async with desk((listener("a"), hang_forever), drain=0.0) as d:
        handle = await d.open()
        handle.listen()
        request = await d.send(handle, Ask("x"))
        await d.pump._suspend(handle.id, ValueError("nothing can be decided"))
        reply, done = [event async for event in handle.events()]
        assert (d.decode(reply).code, reply.request) == ("internal", request)
        assert isinstance(done, Done)
        assert d.pump._accounts.pending == 0
