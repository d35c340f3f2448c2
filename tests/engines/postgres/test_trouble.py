"""Trouble with the database, each with a real server: nothing is lost or duplicated, and nobody waits forever."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from urllib.parse import quote

import asyncpg
import pytest

from agentserver.engines.conformance.sample import SampleConversation
from agentserver.engines.journal.connection import transaction
from agentserver.engines.postgres import PostgresEngine, PostgresOptions, connection
from agentserver.engines.postgres.connection import DatabaseAwayError, Link, connect
from agentserver.engines.postgres.leases import AcknowledgedSteps
from agentserver.ports import ConflictError, EngineError, FencedError, UnstorableError
from tests.machine import HANGS
from tests.postgres import run_server

pytestmark = pytest.mark.anyio


KILL = (
    "select pg_terminate_backend(pid) from pg_stat_activity"
    " where datname = current_database() and application_name = 'agentserver writer'"
)


@pytest.fixture
def options(database):
    """Of an empty database, with a short lease."""
    return PostgresOptions(database, lease=0.5)


async def run(url, statement, *values):
    """Run a statement by a connection of its own."""
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetch(statement, *values)
    finally:
        await connection.close()


async def wait_until(there):
    """Wait until something is so."""
    async with asyncio.timeout(HANGS):
        while not there():  # noqa: ASYNC110 - what is awaited has no event of its own
            await asyncio.sleep(0.01)


async def talk(engine, sample, steps, committed=lambda: None):
    """Commit so many steps of one conversation, and report each; gives its last outcome."""
    outcome = sample.receive(sample.start(), "0")
    claim = engine.begin_claim(outcome.conversation.id)
    await engine.commit(claim, outcome)
    for number in range(1, steps):
        if outcome.ready:
            outcome = sample.answer(outcome.conversation, outcome.ready[0])
        else:
            outcome = sample.receive(outcome.conversation, str(number))
        await engine.commit(claim, outcome)
        committed()
    return outcome


async def sound(engine, url, outcomes, steps):
    """Each conversation is as it was committed last, each of its steps is there once, and no row is altered."""
    for outcome in outcomes:
        key = outcome.conversation.id
        assert await engine.load(key) == outcome.conversation
        recorded = await engine.read(lambda reader, key=key: reader.recorded_conversation(key))
        assert [step.version for step in recorded.steps] == list(range(1, steps + 1))
        assert await engine.read(lambda reader, recorded=recorded: reader.find_altered(recorded)) is None
    rows = await run(url, "select count(*) from agentserver.step")
    assert rows[0][0] == len(outcomes) * steps


async def test_backends_that_are_killed_lose_no_step_and_repeat_none(options):
    sample = SampleConversation()
    kills, progress = 0, asyncio.Semaphore(0)

    async def kill():
        nonlocal kills
        connection = await asyncpg.connect(options.url)
        try:
            while True:
                for _ in range(
                    10
                ):  # by progress, not by time: a busy machine may take longer to connect again
                    await progress.acquire()
                kills += len(await connection.fetch(KILL))
        finally:
            connection.terminate()

    async with PostgresEngine(options) as engine:
        killing = asyncio.create_task(kill())
        outcomes = await asyncio.gather(*(talk(engine, sample, 100, progress.release) for _ in range(4)))
        killing.cancel()
        await asyncio.wait([killing])
        await sound(engine, options.url, outcomes, 100)
    assert kills


async def test_a_backend_that_is_killed_within_a_statement_leaves_one_step(options):
    sample = SampleConversation()
    async with PostgresEngine(options) as engine:
        first = await talk(engine, sample, 2)
        key = first.conversation.id
        connection = await asyncpg.connect(options.url)
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("select 1 from agentserver.conversation for update")
        second = sample.receive(first.conversation, "held up")
        committing = asyncio.ensure_future(engine.commit(engine.current_claim(key), second))
        for _ in range(3):
            async with asyncio.timeout(HANGS):
                while not (await run(options.url, f"{KILL} and wait_event_type = 'Lock'")):  # noqa: ASYNC110 - of another session
                    await asyncio.sleep(0.01)
        assert not committing.done()
        await transaction.rollback()
        await connection.close()
        await committing
        await sound(engine, options.url, [second], 3)


async def test_a_crash_of_the_database_only_delays_unfinished_work(postgres, options):
    sample = SampleConversation()
    async with PostgresEngine(options) as engine:
        talking = [asyncio.create_task(talk(engine, sample, 200)) for _ in range(4)]
        await asyncio.sleep(0.05)
        await asyncio.to_thread(postgres.stop, "immediate")
        late = sample.receive(sample.start(), "late")
        try:
            await wait_until(lambda: engine.trouble)
            with pytest.raises(EngineError, match="away"):
                await engine.commit(engine.begin_claim(late.conversation.id), late)
        finally:
            await asyncio.to_thread(postgres.start)
        outcomes = await asyncio.gather(*talking)
        await sound(engine, options.url, outcomes, 200)
        await wait_until(lambda: not engine.trouble)
        await engine.commit(engine.begin_claim(late.conversation.id), late)


class Cutter:
    """A way to the server that can be cut after a statement has arrived, before its answer is back."""

    def __init__(self, folder):
        self._there = str(folder / ".s.PGSQL.5432")
        self.folder = folder / "cut"
        self.cutting = self.cuts = 0
        self._serving = set()

    @asynccontextmanager
    async def open(self):
        self.folder.mkdir(mode=0o777, exist_ok=True)
        server = await asyncio.start_unix_server(self._serve, self.folder / ".s.PGSQL.5432")
        try:
            yield
        finally:
            server.close()
            await asyncio.gather(*self._serving)
            shutil.rmtree(self.folder)

    async def _serve(self, reader, writer):
        self._serving.add(asyncio.current_task())
        there, back = await asyncio.open_unix_connection(self._there)
        forth = asyncio.create_task(self._pass(reader, back))
        with suppress(OSError):
            while data := await there.read(65536):
                if self.cutting and b"SELECT" in data:  # the answer to a statement that gives rows
                    self.cutting -= 1
                    self.cuts += 1
                    break
                writer.write(data)
                await writer.drain()
        forth.cancel()
        await asyncio.wait([forth])
        for each in (writer, back):
            each.close()
            with suppress(OSError):
                await each.wait_closed()

    async def _pass(self, reader, writer):
        with suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()


async def test_a_commit_whose_answer_is_cut_off_is_found_again(postgres, options):
    sample = SampleConversation()
    cutter = Cutter(postgres.folder)
    through = replace(options, url=options.url.replace(postgres.folder.name, f"{postgres.folder.name}%2Fcut"))
    async with cutter.open(), PostgresEngine(through) as engine:
        first = await talk(engine, sample, 1)
        claim = engine.current_claim(first.conversation.id)
        second = sample.answer(first.conversation, first.ready[0])
        third = sample.receive(sample.start(), "of its own")
        begun = engine.begin_claim(third.conversation.id)
        cutter.cutting = 1
        await engine.commit(claim, second)
        cutter.cutting = 1
        await engine.commit(begun, third)
        assert cutter.cuts == 2
        rows = await run(options.url, "select count(*) from agentserver.step")
        assert rows[0][0] == 3
        assert await engine.load(first.conversation.id) == second.conversation
        assert await engine.load(third.conversation.id) == third.conversation


async def test_one_of_two_engines_claims_a_conversation(options):
    sample = SampleConversation()
    async with PostgresEngine(options) as a, PostgresEngine(replace(options, name="b")) as b:
        first = await talk(a, sample, 2)
        key = first.conversation.id
        for _ in range(20):
            await a.release([key])
            await b.release([key])
            claims = await asyncio.gather(a.claim(key), b.claim(key))
            assert sum(claim is not None for claim in claims) == 1
        (claim,) = [claim for claim in claims if claim]
        owner, other = (a, b) if claims[0] else (b, a)
        assert (owner.current_claim(key), other.current_claim(key)) == (claim, None)
        with pytest.raises(FencedError):
            await other.commit(claim, sample.receive(first.conversation, "fenced"))


async def test_rows_that_were_acknowledged_and_are_gone_stop_acceptance_until_an_operator_accepts_it():
    sample = SampleConversation()
    with run_server() as server:
        options = PostgresOptions(server.url(), lease=0.5)
        async with PostgresEngine(options) as engine:
            first = await talk(engine, sample, 2)
            key = first.conversation.id
            await asyncio.to_thread(server.stop)
            older = server.folder / "older"
            await asyncio.to_thread(subprocess.run, ["cp", "-a", server.data, older], check=True)
            await asyncio.to_thread(server.start)
            second = sample.receive(first.conversation, "lost")
            await engine.commit(engine.current_claim(key), second)
            await asyncio.to_thread(server.stop)
            shutil.rmtree(server.data)
            older.rename(server.data)
            third = sample.answer(second.conversation, second.ready[0])
            claim = engine.current_claim(key)
            # Before the database is back: the lease may notice the loss first, and then nothing more is taken.
            waiting = asyncio.ensure_future(engine.commit(claim, third))
            await asyncio.to_thread(server.start)

            await wait_until(lambda: "lost steps" in engine.trouble)
            assert not waiting.done()
            fresh = sample.receive(sample.start(), "refused")
            with pytest.raises(EngineError):
                await engine.commit(engine.begin_claim(fresh.conversation.id), fresh)
            found = await run(options.url, "select conversations from agentserver.loss")
            assert found[0][0] == [key]
            await run(options.url, "update agentserver.loss set accepted = now()")
            with pytest.raises(FencedError):
                await waiting
            await wait_until(lambda: not engine.trouble)
            async with asyncio.timeout(HANGS):
                while (claim := await engine.claim(key)) is None:  # noqa: ASYNC110 - what is awaited has no event of its own
                    await asyncio.sleep(0.01)
            again = sample.receive(first.conversation, "after it")
            await engine.commit(claim, again)
            assert await engine.load(key) == again.conversation


async def test_one_loss_that_two_connections_notice_at_once_is_noted_once(options):
    async with PostgresEngine(options):
        acknowledged = AcknowledgedSteps(options)
        acknowledged.note("gone", 1 << 40, b"chain")
        links = [await asyncpg.connect(options.url) for _ in range(2)]
        try:
            assert sorted(await asyncio.gather(*map(acknowledged.compare, links))) == [False, True]
            noted = await run(options.url, f'select conversations from "{options.schema}".loss')
            assert [row[0] for row in noted] == [["gone"]]
            await run(options.url, f'update "{options.schema}".loss set accepted = now()')
        finally:
            for link in links:
                await link.close()


async def test_a_pooler_that_takes_no_settings_is_connected_to_without(options, monkeypatch):
    link = Link(options, "tests")
    assert [*(await link.fetch("show plan_cache_mode"))[0]] == ["force_generic_plan"]
    await link.close()
    monkeypatch.setattr(connection, "PLANS", {"a_setting_that_it_does_not_know": "on"})
    assert [*(await link.fetch("show plan_cache_mode"))[0]] == ["auto"]
    await link.close()


async def test_a_database_that_forgets_is_refused_unless_that_is_said(options, database):
    name = database.rpartition("/")[2].partition("?")[0]
    async with PostgresEngine(options):
        pass
    await run(database, f"alter database {name} set synchronous_commit = off")
    with pytest.raises(EngineError, match="synchronous_commit is off"):
        await PostgresEngine(options).__aenter__()
    async with PostgresEngine(replace(options, durability="relaxed")):
        pass
    await run(database, f"alter database {name} set synchronous_commit = on")
    await run(database, "alter table agentserver.receipt_0 set unlogged")
    with pytest.raises(EngineError, match="receipt"):
        await PostgresEngine(options).__aenter__()


async def test_a_step_that_no_row_can_hold_fails_alone(options):
    sample = SampleConversation()
    async with PostgresEngine(options) as engine:
        opened = [sample.start() for _ in range(3)]
        opened[1] = opened[1]._replace(id="no\0text")
        outcomes = [sample.receive(one, "1") for one in opened]
        claims = [engine.begin_claim(outcome.conversation.id) for outcome in outcomes]
        done = [engine.commit(*one) for one in zip(claims, outcomes, strict=True)]
        found = await asyncio.gather(*done, return_exceptions=True)
        assert [type(one) for one in found] == [type(None), UnstorableError, type(None)]
        for outcome in (outcomes[0], outcomes[2]):
            assert await engine.load(outcome.conversation.id) == outcome.conversation
        rows = await run(options.url, "select count(*) from agentserver.conversation")
        assert rows[0][0] == 2


async def test_numbers_that_were_given_before_are_noticed_and_nothing_is_overwritten(options):
    sample = SampleConversation()
    async with PostgresEngine(options) as engine:
        first = await talk(engine, sample, 4)
        await run(options.url, "update agentserver.ledger set next = 1")
        engine._numbers.drop()
        other = sample.receive(sample.start(), "1")
        claim = engine.begin_claim(other.conversation.id)
        with pytest.raises(EngineError, match="row numbers are taken"):
            await engine.commit(claim, other)
        await engine.commit(claim, other)
        assert await engine.load(other.conversation.id) == other.conversation
        assert await engine.load(first.conversation.id) == first.conversation


async def test_a_start_waits_as_long_as_it_may(postgres, options):
    await asyncio.to_thread(postgres.stop)
    try:
        with pytest.raises(EngineError, match="the database is away"):
            await PostgresEngine(options).__aenter__()
        starting = asyncio.create_task(PostgresEngine(replace(options, wait=HANGS)).__aenter__())
        await asyncio.sleep(0.1)
    finally:
        await asyncio.to_thread(postgres.start)
    async with asyncio.timeout(HANGS):
        engine = await starting
    await engine.__aexit__(None, None, None)


async def test_tables_are_made_once_and_not_at_all_where_that_is_said(options):
    with pytest.raises(EngineError, match="engine migrate"):
        await PostgresEngine(replace(options, migrate="never")).__aenter__()
    engines = [PostgresEngine(replace(options, name=name)) for name in "abc"]
    await asyncio.gather(*(engine.__aenter__() for engine in engines))
    for engine in engines:
        await engine.__aexit__(None, None, None)
    async with PostgresEngine(replace(options, migrate="never")):
        pass
    async with PostgresEngine(replace(options, schema="another")) as engine:
        assert await engine.open_count("console") == 0


async def test_a_stale_copy_is_dropped_and_never_written(options):
    """The owner learns by the epoch that another server has the conversation."""
    sample = SampleConversation()
    async with PostgresEngine(options) as a, PostgresEngine(replace(options, name="b")) as b:
        first = await talk(a, sample, 2)
        key = first.conversation.id
        await run(options.url, "update agentserver.conversation set moved = moved - interval '1 minute'")
        stale = a.current_claim(key)
        claim = await b.claim(key)
        assert await b.load(key) == first.conversation
        assert b._rows.knows(key, claim)  # its first commit reads nothing
        second = sample.receive(first.conversation, "at b")
        await b.commit(claim, second)
        with pytest.raises(FencedError):
            await a.commit(stale, sample.receive(first.conversation, "at a"))
        assert a.current_claim(key) is None
        answered = sample.answer(second.conversation, second.ready[0])
        await b.commit(claim, answered)
        with pytest.raises(ConflictError):
            await b.commit(claim, sample.receive(first.conversation, "stale"))
        assert await a.load(key) == answered.conversation


async def test_a_connection_goes_to_a_server_that_takes_writes(options):
    connection = await connect(options, "test")
    try:
        assert await connection.fetchval("select current_setting('application_name')") == "agentserver test"
        assert not await connection.fetchval("select pg_is_in_recovery()")
    finally:
        await connection.close()


async def test_callers_of_a_database_that_is_away_share_one_attempt(tmp_path):
    attempts = 0

    async def hang_up(_, writer):
        nonlocal attempts
        attempts += 1
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_unix_server(hang_up, tmp_path / ".s.PGSQL.5432")
    link = Link(PostgresOptions(f"postgresql://ada@/ada?host={quote(str(tmp_path), safe='')}"), "test")
    found = await asyncio.gather(*(link.fetch("select 1") for _ in range(8)), return_exceptions=True)
    server.close()
    assert [type(error) for error in found] == [DatabaseAwayError] * 8
    assert attempts == 1


async def test_a_statement_that_never_ends_does_not_keep_a_lease_from_being_renewed(options, database):
    async with PostgresEngine(options) as engine:
        lease = engine._lease
        lease.link.since -= 10.0  # it has been connected for longer than a lease, and may bury others
        blocking = await asyncpg.connect(database)
        async with blocking.transaction():
            await blocking.execute("lock table agentserver.server in access exclusive mode")
            async with asyncio.timeout(HANGS):
                with pytest.raises(DatabaseAwayError):
                    await lease.bury()
            await wait_until(lambda: lease.outage)
        await blocking.close()
        await wait_until(lambda: not lease.outage)


async def test_a_transaction_that_the_database_ends_for_being_idle_is_made_again(options):
    """``idle_in_transaction_session_timeout`` ends the connection of a thread that had to wait for its turn."""
    impatient = replace(options, url=f"{options.url}&idle_in_transaction_session_timeout=500")
    async with PostgresEngine(options), PostgresEngine(impatient) as engine:
        tries = []

        def work():
            tries.append(1)
            with transaction(engine._thread.connection):
                engine._thread.execute("select 1", ())
                if len(tries) == 1:
                    time.sleep(2.0)
                return engine._thread.execute("select 2", ()).fetchone()

        assert tuple(await engine._do(work)) == (2,)
        assert len(tries) > 1
        await sound(engine, options.url, [await talk(engine, SampleConversation(), 4)], 4)
