"""A conversation is claimed and read when something is to be decided about it."""

from __future__ import annotations

import pytest

from agentserver.core.messages import Reply
from agentserver.ports import FencedError
from tests.core.paper import Ask, listener
from tests.pump.desk import answer, wait_until
from tests.pump.pair import pair

pytestmark = pytest.mark.anyio

A = listener("a")


async def release_answer(two):
    """A conversation with one answer that belongs to nobody."""
    handle = await two.a.open()
    assert (await two.a.ask(Ask("1"), handle=handle)).text == "re: 1"
    handle.detach()
    await two.rest("a")
    return handle.id


async def test_a_conversation_that_is_lost_while_it_is_read_is_not_at_work():
    async with pair((A, answer)) as two:
        key = await release_answer(two)
        load = two.engines["a"].load

        async def lose_found(conversation):
            found = await load(conversation)
            two.storage.move(conversation, "b")
            return found

        two.engines["a"].load = lose_found
        with pytest.raises(FencedError):
            await two.a.pump._finder.find(key)
        assert (two.a.pump._live, two.a.pump._claims) == ({}, {})


async def test_news_of_a_loss_that_is_older_than_the_claim_drops_nothing():
    async with pair((A, answer)) as two:
        key = await release_answer(two)
        assert await two.a.pump._finder.find(key) is not None
        two.a.pump._copies.lose_outdated([key, "unknown"])
        assert key in two.a.pump._live
        del two.engines["a"].mine[key]
        two.a.pump._copies.lose_outdated([key])
        assert key not in two.a.pump._live


async def test_one_that_is_closed_or_unknown_is_found_nowhere_and_not_held():
    async with pair((A, answer)) as two:
        key = await release_answer(two)
        await two.b.pump.entrance.end("console", key, "")
        for engine, desk in zip(two.engines.values(), two.desks.values(), strict=True):
            assert await desk.pump._finder.find(key) is None
            assert await desk.pump._finder.find("unknown") is None
            assert engine.mine == desk.pump._claims == {}


async def test_messages_sent_at_another_server_come_before_those_sent_here(monkeypatch):
    """The news of it came too late: it was taken for older than what had been shown, and never was."""
    async with pair((A, answer)) as two:
        key = await release_answer(two)
        handle = await two.a.pump.resume("console", key)
        seen = [event.place async for event in _yield_event(handle)]

        async def deaf(news):
            """Never come to it."""

        monkeypatch.setattr(two.a.pump.entrance.views, "show", deaf)
        await two.b.pump.entrance.submit("console", key, two.b.markup(Ask("2")), "a", None)
        await wait_until(lambda: key in two.b.pump._live and not two.b.pump._live[key].requests)
        await two.rest("b")
        await handle.send(two.a.markup(Ask("3")), "a")
        found = []
        async for event in handle.events():
            if event.place not in seen:
                found += [two.a.decode(event).text] if isinstance(event, Reply) else []
            if len(found) == 2:
                break
        assert found == ["re: 2", "re: 3"]


async def _yield_event(handle):
    for event in handle.iter_waiting():
        yield event
