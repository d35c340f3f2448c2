"""The same rows in a file and in a database: each reading gives the same, and the same damage is found."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import replace

import pytest

from agentserver.engines.conformance.sample import AskingGuard, SampleConversation, keep
from agentserver.engines.journal.connection import snapshot, transaction
from agentserver.engines.journal.reader import find_faults
from agentserver.engines.postgres import PostgresOptions
from agentserver.engines.postgres.threads import SyncConnection, translate
from agentserver.ports import EngineError
from tests.engines.outcomes import Journal
from tests.engines.postgres.alone import AloneEngine

pytestmark = pytest.mark.anyio


def outcomes():
    """Steps of each kind that operators ask about: asked, approved, charged, failed, left open, closed."""
    story = SampleConversation()
    guarded = SampleConversation(guards=(AskingGuard(),), since=1000)
    asked = guarded.receive(guarded.start("ada"), "1")
    approved = guarded.approve(asked.conversation, asked.conversation.approvals()[0])
    waits = guarded.receive(guarded.start("bob"), "2")
    said = story.receive(story.start("ada"), "3")
    priced = story.charge(said.conversation, said.ready[0], "model", 40)
    failed = story.fail(priced[-1].conversation, said.ready[0])
    over = story.receive(story.start("bob"), "4")
    answered = story.answer(over.conversation, over.ready[0])
    closed = story.close(answered.conversation)
    return [asked, approved, waits, said, *priced, failed, over, answered, closed]


def examine_reader(reader):
    """All that operators are given, without the chains, which rows' numbers go into."""
    keys = [one.id for one in reader.conversations()]
    stories = {key: reader.recorded_conversation(key) for key in keys}
    bare = {
        key: replace(story, steps=tuple(step._replace(chain=b"", rows=()) for step in story.steps))
        for key, story in stories.items()
    }
    return {
        "conversations": list(reader.conversations()),
        "active": sorted(reader.active()),
        "asking": reader.list_asking(),
        "found": sorted(reader.find(keys[0][:1])),
        "not found": reader.find("\ud800"),
        "loaded": {key: reader.load(key) for key in keys},
        "approvals": {key: reader.approvals(key) for key in keys},
        "answers": reader.answers(),
        "decided": reader.list_decisions(),
        "decided for one": reader.list_decisions(1, "ada"),
        "charged": reader.list_charges(),
        "done": reader.list_activity(0, 1e12, 3),
        "done by one": reader.list_activity(0, 1e12, 1, "ann"),
        "charged late": reader.list_charges(1e12),
        "dead": reader.dead(),
        "one dead": reader.dead(1, "nobody's"),
        "suspended": reader.list_suspended(),
        "stories": bare,
        "altered": [reader.find_altered(story) for story in stories.values()],
    }


async def kept_by(engine, given):
    async with engine:
        for outcome in given:
            await keep(engine, outcome)
        key = given[2].conversation.id
        before = await engine.read(examine_reader)
        await engine.suspend(key, "it cannot be read", 5000.0)
        return before, await engine.read(examine_reader)


async def test_operators_are_given_the_same_by_a_file_and_by_a_database(database, tmp_path):
    given = outcomes()
    in_a_file = await kept_by(Journal(tmp_path / "journal")(), given)
    in_a_database = await kept_by(AloneEngine(PostgresOptions(database)), given)
    for file, table in zip(in_a_file, in_a_database, strict=True):
        assert table == file
    assert in_a_file[0]["asking"] == [given[2].conversation.id]
    assert in_a_file[1]["asking"] == []
    assert len(in_a_file[0]["dead"]) == 1
    assert in_a_file[0]["charged"]
    assert in_a_file[0]["decided"]


@contextmanager
def connect_once(url):
    connection = SyncConnection(PostgresOptions(url), "tests")
    try:
        yield connection
    finally:
        connection.close()


def faults(url):
    with connect_once(url) as connection, snapshot(connection):
        return list(find_faults(connection, (EngineError,)))


DAMAGE = {
    "update step set records = x'00' where version = 1": "step 1 breaks the chain",
    "update conversation set asks = asks + 1": "its stored rows fail their seal",
    "update delivery set reason = 'another'": "the state of delivery",
    "update event set waiting = 1 - waiting": "fails its mark",
    "insert into receipt values (77, 'name', 'content', 'request')": "rows of receipt, but 0 belong",
}


@pytest.mark.parametrize("statement", DAMAGE)
async def test_a_row_that_was_altered_in_the_database_is_found(database, statement):
    async with AloneEngine(PostgresOptions(database)) as engine:
        for outcome in outcomes():
            await keep(engine, outcome)

    def alter():
        before = faults(database)
        with connect_once(database) as connection, transaction(connection):
            connection.execute(statement)
        return before, faults(database)

    before, after = await asyncio.to_thread(alter)
    assert before == []
    assert any(DAMAGE[statement] in line for line in after)


async def test_a_reading_is_of_one_moment_whatever_is_written_meanwhile(database):
    async with AloneEngine(PostgresOptions(database)):
        pass

    def read():
        count = "select count(*) from receipt"
        with connect_once(database) as reader, connect_once(database) as writer:
            with snapshot(reader):
                before = reader.execute(count).fetchone()
                writer.execute("insert into receipt values (1, 'name', 'content', 'request')")
                within = reader.execute(count).fetchone()
            return before, within, reader.execute(count).fetchone(), reader.in_transaction

    assert await asyncio.to_thread(read) == ((0,), (0,), (1,), False)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("select 1 from step where a = ? and b = ?", 'select 1 from "own".step where a = $1 and b = $2'),
        (
            "update event set x = ?2 where y = ?1 and z = ?2",
            'update "own".event set x = $2 where y = $1 and z = $2',
        ),
        ("select x'5b' from state_of", "select '\\x5b'::bytea from state_of"),
        ("delete from value where x in (select 1 from suspension)",
         'delete from "own".value where x in (select 1 from "own".suspension)'),
    ],
)  # fmt: skip
async def test_a_statement_is_written_for_the_tables_of_a_schema(statement, expected):
    assert translate(statement, "own") == expected
