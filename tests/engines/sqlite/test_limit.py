"""A journal at its size limit takes nothing new, and unfinished work ends."""

from __future__ import annotations

import pytest

from agentserver import HandlerResponse
from agentserver.core.messages import Reply
from agentserver.core.state.elapsed_time import STEADY
from agentserver.engines.conformance.sample import keep
from agentserver.engines.conformance.suite import SampleConversation
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions
from agentserver.engines.sqlite.maintenance import count_held_bytes
from agentserver.ports import EngineError, RejectReason, UnstorableError
from tests.core.paper import Answer, Ask, listener
from tests.pump.desk import desk

pytestmark = pytest.mark.anyio

LIMIT = 1 << 19


async def fill(engine, story):
    """Send messages until the limit refuses one; return the stored ones."""
    kept = []
    while True:
        outcome = story.receive(story.start(), "x" * 60)
        try:
            await keep(engine, outcome)
        except EngineError as error:
            return kept, error
        kept.append(outcome)


async def in_use(engine):
    return await engine._do(lambda: count_held_bytes(engine._connection))


async def test_beyond_its_limit_nothing_new_is_stored_and_unfinished_work_ends(tmp_path):
    story = SampleConversation()
    async with SqliteEngine(JournalOptions(tmp_path / "j"), limit=LIMIT, retention=10.0) as engine:
        kept, error = await fill(engine, story)
        assert LIMIT <= await in_use(engine) < 1.1 * LIMIT
        assert not isinstance(error, UnstorableError)
        assert f"its limit is {LIMIT} (journal.limit)" in str(error)
        for said in kept:
            answered = story.answer(said.conversation, said.ready[0])
            await keep(engine, answered)
            await keep(engine, story.close(answered.conversation))
        with pytest.raises(EngineError, match="Nothing new is accepted"):
            await keep(engine, story.receive(story.start(), "1"))
        assert await engine.expire(1e9, STEADY) == len(kept)
        await keep(engine, story.receive(story.start(), "1"))
    async with SqliteEngine(JournalOptions(tmp_path / "j")) as engine:
        more = await fill_some(engine, story, len(kept))
        assert len(more) == len(kept), "without a limit there is none"


async def fill_some(engine, story, count):
    outcomes = [story.receive(story.start(), "x" * 60) for _ in range(count)]
    for outcome in outcomes:
        await keep(engine, outcome)
    return outcomes


async def test_a_gateway_learns_that_nothing_can_be_stored_and_handlers_continue(tmp_path, caplog):
    seen = []

    async def slow(payload, metadata):
        if isinstance(payload, Ask):
            engine._writer._limit = 1
            return HandlerResponse(payload, "b")
        seen.append(payload)
        return HandlerResponse.respond(Answer("done"))

    async def other(payload, metadata):
        return HandlerResponse.respond(Answer("there"))

    engine = SqliteEngine(JournalOptions(tmp_path / "j"), limit=LIMIT)
    async with engine, desk((listener("a", "b"), slow), (listener("b"), other), engine=engine) as d:
        handle = await d.open()
        events = [event async for event in handle.replies(d.markup(Ask("x")), "a")]
        assert [d.decode(event) for event in events if isinstance(event, Reply)] == [Answer("done")]
        assert (await handle.send(d.markup(Ask("more")), "a")).code is RejectReason.UNKEPT
        assert "its limit is 1 " in caplog.text
        engine._writer._limit = LIMIT
        assert await d.ask(Ask("again"), "b", handle) == Answer("there")
