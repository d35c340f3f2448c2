"""Two pumps on one database: either answers, wherever the conversation is."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from agentserver.core.blueprint import Listener
from agentserver.engines.postgres import PostgresEngine, PostgresOptions
from tests.core.paper import Note
from tests.pump.desk import answer, desk
from tests.pump.pair import watch_events

pytestmark = pytest.mark.anyio

A = Listener("a", (Note,), "answers")


@asynccontextmanager
async def serve_engine(url, name, *pairs, lease=0.5):
    """A pump over an engine of its own."""
    async with (
        PostgresEngine(PostgresOptions(url, name=name, lease=lease)) as engine,
        desk(*pairs, engine=engine) as one,
    ):
        yield one


def texts(desk, events):
    return [desk.decode(event).text for event in events if getattr(event, "message", None)]


async def test_a_conversation_of_one_server_is_continued_at_another(database):
    async with serve_engine(database, "a", (A, answer)) as a, serve_engine(database, "b", (A, answer)) as b:
        handle = await a.open()
        assert (await a.ask(Note("1"), handle=handle)).text == "re: 1"
        key = handle.id
        handle.detach()
        gate = b.pump.entrance
        for number in ("2", "3", "4"):
            await gate.submit("console", key, b.markup(Note(number)), "a", None)
        found, _ = await watch_events(b.pump, key, enough=4)
        assert texts(b, found) == ["re: 1", "re: 2", "re: 3", "re: 4"]


async def test_another_server_finishes_a_servers_work(database):
    begun = asyncio.Event()

    async def waits(payload, metadata):
        begun.set()
        await asyncio.Event().wait()

    async with serve_engine(database, "b", (A, answer)) as b:
        async with serve_engine(database, "a", (A, waits)) as a:
            handle = await a.open()
            await a.send(handle, Note("1"))
            await begun.wait()
            key = handle.id
            handle.detach()
        found, _ = await watch_events(b.pump, key, enough=1)
        assert texts(b, found) == ["re: 1"]


async def test_many_conversations_at_two_servers_are_each_answered(database):
    async with serve_engine(database, "a", (A, answer)) as a, serve_engine(database, "b", (A, answer)) as b:
        asked = [one.ask(Note(str(number))) for number in range(40) for one in (a, b)]
        found = await asyncio.gather(*asked)
        assert [one.text for one in found] == [f"re: {number}" for number in range(40) for _ in range(2)]
