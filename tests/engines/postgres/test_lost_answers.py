"""Statements whose answer is lost, and tasks that are cancelled while they wait for one: nothing is left with nobody."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

import anyio
import pytest

from agentserver.core.messages import Cancellation
from agentserver.engines.conformance.sample import SampleConversation
from agentserver.engines.postgres import PostgresEngine, PostgresOptions
from agentserver.engines.postgres.connection import DatabaseAwayError
from agentserver.ports import Arrival, ArrivalOutcome, EngineError, GainedClaims, UnstorableError
from tests.engines.postgres.test_trouble import run, talk, wait_until
from tests.machine import HANGS

pytestmark = pytest.mark.anyio


@pytest.fixture
def options(database):
    """Of an empty database."""
    return PostgresOptions(database, lease=30.0)


def lose(link, fragment, ways=(DatabaseAwayError,)):
    """Have a link do the next statements with this text, and lose the answer to each in one of these ways."""
    fetch, ways = link.fetch, list(ways)

    async def fetch_without_answer(text, *values):
        found = await fetch(text, *values)
        if fragment in text and ways:
            link.drop()
            raise ways.pop(0)("the answer is lost")
        return found

    link.fetch = fetch_without_answer
    return ways


async def at_rest(engine, options):
    """Make a conversation that belongs to nobody; gives its last outcome."""
    outcome = await talk(engine, SampleConversation(), 2)
    await engine.release([outcome.conversation.id])
    return outcome


@pytest.mark.parametrize("way", [DatabaseAwayError, asyncio.CancelledError])
async def test_a_claim_without_an_answer_is_had_by_asking_again(options, way):
    async with PostgresEngine(options) as engine:
        outcome = await at_rest(engine, options)
        key = outcome.conversation.id
        lose(engine._link, "update @conversation c set owner = $1", [way])
        with suppress(EngineError, asyncio.CancelledError):
            await engine.claim(key)
        claim = await engine.claim(key)
        assert claim is not None
        await engine.commit(claim, SampleConversation().receive(outcome.conversation, "more"))


async def test_an_arrival_for_a_claim_without_an_answer_is_given(options):
    async with PostgresEngine(options) as engine, PostgresEngine(replace(options, name="b")) as other:
        key = (await at_rest(engine, options)).conversation.id
        lose(engine._link, "update @conversation c set owner = $1")
        with suppress(EngineError):
            await engine.claim(key)
        fate = await other.hand_in(Arrival("id", key, None, Cancellation("request", "somebody")))
        async with asyncio.timeout(HANGS):
            arrival = await anext(engine.arrivals())
        assert engine.current_claim(key) is not None
        engine.settle(arrival, ArrivalOutcome("no"))
        async with asyncio.timeout(HANGS):
            assert await fate == ArrivalOutcome("no")


async def test_a_take_over_without_an_answer_is_done_again(options):
    """Its deliveries are queued, its owner is alive and unaware of it: no other server would take it."""
    sample = SampleConversation()
    async with PostgresEngine(options) as engine:
        async with PostgresEngine(replace(options, name="b")) as other:
            said = sample.receive(sample.start(), "1")
            await other.commit(other.begin_claim(said.conversation.id), said)
            left = lose(engine._link, "with left_over as")
        changes = engine.changes()
        async with asyncio.timeout(HANGS):
            while not isinstance(change := await anext(changes), GainedClaims) or not change.claims:
                pass
        assert not left
        claim = change.claims[said.conversation.id]
        await engine.commit(claim, sample.answer(said.conversation, said.ready[0]))


async def test_a_release_without_an_answer_holds_nothing(options):
    async with PostgresEngine(options) as engine:
        outcome = await talk(engine, SampleConversation(), 2)
        key = outcome.conversation.id
        lose(engine._link, "set owner = null")
        with pytest.raises(EngineError):
            await engine.release([key])
        assert engine.current_claim(key) is None
        claim = await engine.claim(key)
        await engine.commit(claim, SampleConversation().receive(outcome.conversation, "more"))


async def test_an_arrival_that_is_read_while_its_conversation_is_released_is_given_once_more(options):
    async with PostgresEngine(options) as engine:
        key = (await talk(engine, SampleConversation(), 2)).conversation.id
        await engine.hand_in(Arrival("id", key, None, Cancellation("request", "somebody")))
        fetch, read = engine._link.fetch, asyncio.Event()

        async def fetch_slowly(text, *values):
            found = await fetch(text, *values)
            if "set owner = null" in text:
                arrivals = asyncio.ensure_future(anext(engine.arrivals()))  # which looks in between
                with anyio.move_on_after(0.5):
                    await asyncio.wait([arrivals])
                read.found = [arrivals.result()] if arrivals.done() else []
                arrivals.cancel()
                read.missed = [one for one in read.found if engine.current_claim(one.conversation) is None]
                read.set()
            return found

        engine._link.fetch = fetch_slowly
        await engine.release([key])
        assert read.is_set()
        assert engine.current_claim(key) is not None
        assert read.missed == []
        async with asyncio.timeout(HANGS):
            found = read.found or [await anext(engine.arrivals())]
        assert [one.id for one in found] == ["id"]


async def test_who_hands_in_with_others_may_be_cancelled(options):
    async with PostgresEngine(options) as engine:
        key = (await talk(engine, SampleConversation(), 2)).conversation.id
        arrivals = [Arrival(str(number), key, None, Cancellation("r", "s")) for number in range(3)]
        fetch, sent = engine._inbox._writing.fetch, []

        async def fetch_and_cancel(text, *values):
            sent.append(text)
            if len(sent) == 2:  # which is what the second one sends for itself and the third
                asyncio.get_running_loop().call_soon(handing[1].cancel)
                await asyncio.sleep(0)
            return await fetch(text, *values)

        engine._inbox._writing.fetch = fetch_and_cancel
        handing = [asyncio.create_task(engine.hand_in(one)) for one in arrivals]
        async with asyncio.timeout(HANGS):
            await asyncio.wait([handing[0], handing[2]])


async def test_an_arrival_is_sent_again_until_it_is_known_to_be_kept(options):
    async with PostgresEngine(options) as engine:
        key = (await talk(engine, SampleConversation(), 2)).conversation.id
        left = lose(engine._inbox._writing, "insert into @inbox", [DatabaseAwayError, DatabaseAwayError])
        await engine.hand_in(Arrival("id", key, None, Cancellation("request", "somebody")))
        assert not left
        rows = await run(options.url, "select count(*) from agentserver.inbox")
        assert rows[0][0] == 1


async def test_a_fate_without_a_waiting_caller_is_not_queried(options):
    async with PostgresEngine(options) as engine:
        key = (await talk(engine, SampleConversation(), 2)).conversation.id
        fate = await engine.hand_in(Arrival("id", key, None, Cancellation("request", "somebody")))
        assert [*engine._inbox._fate_futures] == ["id"]
        fate.cancel()
        await wait_until(lambda: not engine._inbox._fate_futures)


async def test_a_token_that_could_not_be_given_back_goes_to_another_server(options):
    async with PostgresEngine(options) as engine, PostgresEngine(replace(options, name="b")) as other:

        async def fails(text, *values):
            engine._link.fetch = fetch
            raise DatabaseAwayError("away")

        async with engine.exclusive("token"):
            fetch, engine._link.fetch = engine._link.fetch, fails
        async with asyncio.timeout(HANGS):
            async with other.exclusive("token"):
                pass


async def test_a_lease_that_restarts_without_an_answer_releases_everything(options):
    async with PostgresEngine(options) as engine:
        key = (await talk(engine, SampleConversation(), 2)).conversation.id
        listen = engine._hints.listen

        async def fails(connection, incarnation):
            engine._hints.listen = listen
            raise ConnectionResetError("the connection is lost")

        engine._hints.listen = fails
        with pytest.raises(EngineError):
            await engine._lease.begin_again()
        assert engine.current_claim(key) is None
        claim = await engine.claim(key)
        assert claim.owner == engine._lease.incarnation


async def test_a_conversation_is_suspended_once_though_the_answer_is_lost(options):
    sample = SampleConversation()
    async with PostgresEngine(options) as engine:
        said = sample.receive(sample.start(), "1")
        key = said.conversation.id
        await engine.commit(engine.begin_claim(key), said)
        connection = engine._thread.connection
        execute, lost = connection.execute, []

        def execute_without_answer(text, values=()):
            found = execute(text, values)
            if text == "commit" and not lost:
                lost.append(text)
                connection.drop()
                raise DatabaseAwayError("the answer is lost")
            return found

        connection.execute = execute_without_answer
        events = await engine.suspend(key, "it cannot be read", 5000.0)
        assert lost
        assert events
        assert len(await run(options.url, "select 1 from agentserver.suspension")) == 1
        assert [event async for event in engine.outbox(key)] == [*events]


async def test_a_conversation_that_is_put_back_is_taken_up_while_its_owner_lives(options):
    sample = SampleConversation()
    async with PostgresEngine(options) as engine:
        said = sample.receive(sample.start(), "1")
        key = said.conversation.id
        await engine.commit(engine.begin_claim(key), said)
        await engine.suspend(key, "it cannot be read", 5000.0)
        changes = engine.changes()
        assert await anext(changes) == GainedClaims({})
        await run(options.url, "update agentserver.suspension set ended = 1")
        async with asyncio.timeout(HANGS):
            assert [*(await anext(changes)).claims] == [key]


async def test_new_messages_are_taken_after_an_absence_that_ended_with_a_refusal(postgres, options):
    sample = SampleConversation()
    async with PostgresEngine(options) as engine:
        await talk(engine, sample, 1)  # so that there are numbers
        unfit = sample.receive(sample.start()._replace(id="no\0text"), "1")
        await asyncio.to_thread(postgres.stop, "immediate")
        try:
            committing = asyncio.ensure_future(engine.commit(engine.begin_claim("no\0text"), unfit))
            await wait_until(lambda: engine._writer.outage)
        finally:
            await asyncio.to_thread(postgres.start)
        with pytest.raises(UnstorableError):
            await committing
        await wait_until(lambda: not engine._writer.outage)
        fresh = sample.receive(sample.start(), "1")
        await engine.commit(engine.begin_claim(fresh.conversation.id), fresh)


async def test_commits_are_answered_when_the_writer_fails_for_a_reason_that_nobody_thought_of(options):
    sample = SampleConversation()
    async with PostgresEngine(options) as engine:
        said = sample.receive(sample.start(), "1")
        prepare = engine._writer._rows.prepare

        def fail(*_):
            engine._writer._rows.prepare = prepare
            raise AttributeError("a fault of our own")

        engine._writer._rows.prepare = fail
        claim = engine.begin_claim(said.conversation.id)
        async with asyncio.timeout(HANGS):
            with pytest.raises(EngineError):
                await engine.commit(claim, said)
            await engine.commit(claim, said)


async def test_a_lease_from_before_the_clock_of_the_database_went_back_comes_to_its_end(options):
    async with PostgresEngine(options) as engine:
        (row,) = await run(
            options.url,
            "insert into agentserver.server (name, expires) values ('gone', now() + interval '1 day')"
            " returning incarnation",
        )
        engine._lease.link.since -= 2 * options.lease
        await engine._lease.bury()
        left = "select expires < now() + interval '2 minutes' from agentserver.server where incarnation = $1"
        assert (await run(options.url, left, row[0]))[0][0]


async def test_a_server_that_is_late_with_its_lease_is_not_blamed(options):
    async with PostgresEngine(options) as engine:
        incarnation = engine._lease.incarnation
        await run(options.url, "update agentserver.server set gone = true")
        await engine._lease.renew()
        assert engine._lease.incarnation != incarnation
        row = "select blameless from agentserver.server where incarnation = $1"
        assert (await run(options.url, row, incarnation))[0][0]


async def test_an_engine_closes_though_its_reads_are_unanswered(options):
    connection = None
    async with PostgresEngine(options) as engine:
        reading = asyncio.ensure_future(
            engine._thread.do(lambda: engine._thread.execute("select pg_sleep(600)", ()))
        )
        async with asyncio.timeout(HANGS):
            asleep = "select 1 from pg_stat_activity where wait_event = 'PgSleep'"
            while not await run(options.url, asleep):  # noqa: ASYNC110 - of another session
                await asyncio.sleep(0.05)
        connection = engine._thread.connection
    assert connection._connection is None
    with pytest.raises(EngineError):
        await reading
