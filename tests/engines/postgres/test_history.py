"""History in partitions: when a partition begins, when it is dropped, and its content until then."""

from __future__ import annotations

import asyncio
import json
import re

import asyncpg
import pytest

from agentserver.engines.conformance.sample import SampleConversation, keep
from agentserver.engines.postgres import PostgresOptions
from agentserver.engines.postgres.connection import Link, connect
from agentserver.engines.postgres.history import WIDTH, keep_parts
from agentserver.engines.postgres.operations import find_faults, read_state
from tests.engines.postgres.alone import AloneEngine
from tests.machine import HANGS

pytestmark = pytest.mark.anyio

TABLES = ("step", "delivery", "event", "receipt", "expired")
RETENTION = 10_000.0


@pytest.fixture
def options(database):
    return PostgresOptions(database)


async def run(options, statement, *values):
    connection = await asyncpg.connect(options.url)
    try:
        return await connection.fetch(statement, *values)
    finally:
        await connection.close()


async def finish_conversation(engine, story, number):
    """Commit a conversation of three steps; gives its closed state."""
    said = story.receive(story.start(), str(number))
    await keep(engine, said)
    answered = story.answer(said.conversation, said.ready[0])
    await keep(engine, answered)
    closed = story.close(answered.conversation)
    await keep(engine, closed)
    return closed.conversation


async def parts(options):
    return [
        row[0] for row in await run(options, "select number from agentserver.history_part order by number")
    ]


async def rows(options):
    return {
        table: (await run(options, f"select count(*) from agentserver.{table}"))[0][0] for table in TABLES
    }


async def age(options, seconds):
    """Let all parts be so much older."""
    shift = f"interval '{seconds} seconds'"
    await run(
        options, f"update agentserver.history_part set began = began - {shift}, ended = ended - {shift}"
    )
    await run(options, f"update agentserver.expired set at = at - {shift}")


async def faults(options):
    return await asyncio.to_thread(lambda: list(find_faults(options)))


async def test_a_part_is_dropped_once_all_of_it_has_expired(options):
    story = SampleConversation()
    async with AloneEngine(options, retention=RETENTION) as engine:
        last = [await finish_conversation(engine, story, number) for number in range(3)][-1]
        assert await parts(options) == [0]
        before = await rows(options)
        assert await engine.expire(last.touched + 2 * RETENTION) == 3
        assert await rows(options) == {**before, "expired": 3}  # no row of history is deleted
        assert await faults(options) == []
        await age(options, RETENTION)
        await keep_parts(options, RETENTION)
        assert await parts(options) == [0, 1]
        engine._numbers.drop()
        kept = await finish_conversation(engine, story, 4)
        assert (await run(options, "select number / $1 from agentserver.conversation", WIDTH))[0][0] == 1
        hours = "update agentserver.history_part set ended = ended - interval '2 hours'"
        await run(options, hours)
        await keep_parts(options, RETENTION)
        assert await parts(options) == [1]
        assert await rows(options) == {"step": 3, "delivery": 1, "event": 2, "receipt": 0, "expired": 0}
        assert await faults(options) == []
        found = await engine.read(lambda reader: reader.recorded_conversation(kept.id))
        assert len(found.steps) == 3


async def test_a_part_stays_while_a_conversation_in_it_is_open_or_kept(options):
    story = SampleConversation()
    async with AloneEngine(options, retention=RETENTION) as engine:
        await finish_conversation(engine, story, 1)
        said = story.receive(story.start(), "still open")
        await keep(engine, said)
        for _ in range(2):
            await age(options, RETENTION)
            await keep_parts(options, RETENTION)
        assert await parts(options) == [0, 1]
        answered = story.answer(said.conversation, said.ready[0])
        await keep(engine, answered)  # into the earlier part
        assert await engine.load(said.conversation.id) == answered.conversation


async def test_history_that_an_open_conversation_keeps_from_being_dropped_is_deleted_later(options):
    story = SampleConversation()
    async with AloneEngine(options, retention=RETENTION) as engine:
        closed = await finish_conversation(engine, story, 1)
        said = story.receive(story.start(), "still open")
        await keep(engine, said)
        now = closed.touched + 2 * RETENTION
        assert await engine.expire(now) == 1
        assert (await rows(options))["step"] == 4
        await age(options, RETENTION + 1)
        await engine.expire(now)
        assert await rows(options) == {"step": 1, "delivery": 1, "event": 0, "receipt": 0, "expired": 0}
        assert await faults(options) == []
        assert await engine.load(said.conversation.id) == said.conversation


async def test_no_part_begins_without_steps_or_before_they_are_old(options):
    async with AloneEngine(options, retention=RETENTION) as engine:
        await age(options, RETENTION)
        await keep_parts(options, RETENTION)
        assert await parts(options) == [0]
        await finish_conversation(engine, SampleConversation(), 1)
        await age(options, -RETENTION)
        await keep_parts(options, RETENTION)
        assert await parts(options) == [0]


