"""Hints between servers save the time until the next poll, so a lost hint changes no result."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from agentserver.core.messages import OutsideMessage, RequestKey
from agentserver.engines.conformance.sample import SampleConversation
from agentserver.engines.postgres import PostgresEngine, PostgresOptions, inbox
from agentserver.engines.postgres.connection import connect, is_pooled
from agentserver.engines.postgres.hints import EVERYBODY, Topic, dump_arrival_hint
from agentserver.ports import Arrival, ArrivalOutcome
from tests.engines.postgres.test_trouble import talk
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


@asynccontextmanager
async def two_with_owner_known(database):
    """Two engines; the first has a conversation, and the second knows that it has."""
    async with (
        PostgresEngine(PostgresOptions(database, name="a")) as a,
        PostgresEngine(PostgresOptions(database, name="b")) as b,
    ):
        key = (await talk(a, SampleConversation(), 2)).conversation.id
        arrivals = a.arrivals()
        fate = await b.hand_in(_message(key, "1"))
        async with asyncio.timeout(HANGS):
            a.settle(await anext(arrivals), DECIDED)
            assert await fate == DECIDED
        yield a, b, key, arrivals


DECIDED = ArrivalOutcome("malformed", "request", 3)


def _message(conversation, name):
    key = RequestKey(name, name)
    return Arrival(name, conversation, "console", OutsideMessage(b"<a/>", name, "a", key))


async def test_a_message_for_a_known_owner_is_decided_without_being_stored(database, monkeypatch):
    monkeypatch.setattr(inbox, "GRACE", HANGS)
    async with two_with_owner_known(database) as (a, b, key, arrivals), asyncio.timeout(HANGS):
        handing = asyncio.create_task(b.hand_in(_message(key, "2")))
        arrival = await anext(arrivals)
        assert arrival == _message(key, "2")
        a.settle(arrival, DECIDED)
        assert await (await handing) == DECIDED
        assert await b._fetch("select id from @inbox where id = '2'") == []


async def test_a_message_whose_hint_is_lost_is_stored_and_decided(database, monkeypatch):
    monkeypatch.setattr(inbox, "GRACE", 0.01)
    async with two_with_owner_known(database) as (a, b, key, arrivals), asyncio.timeout(HANGS):
        monkeypatch.setattr(b._hints, "tell", lambda *_: True)
        fate = await b.hand_in(_message(key, "2"))
        assert len(await b._fetch("select id from @inbox where id = '2'")) == 1
        a.settle(await anext(arrivals), DECIDED)
        assert await fate == DECIDED


async def test_a_message_that_is_stored_after_its_hint_is_decided_once(database, monkeypatch):
    monkeypatch.setattr(inbox, "GRACE", 0.01)
    async with two_with_owner_known(database) as (a, b, key, arrivals), asyncio.timeout(HANGS):
        fate = await b.hand_in(_message(key, "2"))
        arrival = await anext(arrivals)
        a.settle(arrival, DECIDED)
        assert await fate == DECIDED
        again = asyncio.create_task(anext(arrivals))  # reads the later hint, and looks
        while not again.done():
            if await b._fetch("select id from @inbox where id = '2' and fate is not null"):
                break
        assert not again.done()
        again.cancel()


async def test_an_arrival_that_is_hinted_together_with_one_for_a_lost_conversation_is_given(database):
    async with two_with_owner_known(database) as (a, _, key, _):
        hints = [
            dump_arrival_hint(_message(conversation, name), 0, stored=True)
            for conversation, name in ((key, "2"), ("lost", "3"))
        ]
        found, unclear = a._inbox._read_hints(hints, looking=False)
        assert ([one.id for one in found], unclear) == (["2"], True)
