"""Tests of commits that wait for a synchronous standby that is away, and of cancelled waits."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from agentserver.engines.conformance.sample import SampleConversation
from agentserver.engines.postgres import PostgresEngine, PostgresOptions
from tests.engines.postgres.test_trouble import sound, talk, wait_until
from tests.machine import HANGS
from tests.postgres import run_server

pytestmark = pytest.mark.anyio

WAITING = "select pid from pg_stat_activity where wait_event = any($1) and application_name = $2"


async def wait_for_lock(admin, *events, application="agentserver writer"):
    """Wait until a backend of the application waits for one of the events. Returns its process id."""
    async with asyncio.timeout(HANGS):
        while (found := await admin.fetchval(WAITING, events, application)) is None:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.01)
    return found


async def configure(admin, standby):
    await admin.execute(f"alter system set synchronous_standby_names = '{standby}'")
    await admin.execute("select pg_reload_conf()")


async def require(admin, postgres, standby):
    """Require a standby, and wait until commits wait for it.

    A reload is asynchronous: until the checkpointer has seen it, a commit passes unconfirmed.
    """
    await configure(admin, standby)
    probe = await asyncpg.connect(postgres.url(), server_settings={"application_name": "probe"})
    commits = asyncio.create_task(commit_until_cancelled(probe))
    await admin.fetchval(
        "select pg_cancel_backend($1)", await wait_for_lock(admin, "SyncRep", application="probe")
    )
    await commits
    await probe.close()


async def commit_until_cancelled(connection):
    """Commit until one commit waits for a standby: Postgres answers its cancellation with a warning."""
    warnings = []
    connection.add_log_listener(lambda _, message: warnings.append(message))
    while not warnings:
        await connection.execute(
            "select pg_logical_emit_message(true, 'probe', '')"
        )  # a commit without WAL does not wait


@pytest.mark.parametrize("end", ["pg_cancel_backend", "pg_terminate_backend"])
async def test_a_commit_that_no_standby_has_confirmed_is_not_acknowledged(end):
    with run_server() as postgres:
        admin = await asyncpg.connect(postgres.url())
        async with PostgresEngine(PostgresOptions(postgres.url(), lease=HANGS)) as engine:
            sample = SampleConversation()
            first = await talk(engine, sample, 2)
            await require(admin, postgres, "away")
            second = sample.receive(first.conversation, "2")
            done = engine.commit(engine.current_claim(first.conversation.id), second)
            await admin.fetchval(f"select {end}($1)", await wait_for_lock(admin, "SyncRep"))
            await wait_until(lambda engine=engine: engine.trouble)
            await wait_for_lock(
                admin, "SyncRep", "transactionid"
            )  # the latter where the lease is being renewed
            assert not done.done()
            await configure(admin, "")
            async with asyncio.timeout(HANGS):
                await done
            await sound(engine, postgres.url(), [second], 3)
        await admin.close()