async def test_two_servers_begin_one_part(options):
    async with AloneEngine(options) as engine:
        await finish_conversation(engine, SampleConversation(), 1)
        await age(options, RETENTION)
        await asyncio.gather(*(keep_parts(options, RETENTION) for _ in range(4)))
        assert await parts(options) == [0, 1]


async def test_parts_wait_for_no_lock_that_another_transaction_holds(options):
    async with AloneEngine(options) as engine:
        await finish_conversation(engine, SampleConversation(), 1)
        await age(options, RETENTION)
        await keep_parts(options, RETENTION)
        await run(options, "delete from agentserver.conversation")
        await age(options, RETENTION)
        other = await asyncpg.connect(options.url)
        transaction = other.transaction()
        await transaction.start()
        await other.fetch("select count(*) from agentserver.step")
        await keep_parts(options, RETENTION)
        assert await parts(options) == [0, 1]  # nor does a commit wait for long
        await transaction.rollback()
        await other.close()
        async with asyncio.timeout(HANGS):
            # on a busy machine the lock, or the connection, may come later than it waits for
            while await parts(options) != [1]:
                await keep_parts(options, RETENTION)


async def test_a_role_that_may_make_no_table_keeps_history_and_deletes_it_later(options):
    story, name = SampleConversation(), options.url.rpartition("/")[2].partition("?")[0]
    async with AloneEngine(options):
        pass
    role = f"plain_{name}"
    for statement in (
        f"create role {role} login",
        f"grant usage on schema agentserver to {role}",
        f"grant select, insert, update, delete on all tables in schema agentserver to {role}",
    ):
        await run(options, statement)
    plain = PostgresOptions(options.url.replace("postgres@", f"{role}@"), migrate="never")
    async with AloneEngine(plain, retention=RETENTION) as engine:
        closed = await finish_conversation(engine, story, 1)
        await age(options, RETENTION)
        assert await engine.expire(closed.touched + 2 * RETENTION) == 1
        assert await parts(options) == [0]
        await age(options, RETENTION + 1)
        await engine.expire(closed.touched + 2 * RETENTION)
        assert (await rows(options))["step"] == 0


async def test_a_number_of_a_part_that_was_dropped_is_refused_and_drawn_again(options):
    story = SampleConversation()
    async with AloneEngine(options) as engine:
        await finish_conversation(engine, story, 1)
        await age(options, RETENTION)
        await keep_parts(options, RETENTION)
        await run(options, "delete from agentserver.conversation")
        await age(options, RETENTION)
        await keep_parts(options, RETENTION)
        assert await parts(options) == [1]
        said = story.receive(story.start(), "2")
        with pytest.raises(Exception, match="numbers are too old"):
            await keep(engine, said)
        await keep(engine, said)
        assert await engine.load(said.conversation.id) == said.conversation


def looked_at(plan):
    """The relations that the nodes of a plan have read."""
    found = {plan["Relation Name"]} if plan.get("Actual Loops") and "Relation Name" in plan else set()
    return found.union(*map(looked_at, plan.get("Plans", ())))


async def test_a_commit_looks_at_the_part_of_its_conversation_alone(options, monkeypatch):
    """However many parts there are: a plan that probes each of them would cost more with every part."""
    async with AloneEngine(options) as engine:
        story, said = SampleConversation(), []
        for number in range(3):
            said.append(story.receive(story.start(), str(number)))
            await keep(engine, said[-1])
            await age(options, RETENTION)
            await keep_parts(options, RETENTION)
            engine._numbers.drop()
        assert await parts(options) == [0, 1, 2, 3]
        fetch, found = Link.fetch, set()

        async def explain_fetch(link, text, *values):
            if "held as materialized" in text:
                connection = await connect(options, "explaining", planned=True)
                await connection.execute("begin")
                statement = f"explain (analyze, format json) {text.replace('@', 'agentserver.')}"
                found.update(looked_at(json.loads(await connection.fetchval(statement, *values))[0]["Plan"]))
                connection.terminate()
            return await fetch(link, text, *values)

        monkeypatch.setattr(Link, "fetch", explain_fetch)
        middle = said[1]
        answered = story.answer(middle.conversation, middle.ready[0])
        await keep(engine, answered)
        engine.acknowledge(middle.conversation.id, answered.replies[0].place)
        again = story.receive(answered.conversation, "again")
        await keep(engine, again)
        await keep(engine, story.close(again.conversation))
    history_of = {name for name in found if re.fullmatch(r"(step|delivery|event|receipt)_[0-9]+", name)}
    assert "delivery_1" in history_of
    assert {name for name in history_of if not name.endswith("_1")} == set()


async def test_the_status_of_the_engine_describes_its_retention(options):
    async with AloneEngine(options) as engine:
        await finish_conversation(engine, SampleConversation(), 1)
        await age(options, RETENTION)
        await keep_parts(options, RETENTION)
        found = (await read_state(options)).history
        assert [(one.number, one.conversations, one.ended is None) for one in found] == [
            (0, 1, False),
            (1, 0, True),
        ]
        assert all(one.size > 0 for one in found)
