"""Two pumps on a real Postgres: what the storage in memory promises holds there too."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import pytest

from agentserver.core.blueprint import Listener
from agentserver.engines.postgres import PostgresEngine, PostgresOptions
from tests.core.paper import Note
from tests.pump.desk import answer, desk
from tests.pump.pair import watch_events
from tests.pump.test_owners import decoded_texts

pytestmark = pytest.mark.anyio

A = Listener("a", (Note,), "answers")


@asynccontextmanager
async def pair(database):
    """Two desks, each with its engine."""
    options = PostgresOptions(database)
    async with AsyncExitStack() as stack:
        desks = []
        for name in "ab":
            engine = await stack.enter_async_context(PostgresEngine(replace(options, name=name)))
            desks.append((await stack.enter_async_context(desk((A, answer), engine=engine)), engine))
        yield desks


async def test_a_conversation_moves_to_the_server_that_is_used_next(database):
    async with pair(database) as ((one, first), (other, second)):
        handle = await one.open()
        assert (await one.ask(Note("1"), handle=handle)).text == "re: 1"
        submitted = await other.pump.entrance.submit(
            "console", handle.id, other.markup(Note("2")), "a", "mine"
        )
        assert submitted.code is None
        found, _ = await watch_events(other.pump, handle.id, enough=2)
        assert decoded_texts(other, found) == ["re: 1", "re: 2"]
        assert (first.current_claim(handle.id) is None, second.current_claim(handle.id)) == (False, None)
        handle.detach()
        one.pump.releasing.idle_time = 0.0
        for _ in range(2):
            await one.pump.releasing.release()
        there = await other.pump.resume("console", handle.id)
        assert (await other.ask(Note("3"), handle=there)).text == "re: 3"
        assert (first.current_claim(handle.id), second.current_claim(handle.id) is None) == (None, False)
        again = await one.pump.entrance.submit("console", handle.id, one.markup(Note("2")), "a", "mine")
        assert (again.again, again.request) == (True, submitted.request)


async def test_whichever_is_asked_each_message_is_answered_once(database):
    async with pair(database) as desks:

        async def talk(number):
            handle = await desks[number % 2][0].open()
            for each in range(5):
                asked = desks[(number + each) % 2][0]
                data = asked.markup(Note(f"{each}"))
                submitted = await asked.pump.entrance.submit("console", handle.id, data, "a", f"own {each}")
                assert submitted.code is None
            found, _ = await watch_events(desks[1][0].pump, handle.id, enough=5)
            assert sorted(decoded_texts(desks[1][0], found)) == [f"re: {each}" for each in range(5)]

        await asyncio.gather(*(talk(number) for number in range(20)))
