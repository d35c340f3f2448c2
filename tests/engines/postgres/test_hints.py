"""Hints between servers: they save the time until the next look, so a hint that is never heard shows in no result."""

from __future__ import annotations

import asyncio

import pytest

from agentserver.engines.postgres import PostgresEngine, PostgresOptions
from agentserver.engines.postgres.connection import connect, is_pooled
from agentserver.engines.postgres.hints import EVERYBODY, Topic
from tests.machine import HANGS

pytestmark = pytest.mark.anyio


async def test_a_direct_connection_is_no_pooled_one(database):
    connection = await connect(PostgresOptions(database), "test")
    assert not is_pooled(connection)
    await connection.close()


@pytest.mark.parametrize("everybody", [False, True])
async def test_a_hint_reaches_another_server(database, everybody):
    async with (
        PostgresEngine(PostgresOptions(database, name="a")) as a,
        PostgresEngine(PostgresOptions(database, name="b")) as b,
    ):
        heard = b._hints._events[Topic.TOKENS]  # no helper waits for it here
        heard.clear()
        a._hints.tell(EVERYBODY if everybody else b._lease.incarnation, Topic.TOKENS)
        await asyncio.wait_for(heard.wait(), HANGS)
