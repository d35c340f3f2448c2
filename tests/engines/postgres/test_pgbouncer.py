"""A PgBouncer in transaction mode between engines and the database."""

from __future__ import annotations

import asyncio
from contextlib import closing
from dataclasses import replace

import pytest

from agentserver.engines.conformance.sample import SampleConversation
from agentserver.engines.postgres import PostgresEngine, PostgresOptions
from agentserver.engines.postgres.connection import connect, is_pooled
from agentserver.engines.postgres.operations import find_weaknesses, migrate, read_state
from agentserver.engines.postgres.principals import PrincipalTable
from tests.engines.postgres.test_trouble import sound, talk
from tests.pgbouncer import BACKENDS, run_pool

pytestmark = pytest.mark.anyio


@pytest.fixture
def options(postgres):
    with run_pool(postgres) as address:
        yield PostgresOptions(address(postgres.database()), name="a")


async def test_statements_of_several_clients_do_not_meet_under_one_name(options):
    """The driver numbers its prepared statements in each client alike; a backend has them of all its clients."""
    connections = [await connect(options, "test") for _ in range(8)]
    try:
        assert all(map(is_pooled, connections))
        for turn in range(3):
            found = await asyncio.gather(
                *(one.fetchval(f"select $1::int + {n}", turn) for n, one in enumerate(connections))
            )
            assert found == [turn + n for n in range(8)]
    finally:
        for one in connections:
            await one.close()


async def test_two_engines_share_a_database_behind_a_pooler(options):
    assert await migrate(options)
    sample = SampleConversation()
    async with PostgresEngine(options) as a, PostgresEngine(replace(options, name="b")) as b:
        talks = await asyncio.gather(*(talk(engine, sample, 6) for engine in (a, b, a, b)))
        await sound(a, options.url, talks, 6)
        state = await read_state(options)
        assert len(state.servers) == 2
        assert await find_weaknesses(options)


async def test_no_backend_of_a_pooler_is_left_listening(options):
    async with PostgresEngine(options) as engine:
        await talk(engine, SampleConversation(), 2)
    connections = [await connect(options, "test") for _ in range(BACKENDS)]
    heard = "select count(*) from pg_listening_channels(), pg_sleep(0.2)"
    found = await asyncio.gather(*(one.fetchval(heard) for one in connections))
    for one in connections:
        await one.close()
    assert found == [0] * BACKENDS


def test_principals_are_kept_behind_a_pooler(options):
    asyncio.run(migrate(options))
    with closing(PrincipalTable(options.url, options.schema)) as table:
        table.change(lambda data: data + b"one")
        assert table.read().data == b"one"
        assert table.exchange({"ada": 5.0})["ada"] > 4.0
