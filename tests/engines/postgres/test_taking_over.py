"""Conversations of a server that is gone come to another one at the end of its lease, not at some later look."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from agentserver.core.messages import OutsideMessage
from agentserver.engines.conformance.sample import SampleConversation
from agentserver.engines.postgres import PostgresEngine, PostgresOptions, claims, inbox
from agentserver.ports import Arrival, GainedClaims
from tests.machine import HANGS

pytestmark = pytest.mark.anyio

DIE = (
    "with gone as (insert into agentserver.server (name, expires)"
    " values ('gone', clock_timestamp() + interval '1 second') returning incarnation)"
    " update agentserver.conversation set owner = gone.incarnation from gone where id = $1"
)
"""Gives a conversation to a server that lives for one second more and does nothing."""


@pytest.fixture
def options(database, monkeypatch):
    """Of a database on which nothing is found by a regular look."""
    for module in (claims, inbox):
        for name in {"LOOK", "SOON", "LATER"} & set(vars(module)):
            monkeypatch.setattr(module, name, 100 * HANGS)
    return PostgresOptions(database, lease=0.5)


async def leave(options, *outcomes):
    """Leave a conversation with a server that is about to be gone; return its id."""
    key = outcomes[0].conversation.id
    async with PostgresEngine(options) as first:
        claim = first.begin_claim(key)
        for outcome in outcomes:
            await first.commit(claim, outcome)
    connection = await asyncpg.connect(options.url)
    await connection.execute(DIE, key)
    await connection.close()
    return key


async def test_waiting_messages_are_taken_over_at_the_end_of_the_lease(options):
    sample = SampleConversation()
    async with PostgresEngine(options) as engine, asyncio.timeout(HANGS):
        key = await leave(options, sample.receive(sample.start(), "1"))
        async for change in engine.changes():
            if isinstance(change, GainedClaims) and key in change.claims:
                return


async def test_submitted_messages_are_adopted_at_the_end_of_the_lease(options):
    sample = SampleConversation()
    said = sample.receive(sample.start(), "1")
    key = await leave(options, said, sample.answer(said.conversation, said.ready[0]))
    async with PostgresEngine(options) as engine, asyncio.timeout(HANGS):
        await engine.hand_in(Arrival("1", key, "console", OutsideMessage(b"<a/>", "r", "a")))
        async for arrival in engine.arrivals():
            assert (arrival.conversation, engine.current_claim(key) is None) == (key, False)
            return
