"""A synchronous standby that is away: commits wait, and whoever cancels the wait makes no answer of it."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from agentserver.engines.conformance.sample import SampleConversation
from agentserver.engines.postgres import PostgresEngine, PostgresOptions
from tests.engines.postgres.test_trouble import sound, talk, until
from tests.machine import HANGS
from tests.postgres import running

pytestmark = pytest.mark.anyio

WAITING = (
    "select pid from pg_stat_activity where wait_event = any($1) and application_name = 'agentserver writer'"
)


async def waiting(admin, *events):
    """The backend of the writer, once it waits for something."""
    async with asyncio.timeout(HANGS):
        while (found := await admin.fetchval(WAITING, events)) is None:  # noqa: ASYNC110 - another process waits
            await asyncio.sleep(0.01)
    return found


async def require(admin, standby):
    await admin.execute(f"alter system set synchronous_standby_names = '{standby}'")
    await admin.execute("select pg_reload_conf()")


@pytest.mark.parametrize("end", ["pg_cancel_backend", "pg_terminate_backend"])
async def test_a_commit_that_no_standby_has_confirmed_is_not_acknowledged(end):
    with running() as postgres:
        admin = await asyncpg.connect(postgres.url())
        async with PostgresEngine(PostgresOptions(postgres.url(), lease=HANGS)) as engine:
            sample = SampleConversation()
            first = await talk(engine, sample, 2)
            await require(admin, "away")
            second = sample.receive(first.conversation, "2")
            done = engine.commit(engine.current_claim(first.conversation.id), second)
            await admin.fetchval(f"select {end}($1)", await waiting(admin, "SyncRep"))
            await until(lambda engine=engine: engine.trouble)
            await waiting(admin, "SyncRep", "transactionid")  # the latter where the lease is being renewed
            assert not done.done()
            await require(admin, "")
            async with asyncio.timeout(HANGS):
                await done
            await sound(engine, postgres.url(), [second], 3)
        await admin.close()
