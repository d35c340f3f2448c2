"""The epoch of an invocation never gets smaller for a conversation."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import AsyncExitStack, closing
from itertools import pairwise

import pytest

from agentserver import HandlerResponse, invocation
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions
from tests.core.paper import Answer, Ask, listener
from tests.engines.together.storage import Storage
from tests.pump.desk import desk, wait_until

pytestmark = pytest.mark.anyio


async def test_it_grows_with_each_server_that_a_conversation_goes_to():
    seen, storage = [], Storage()

    async def report_and_wait(payload, metadata):
        seen.append(invocation().epoch)
        await asyncio.Event().wait()

    async with AsyncExitStack() as stack:
        for number, name in enumerate("abc"):
            engine = await stack.enter_async_context(storage.engine(name))
            one = await stack.enter_async_context(
                desk((listener("a"), report_and_wait), engine=engine, drain=0.0)
            )
            if not number:
                await one.send(handle := await one.open(), Ask("x"))
            else:
                storage.move(handle.id, name)
            await wait_until(lambda: len(seen) == number + 1)  # noqa: B023 - within this round
        assert seen == [1, 2, 3]


async def test_it_grows_over_restarts_on_a_journal_and_stays_over_repetitions(tmp_path):
    path, seen = tmp_path / "journal.sqlite", []

    async def fail_and_wait(payload, metadata):
        now = invocation()
        seen.append((now.idempotency_key, now.attempt, now.epoch))
        if now.attempt == 0:
            raise ValueError("once more")
        await asyncio.Event().wait()

    for number in range(3):
        before = len(seen)
        async with (
            SqliteEngine(JournalOptions(path)) as engine,
            desk((listener("a", retries=9), fail_and_wait), engine=engine, drain=0.0) as d,
        ):
            if not number:
                await d.send(await d.open(), Ask("x"))
            await wait_until(lambda: len(seen) > before and seen[-1][1])  # noqa: B023 - within this round
    assert len({key for key, _, _ in seen}) == 1
    assert all(one[2] <= other[2] for one, other in pairwise(seen))
    assert sorted({epoch for _, _, epoch in seen}) == [1, 2, 3]


async def test_a_journal_whose_count_was_written_over_says_so(tmp_path, caplog):
    path = tmp_path / "journal.sqlite"
    async with SqliteEngine(JournalOptions(path)) as engine:
        assert engine.current_claim("any").epoch == 1
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("update claim set epoch = 7")
        connection.commit()
    async with SqliteEngine(JournalOptions(path)) as engine:
        assert engine.current_claim("any").epoch == 8
    assert "epoch may go back" in caplog.text


async def respond(payload, metadata):
    return HandlerResponse.respond(Answer(str(invocation().epoch)))


async def test_it_is_one_where_nothing_outlives_the_process():
    async with desk((listener("a"), respond)) as d:
        assert await d.ask(Ask("x")) == Answer("1")
