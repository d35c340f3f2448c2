"""The statements that a request costs, counted: at the server that has its conversation, and at another."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager

import asyncpg
import pytest

from agentserver.core.blueprint import Listener
from agentserver.core.messages import UNDECIDED, Reply
from agentserver.engines.postgres import PostgresEngine, PostgresOptions, inbox, news
from agentserver.ports import EngineError
from agentserver.ports.engine import PAGE
from agentserver.pump import timekeeper, watches
from tests.core.paper import Note
from tests.machine import HANGS
from tests.pump.desk import answer, desk, wait_until
from tests.pump.pair import watch_events

pytestmark = pytest.mark.anyio

A = Listener("a", (Note,), "answers")
MANY = 8

KINDS = {
    "held as materialized": "commit",
    "with claimed as": "claim",
    "with new as": "hand in",
    "set fate = f.fate": "settle",
    "as over from unnest": "standing",
    "over following": "left",
    "pg_notify": "hint",
    # occasional statements, however many requests there are
    "update @server": "",
    "delete from @server": "",
    "with left_over as": "",
    "from @inbox i left join": "",
    "select id, fate from @inbox": "",
    "or (c.asks > 0": "",
    "update @ledger": "",
}


@pytest.fixture
def statements(monkeypatch):
    """Counts statements by kind, all but those that are done now and then; one that is not known by its text.

    Timers are looked at when a server starts, and then never again.
    """
    monkeypatch.setattr(timekeeper, "FARTHEST", HANGS)
    counts = Counter()
    fetch = asyncpg.Connection.fetch

    async def count_fetch(connection, text, *values, **more):
        plain = text.replace('"agentserver".', "@")
        counts[next((kind for part, kind in KINDS.items() if part in plain), plain)] += 1
        return await fetch(connection, text, *values, **more)

    monkeypatch.setattr(asyncpg.Connection, "fetch", count_fetch)
    return counts


@asynccontextmanager
async def serve_engine(url, name):
    """A pump over an engine of its own that has looked at its timers, and gives no conversation back."""
    async with (
        PostgresEngine(PostgresOptions(url, name=name)) as engine,
        desk((A, answer), engine=engine) as one,
    ):
        one.pump.releasing.idle_time = HANGS
        await one.pump.alarms.settle()
        yield one


async def ask(desk, conversation, number):
    """Send a message as the HTTP door does, and wait for its answer."""
    gate = desk.pump.entrance
    submitted = await gate.submit("console", conversation, desk.markup(Note(f"{number}")), "a", None)
    found, _ = await watch_events(desk.pump, conversation, after=submitted.after, enough=1)
    (reply,) = [one for one in found if isinstance(one, Reply)]
    assert desk.decode(reply).text == f"re: {number}"


async def cost(statements, desk, conversation):
    """The statements of many requests, one after the other."""
    before = statements.copy()
    for number in range(MANY):
        await ask(desk, conversation, number)
    found = statements - before
    del found[""]
    return found


async def test_a_request_costs_its_commits_alone_where_its_conversation_is(database, statements):
    async with serve_engine(database, "a") as a:
        handle = await a.open()
        handle.detach()
        assert await cost(statements, a, handle.id) == {"commit": 2 * MANY}


async def test_a_request_at_another_server_reads_what_hints_announce(database, statements, monkeypatch):
    monkeypatch.setattr(watches, "FRESH", HANGS)
    monkeypatch.setattr(inbox, "GRACE", HANGS)
    monkeypatch.setattr(inbox, "JOINED", HANGS)
    for module in (inbox, news):
        monkeypatch.setattr(module, "SOON", HANGS)  # no regular look finds it
        monkeypatch.setattr(module, "LATER", HANGS)
    async with serve_engine(database, "a") as a, serve_engine(database, "b") as b:
        handle = await a.open()
        handle.detach()
        await ask(b, handle.id, 0)
        assert statements["claim"] == 1
        assert statements["standing"] > 0
        found = await cost(statements, b, handle.id)
        await wait_until(lambda: statements["settle"])  # of the first, which was stored
        found.pop("settle", 0)
        assert found == {"commit": 2 * MANY, "hint": 2 * MANY}  # an arrival, and its fate with the answer


async def test_a_question_that_no_statement_can_ask_spoils_no_other(database):
    async with serve_engine(database, "a") as a, serve_engine(database, "b") as b:
        handle = await a.open()
        engine = b.pump._engine
        asked = [engine.find_conversation(key) for key in (handle.id, "no\0text", "unknown")]
        found, refused, unknown = await asyncio.gather(*asked, return_exceptions=True)
        assert (found.conversation, found.over) == (handle.id, False)
        assert isinstance(refused, EngineError)
        assert unknown is None


async def test_sent_messages_are_read_in_pages_of_bounded_bytes(database):
    async with serve_engine(database, "a") as a:
        handle = await a.open()
        for _ in range(3):
            await a.ask(Note("x" * (PAGE // 2)), handle=handle)
        engine, places, after = a.pump._engine, [], UNDECIDED
        while page := await engine.read_events(handle.id, after, 64):
            after = page[-1].place
            places.append(len([one for one in page if isinstance(one, Reply)]))
        assert places == [1, 1, 1]
        assert len(await engine.read_events(handle.id, UNDECIDED, 1)) == 1
        with pytest.raises(LookupError):
            await engine.read_events("unknown", UNDECIDED, 64)
