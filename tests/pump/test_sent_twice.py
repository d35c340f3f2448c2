"""A message under its sender's own id counts once, whatever was lost on the way."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from agentserver import HandlerResponse
from agentserver.contract import SystemError as Refused
from agentserver.core.messages import Done, Reply
from agentserver.engines.memory import MemoryEngine
from agentserver.ports import MessageConflictError, NotStoredError, SubmitResult
from tests.core.paper import Answer, Ask, listener
from tests.pump.desk import desk, hang_forever, wait_until
from tests.pump.test_places import kill_shop, places, remaining_deliveries, shop

pytestmark = pytest.mark.anyio
respond = HandlerResponse.respond


class CountHandler:
    """A handler that counts its calls."""

    def __init__(self, *answers):
        self.calls, self.answers = 0, answers or ("done",)

    async def __call__(self, payload, metadata):
        self.calls += 1
        return [respond(Answer(text)) for text in self.answers]


def send_text(d, handle, way, text="hi", request="mine", to="a"):
    return getattr(handle, way)(d.markup(Ask(text)), to, request=request)


async def all_replies(d, handle, **named):
    return [each async for each in send_text(d, handle, "replies", **named)]


async def test_the_same_message_under_the_same_id_is_the_same_request(tmp_path):
    work = CountHandler()
    async with shop(tmp_path / "j", (listener("a"), work)) as d:
        handle = await d.open()
        first = await send_text(d, handle, "send")
        assert (first.code, first.again) == (None, False)
        assert await send_text(d, handle, "send") == SubmitResult(first.request, None, again=True)
        await wait_until(lambda: d.pump._accounts.pending == 0)
        assert await send_text(d, handle, "send") == SubmitResult(first.request, None, again=True)
        another = await send_text(d, handle, "send", request="another")
        assert (another.request != first.request, another.again) == (True, False)
        await wait_until(lambda: d.pump._accounts.pending == 0)
    assert work.calls == 2


@pytest.mark.parametrize("acknowledged", [False, True])
@pytest.mark.parametrize("engine", ["journal", "memory"])
async def test_its_earlier_answer_is_repeated_and_marked(tmp_path, engine, acknowledged):
    work = CountHandler("1", "2")
    memory = desk((listener("a"), work), engine=MemoryEngine())
    async with memory if engine == "memory" else shop(tmp_path / "j", (listener("a"), work)) as d:
        handle = await d.open()
        first = await all_replies(d, handle)
        if acknowledged:
            await send_text(d, handle, "send", request="another")
            await wait_until(lambda: d.pump._accounts.pending == 0)
        again = await all_replies(d, handle)
        assert again == [reply._replace(redelivered=True) for reply in first]
        assert await send_text(d, handle, "ask") == again[0]
    assert work.calls == 1 + acknowledged


async def test_other_words_or_another_target_under_the_same_id_are_refused(tmp_path):
    work = CountHandler()
    async with shop(tmp_path / "j", (listener("a"), work), (listener("b"), work)) as d:
        handle = await d.open()
        first = await send_text(d, handle, "ask")
        before = d.pump.conversation(handle.id)
        for changed in ({"text": "ho"}, {"to": "b"}, {"to": None}):
            for way in ("send", "ask"):
                with pytest.raises(MessageConflictError):
                    await send_text(d, handle, way, **changed)
            with pytest.raises(MessageConflictError):
                await all_replies(d, handle, **changed)
        assert d.pump.conversation(handle.id) == before
        assert handle._request_streams == {}
        assert await send_text(d, handle, "ask") == first._replace(redelivered=True)
    assert work.calls == 1


async def test_an_id_counts_in_its_conversation_alone(tmp_path):
    work = CountHandler()
    async with shop(tmp_path / "j", (listener("a"), work)) as d:
        one, two, other = await d.open(), await d.open(), await d.pump.open("other")
        requests = [await send_text(d, handle, "send") for handle in (one, two, other)]
        assert len({submitted.request for submitted in requests}) == 3
        await wait_until(lambda: d.pump._accounts.pending == 0)
    assert work.calls == 3


async def test_a_sender_without_an_acknowledgement_resends_its_message(tmp_path):
    async with kill_shop(tmp_path / "j", (listener("a", deadline=99), hang_forever)) as d:
        handle = await d.open()
        await send_text(d, handle, "send")  # what it gives is lost with the process
    work = CountHandler()
    async with shop(tmp_path / "j", (listener("a"), work)) as d:
        again = await d.pump.resume("console", handle.id)
        reply = await send_text(d, again, "ask")
        assert d.decode(reply) == Answer("done")
        assert not reply.redelivered, "nobody had it before"
        assert list(again.iter_waiting()) == []
        assert await remaining_deliveries(d, handle.id) == []
    assert work.calls == 1


async def test_an_answer_that_was_lost_with_its_sender_comes_again(tmp_path):
    async with kill_shop(tmp_path / "j", (listener("a"), CountHandler())) as d:
        handle = await d.open()
        first = await send_text(d, handle, "ask")
    work = CountHandler()
    async with shop(tmp_path / "j", (listener("a"), work)) as d:
        again = await d.pump.resume("console", handle.id)
        assert await all_replies(d, again) == [first._replace(redelivered=True)]
        assert list(again.iter_waiting()) == [], "it was in the outbox, and comes once"
        again.detach()
        assert await remaining_deliveries(d, handle.id) == []
    assert work.calls == 0


async def test_it_is_known_though_the_conversation_is_closed(tmp_path):
    async with kill_shop(tmp_path / "j", (listener("a"), CountHandler())) as d:
        handle = await d.open()
        first = await send_text(d, handle, "ask")
        await d.pump._boundary.close(handle.id, "over")
    async with shop(tmp_path / "j", (listener("a"), CountHandler())) as d:
        again = await d.pump.resume("console", handle.id)
        assert await send_text(d, again, "send") == SubmitResult(first.request, None, again=True)
        assert await send_text(d, again, "ask") == first._replace(redelivered=True)
        with pytest.raises(MessageConflictError):
            await send_text(d, again, "ask", text="ho")
        with pytest.raises(NotStoredError, match="ended"):
            await send_text(d, again, "ask", request="another")


@pytest.mark.parametrize("engine", ["journal", "memory"])
async def test_two_that_race_are_one(tmp_path, engine):
    work = CountHandler("1", "2")
    memory = desk((listener("a"), work), engine=MemoryEngine())
    async with memory if engine == "memory" else shop(tmp_path / "j", (listener("a"), work)) as d:
        handle = await d.open()
        found = await asyncio.gather(*(all_replies(d, handle) for _ in range(5)))
        assert len({tuple(places(replies)) for replies in found}) == 1
        assert sorted(replies[0].redelivered for replies in found) == [False, True, True, True, True]
        assert handle._request_streams == {}
    assert work.calls == 1


@pytest.mark.parametrize("why", ["validation", "busy"])
async def test_a_refusal_stays_the_same(tmp_path, why):
    work = CountHandler()
    limits = {"queue": 0} if why == "busy" else {}
    data = b"<what>" if why == "validation" else None
    async with desk((listener("a"), work), engine=MemoryEngine(), **limits) as d:
        handle = await d.open()
        data = data or d.markup(Ask("hi"))
        first = await handle.ask(data, "a", request="mine")
        assert isinstance(d.decode(first), Refused)
        again = await handle.ask(data, "a", request="mine")
        assert again == first._replace(redelivered=True)
    assert work.calls == 0


async def test_an_untaken_answer_is_repeated_to_a_watcher(tmp_path):
    async with shop(tmp_path / "j", (listener("a"), CountHandler())) as d:
        handle = await d.open()
        seen = []

        async def gateway():
            async for event in handle.events():
                seen.append(event)
                await anyio.sleep_forever()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(gateway)
            await asyncio.sleep(0)
            await send_text(d, handle, "send")
            await wait_until(lambda: seen)
            tasks.cancel_scope.cancel()
        await send_text(d, handle, "send")
        await send_text(d, handle, "send")
        events = handle.events()
        found = [await anext(events), await anext(events)]
        assert [type(event) for event in found] == [Reply, Done]
        assert [event.redelivered for event in found] == [True, False]
        assert list(handle.iter_waiting()) == []


async def test_a_message_that_is_at_work_is_waited_for(tmp_path):
    go = asyncio.Event()

    async def waits(payload, metadata):
        await go.wait()
        return respond(Answer("done"))

    async with shop(tmp_path / "j", (listener("a"), waits)) as d:
        handle = await d.open()
        with anyio.move_on_after(0.02):
            await send_text(d, handle, "ask")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(all_replies, d, handle)
            await asyncio.sleep(0)
            go.set()
        assert [d.decode(reply) for reply in await all_replies(d, handle)] == [Answer("done")]


async def test_an_answer_that_two_racing_senders_leave_goes_once_to_a_watcher():
    async with desk((listener("a"), CountHandler("1", "2"))) as d:
        handle = await d.open()
        events = handle.events()
        await asyncio.gather(*(send_text(d, handle, "ask") for _ in range(3)))
        second, end = await anext(events), await anext(events)
        assert (d.decode(second), type(end)) == (Answer("2"), Done)
        assert list(handle.iter_waiting()) == []
