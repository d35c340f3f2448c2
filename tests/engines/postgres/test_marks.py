"""Marks in the database: messages queued under a dead server are suspect, and only a mark makes a culprit."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from agentserver.engines.conformance.sample import SampleConversation
from agentserver.engines.postgres import PostgresEngine, PostgresOptions
from agentserver.pump.poison_search import judge
from tests.engines.postgres.test_trouble import run, talk

pytestmark = pytest.mark.anyio


@pytest.fixture
def options(database):
    return PostgresOptions(database)


async def take_first(engine):
    """The first that an engine takes over."""
    async for change in engine.changes():
        if change.claims:
            return change
    raise AssertionError


async def test_one_delivery_that_was_only_queued_is_a_suspect_and_no_culprit(options):
    sample = SampleConversation()
    async with PostgresEngine(options) as a:
        said = await talk(a, sample, 1)
    poison = said.ready[0].id
    async with PostgresEngine(replace(options, name="b")) as b:
        change = await take_first(b)
        verdict = judge(await b.marks.previous_run(change.previous), [poison], 1)
        assert (verdict.dead, verdict.isolated) == ((), (poison,))
        await b.marks.begin(verdict.ends, 8)
        await b.marks.wait_until_marked(b.marks.enter(poison, said.conversation.id))
    async with PostgresEngine(replace(options, name="c")) as c:
        change = await take_first(c)
        verdict = judge(await c.marks.previous_run(change.previous), [poison], 1)
        assert verdict.dead == (poison,)


async def test_a_hop_that_is_no_suspect_writes_no_mark(options):
    async with PostgresEngine(options) as engine:
        await engine.marks.begin({}, 8)
        slot = engine.marks.enter("delivery", "conversation")
        await engine.marks.wait_until_marked(slot)
        assert slot == 0
        rows = await run(options.url, "select * from agentserver.suspect")
        assert rows == []


async def test_the_watchdog_names_from_its_thread_the_delivery_that_holds_the_loop(options):
    sample = SampleConversation()
    async with PostgresEngine(options) as a:
        await talk(a, sample, 1)
        await asyncio.to_thread(a.marks.hold, "held")
    async with PostgresEngine(replace(options, name="b")) as b:
        change = await take_first(b)
        assert (await b.marks.previous_run(change.previous)).blocking_delivery == "held"


async def test_an_acquitted_suspect_is_forgotten(options):
    async with PostgresEngine(options) as engine:
        await engine.marks.begin({"one": 1, "other": 0}, 8)
        engine.marks.acquit("one")
        await engine.marks.flush()
        rows = await run(options.url, "select delivery from agentserver.suspect")
        assert [row[0] for row in rows] == ["other"]
