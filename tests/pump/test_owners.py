"""Gateways of one process speak to conversations of another one as to their own."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from agentserver.core.blueprint import Listener
from agentserver.core.messages import Done, Reply
from agentserver.ports import (
    EngineError,
    MessageConflictError,
    NotStoredError,
    QuotaError,
    RejectReason,
    WatchEnd,
)
from agentserver.pump import handles
from tests.core.paper import Note
from tests.machine import HANGS
from tests.pump.desk import answer, wait_until
from tests.pump.pair import pair, watch_events

pytestmark = pytest.mark.anyio

A = Listener("a", (Note,), "answers")


def decoded_texts(desk, events):
    return [desk.decode(event).text for event in events if isinstance(event, Reply)]


async def open_answered(desk, ask="1"):
    """A conversation of this process with one answer, that no gateway has."""
    handle = await desk.open()
    handle.detach()
    await desk.pump.entrance.submit("console", handle.id, desk.markup(Note(ask)), "a", None)
    found, _ = await watch_events(desk.pump, handle.id, enough=1)
    assert decoded_texts(desk, found) == [f"re: {ask}"]
    return handle.id


async def test_a_conversation_is_claimed_where_it_is_opened_and_found_everywhere():
    async with pair((A, answer)) as two:
        for name, desk in two.desks.items():
            handle = await desk.open()
            assert two.owner(handle.id) == name
            for other in two.desks.values():
                assert (
                    await other.pump.entrance.find_conversation("console", handle.id)
                ).principal == "console"


async def test_nothing_that_only_reads_claims_anything():
    async with pair((A, answer)) as two:
        key = await open_answered(two.a)
        await two.rest("a")
        assert two.owner(key) == ""
        gate = two.b.pump.entrance
        assert not (await gate.find_conversation("console", key)).over
        found, _ = await watch_events(two.b.pump, key, enough=1)
        assert decoded_texts(two.b, found) == ["re: 1"]
        assert await gate.find_events("console", key, "unknown") == ()
        await gate.confirm("console", key, found[-1].place)
        handle = await two.b.pump.resume("console", key)
        assert [type(event) for event in handle.iter_waiting()] == [Done]
        assert (two.owner(key), two.b.pump._live) == ("", {})


async def test_a_quota_of_open_conversations_is_of_all_processes_together():
    async with pair((A, answer), principal_conversations=3) as two:
        handles = [await desk.open() for desk in (two.a, two.b, two.a)]
        for desk in (two.a, two.b):
            with pytest.raises(QuotaError, match="3 conversations open"):
                await desk.open()
        await handles[0].close()
        await two.b.open()


async def test_a_message_to_a_conversation_of_another_process_is_answered_by_it():
    async with pair((A, answer)) as two:
        key = await open_answered(two.a)
        submitted = await two.b.pump.entrance.submit("console", key, two.b.markup(Note("2")), "a", None)
        assert (submitted.code, submitted.again) == (None, False)
        found, _ = await watch_events(two.b.pump, key, after=submitted.after, enough=1)
        assert decoded_texts(two.b, found) == ["re: 2"]
        assert two.a.pump.conversation(key).version == 5  # with its opening


async def test_a_conversation_that_was_opened_at_one_process_is_answered_through_another():
    async with pair((A, answer)) as two:
        handle = await two.a.open()
        handle.detach()
        submitted = await two.b.pump.entrance.submit("console", handle.id, two.b.markup(Note("1")), "a", None)
        assert submitted.code is None
        found, _ = await watch_events(two.b.pump, handle.id, enough=1)
        assert decoded_texts(two.b, found) == ["re: 1"]


async def test_one_of_nobody_or_of_another_principal_is_unknown_everywhere():
    async with pair((A, answer)) as two:
        key = await open_answered(two.a)
        for who, which in (
            ("ada", key),
            ("console", key[:-6] + "abcdef"),
            ("console", "x" * 500),
            ("console", ""),
        ):
            for desk in (two.a, two.b):
                for call in (
                    desk.pump.entrance.submit(who, which, desk.markup(Note("2")), "a", None),
                    desk.pump.entrance.find_conversation(who, which),
                    desk.pump.entrance.cancel(who, which, "1", ""),
                    desk.pump.entrance.end(who, which, ""),
                ):
                    with pytest.raises(LookupError):
                        await call


async def test_the_same_request_id_at_two_processes_is_one_message():
    async with pair((A, answer)) as two:
        key = await open_answered(two.a)
        data = two.a.markup(Note("2"))
        one, other = await asyncio.gather(
            *(desk.pump.entrance.submit("console", key, data, "a", "mine") for desk in (two.a, two.b))
        )
        assert one.request == other.request
        assert sorted([one.again, other.again]) == [False, True]
        for desk in (two.a, two.b):
            with pytest.raises(MessageConflictError):
                await desk.pump.entrance.submit("console", key, desk.markup(Note("3")), "a", "mine")


async def test_a_message_that_is_refused_is_refused_at_the_other_process_too():
    async with pair((A, answer)) as two:
        key = await open_answered(two.a)
        data = two.b.markup(Note("2"))
        submitted = await two.b.pump.entrance.submit("console", key, data, "nowhere", None)
        assert submitted.code == "routing"
        found, _ = await watch_events(two.b.pump, key, after=submitted.after, enough=1)
        assert found[0].error


async def test_a_watch_gives_everything_once_in_order_until_the_end():
    async with pair((A, answer)) as two:
        key = await open_answered(two.a)
        watching = asyncio.ensure_future(watch_events(two.b.pump, key))
        for number in range(2, 200):
            await two.a.pump.entrance.submit("console", key, two.a.markup(Note(str(number))), "a", None)
        await two.a.pump.entrance.end(None, key, "ada")
        found, why = await watching
        assert why is WatchEnd.CLOSED
        places = [event.place for event in found]
        assert places == sorted(set(places))
        assert decoded_texts(two.b, found)[:3] == ["re: 1", "re: 2", "re: 3"]


async def test_a_message_for_a_finished_request_is_reported_as_too_late():
    async with pair((A, answer)) as two:
        key = await open_answered(two.a)
        await two.b.pump.entrance.end("console", key, "")
        submitted = await two.b.pump.entrance.submit("console", key, two.b.markup(Note("2")), "a", None)
        assert submitted.code is RejectReason.OVER
        assert two.a.pump.conversation(key) is None


async def test_a_request_is_cancelled_from_another_process():
    began = asyncio.Event()

    async def slow(payload, metadata):
        began.set()
        await asyncio.Event().wait()

    async with pair((A, slow)) as two:
        handle = await two.a.open()
        submitted = await handle.send(two.a.markup(Note("1")), "a")
        await began.wait()
        assert await two.b.pump.entrance.cancel("console", handle.id, submitted.request, "")
        assert not await two.b.pump.entrance.cancel("console", handle.id, submitted.request, "")
        await two.b.pump.entrance.end(None, handle.id, "ada")
        found, _ = await watch_events(two.b.pump, handle.id)
        assert [type(event) for event in found] == [Done]


async def test_a_gateway_holds_a_conversation_of_another_process():
    async with pair((A, answer)) as two:
        key = await open_answered(two.a)
        handle = await two.b.pump.resume("console", key)
        assert (await two.b.ask(Note("2"), handle=handle)).text == "re: 2"
        async for reply in handle.replies(two.b.markup(Note("3")), "a"):
            assert two.b.decode(reply).text == "re: 3"
        first = await handle.send(two.b.markup(Note("4")), "a", request="mine")
        again = await handle.send(two.b.markup(Note("4")), "a", request="mine")
        assert (again.again, again.request) == (True, first.request)
        events = handle.events()
        while True:  # what was acknowledged at the other process a moment ago may come again
            event = await anext(events)
            if isinstance(event, Reply) and two.b.decode(event).text == "re: 4":
                break
            assert event.redelivered or event.place < first.after
        assert two.b.pump.conversation(key).version >= 7
        await handle.close()
        await wait_until(lambda: two.a.pump.conversation(key) is None)
        assert all(isinstance(event, Done) for event in [event async for event in events])


async def test_unreadable_news_is_shown_once_it_can_be_read(monkeypatch):
    """It was logged, and whoever waited for it waited for the next."""
    monkeypatch.setattr(handles, "backoff", lambda _: 0.0)
    async with pair((A, answer)) as two:
        key = await open_answered(two.a)
        handle = await two.b.pump.resume("console", key)
        engine, failures = two.engines["b"], [3]
        read = engine.find_conversation

        async def read_stopped(conversation):
            if failures[0]:
                failures[0] -= 1
                raise EngineError("the disk does not answer")
            return await read(conversation)

        monkeypatch.setattr(engine, "find_conversation", read_stopped)
        await two.a.pump.entrance.submit("console", key, two.a.markup(Note("2")), "a", None)
        async with aclosing(handle.events()) as events:
            async for event in events:
                if isinstance(event, Reply) and two.b.decode(event).text == "re: 2":
                    break
        assert failures == [0]


async def test_a_reply_that_was_read_before_its_news_came_does_not_come_again_with_the_news(monkeypatch):
    """It was given as new twice: once of what the engine tells, and once when the news of it was dealt with."""
    async with pair((A, answer)) as two:
        key = await open_answered(two.a)
        handle = await two.b.pump.resume("console", key)
        for _ in handle.iter_waiting():
            pass
        views, handles, late = two.b.pump.entrance.views, two.b.pump.entrance.handles, asyncio.Event()
        show, events_of = views.show, handles.events_of

        async def held_up(news):
            await late.wait()
            await show(news)

        async def read(conversation, request):
            while len(found := await events_of(conversation, request)) < 2:  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0)
            late.set()
            return found

        monkeypatch.setattr(views, "show", held_up)
        monkeypatch.setattr(handles, "events_of", read)
        data = two.b.markup(Note("2"))
        first = await handle.send(data, "a", request="mine")
        async with asyncio.timeout(HANGS):
            replies = [reply async for reply in handle.replies(data, "a", request="mine")]
            assert (await two.b.ask(Note("3"), handle=handle)).text == "re: 3"  # news come in their order
        assert decoded_texts(two.b, replies) == ["re: 2"]
        assert [event for event in handle.iter_waiting() if event.request == first.request] == []


async def test_a_name_of_its_principals_is_one_conversation_at_all_processes():
    async with pair((A, answer)) as two:
        desks = two.a, two.b, two.a, two.b
        handles = await asyncio.gather(*(desk.pump.open("ada", "mine") for desk in desks))
        assert len({handle.id for handle in handles}) == 1
        assert [handle.over for handle in handles] == [True, True, False, False], "one gateway of each has it"
        for number, (desk, handle) in enumerate(zip(desks[2:], handles[2:], strict=True)):
            assert (await desk.ask(Note(f"{number}"), handle=handle)).text == f"re: {number}"
        assert len(two.storage.rows) == 1


async def test_an_opening_that_cannot_be_stored_leaves_nothing_behind():
    async with pair((A, answer)) as two:
        two.storage.away = True
        with pytest.raises(NotStoredError):
            await two.a.open()
        two.storage.away = False
        pump = two.a.pump
        assert (pump._live, pump._claims, pump._handles.handles, two.engines["a"].mine) == ({}, {}, {}, {})
        assert pump._accounts.counts_of("console") == (0, 0, 0)


async def test_a_message_that_an_owner_before_has_decided_meanwhile_is_not_decided_again():
    async with pair((A, answer)) as two:
        handle = await two.a.open()
        outside = two.a.pump.entrance.handles.make_outside(
            "console", handle.id, two.a.markup(Note("1")), "a", "mine"
        )
        first = await two.a.pump.entrance.receive_here("console", handle.id, outside)
        second = await two.a.pump.entrance.receive_here("console", handle.id, outside)
        assert (first.again, second.again, second.request) == (False, True, first.request)
        assert two.a.pump.conversation(handle.id) is not None
