"""An idle conversation is given back, and any server may claim it."""

from __future__ import annotations

import asyncio

import pytest

from agentserver.pump.claims import IdleReleaser
from agentserver.pump.timekeeper import Timekeeper
from tests.core.paper import Ask, listener
from tests.machine import HANGS
from tests.pump.desk import answer, wait_until
from tests.pump.pair import pair, watch_events
from tests.pump.test_approvals_of_others import ask_a, shop

pytestmark = pytest.mark.anyio

A = listener("a")


async def test_an_idle_conversation_is_given_back_and_claimed_where_the_next_message_arrives():
    async with pair((A, answer)) as two:
        handle = await two.a.open()
        assert (await two.a.ask(Ask("1"), handle=handle)).text == "re: 1"
        await two.a.pump.releasing.release()
        two.a.pump.releasing.idle_time = HANGS
        await two.a.pump.releasing.release()
        assert two.owner(handle.id) == "a", "it has to rest for a while"
        two.a.pump.releasing.idle_time = 0.0
        await two.a.pump.releasing.release()
        assert (two.owner(handle.id), two.a.pump._live, two.a.pump._claims) == ("", {}, {})
        assert two.a.pump._accounts.counts_of("console") == (0, 0, 0)
        there = await two.b.pump.resume("console", (await _detach_handle(handle)).id)
        assert (await two.b.ask(Ask("2"), handle=there)).text == "re: 2"
        assert (two.owner(there.id), two.storage.inbox) == ("b", {})


async def _detach_handle(handle):
    handle.detach()
    return handle


async def test_a_gateway_continues_over_a_release_and_gets_everything_once():
    async with pair((A, answer)) as two:
        handle = await two.a.open()
        watching = asyncio.ensure_future(watch_events(two.a.pump, handle.id, enough=3))
        for number in range(3):
            assert (await two.a.ask(Ask(f"{number}"), handle=handle)).text == f"re: {number}"
            await two.rest("a")
            assert two.owner(handle.id) == ""
        found, _ = await watching
        assert len(found) == len({event.place for event in found})


async def test_a_running_or_changing_conversation_is_kept():
    going = asyncio.Event()

    async def slow(payload, metadata):
        await going.wait()
        return await answer(payload, metadata)

    async with pair((A, slow)) as two:
        handle = await two.a.open()
        asking = asyncio.ensure_future(two.a.ask(Ask("1"), handle=handle))
        await wait_until(lambda: two.a.pump.running())
        for _ in range(3):
            await two.a.pump.releasing.release()
        assert two.owner(handle.id) == "a"
        going.set()
        await asking
        await two.a.pump.releasing.release()
        assert two.owner(handle.id) == "a", "its last step was since"
        await two.a.pump.releasing.release()
        assert two.owner(handle.id) == ""


async def test_an_unreachable_storage_withholds_no_idle_conversation():
    async with pair((A, answer)) as two:
        handle = await two.a.open()
        assert (await two.a.ask(Ask("1"), handle=handle)).text == "re: 1"
        two.storage.away = True
        await two.rest("a")
        two.storage.away = False
        assert two.owner(handle.id) == "a", "as far as the storage knows"
        await two.rested()
        handle.detach()
        there = await two.b.pump.resume("console", handle.id)
        assert (await two.b.ask(Ask("2"), handle=there)).text == "re: 2"
        assert two.owner(handle.id) == "b"


async def test_an_idle_conversation_of_a_living_server_is_claimed_and_its_copy_dropped():
    async with pair((A, answer)) as two:
        handle = await two.a.open()
        assert (await two.a.ask(Ask("1"), handle=handle)).text == "re: 1"
        handle.detach()
        await two.rested()
        there = await two.b.pump.resume("console", handle.id)
        assert (await two.b.ask(Ask("2"), handle=there)).text == "re: 2"
        assert two.owner(handle.id) == "b"
        await wait_until(lambda: not two.a.pump._live)
        assert (await two.a.pump.entrance.find_conversation("console", handle.id)).principal == "console"


async def test_a_conversation_waiting_for_a_person_is_kept_and_taken_over_when_its_server_dies(monkeypatch):
    late, seconds_left = [], Timekeeper.seconds_left
    monkeypatch.setattr(Timekeeper, "seconds_left", lambda *args: 0.0 if late else seconds_left(*args))
    async with shop() as two:
        key, approval = await ask_a(two)
        await two.rest("a")
        await two.rested()
        assert two.owner(key) == "a"
        assert two.b.pump.approvals() == (approval,)
        await two.stop("a")
        await wait_until(lambda: key in two.b.pump._live)
        assert two.b.pump.approvals() == (approval,)
        late.append(True)
        two.b.pump._approvals.stir()
        found, _ = await watch_events(two.b.pump, key, enough=1)
        assert "denied" in two.b.decode(found[0]).text
        assert two.b.pump.approvals() == ()


async def test_releasing_happens_automatically():
    async with pair((A, answer)) as two:
        handle = await two.a.open()
        assert (await two.a.ask(Ask("1"), handle=handle)).text == "re: 1"
        pump = two.a.pump
        running = asyncio.ensure_future(
            IdleReleaser(pump._copies, pump._steps.lock.inside, 0.01, 0.001).run()
        )
        await wait_until(lambda: two.owner(handle.id) == "")
        running.cancel()
