"""Flows that sleep, or that wait for a limited time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from agentserver import SystemError
from agentserver.assembly import build
from agentserver.config.keys.models import Journal
from agentserver.contract import Code
from agentserver.core.records.audit import Event
from agentserver.flow import Refused, TimedOut, ask, gather, now, sleep, tell, wait_for
from agentserver.testing import FakeClock, listener, organism, organism_of
from tests.flow.test_handler import Find, Found, Invoice, Paid

pytestmark = pytest.mark.anyio

DAYS = timedelta(days=3)


async def remind(invoice: Invoice) -> Paid:
    """Pay three days later."""
    await sleep(DAYS)
    found = await ask("ledger", Find(f"v{invoice.number}"), reply=Found)
    return Paid(found.what)


async def urge(invoice: Invoice) -> Paid:
    """Wait three days for an answer."""
    try:
        found = await wait_for(ask("slow", Find("x"), reply=Found), timeout=DAYS)
    except TimedOut as late:
        return Paid(f"{late.to} {late.code.value}")
    return Paid(found.what)


async def ledger(find: Find) -> Found:
    return Found(f"re {find.what}")


def house(desk, slow=ledger):
    """An organism with a flow, a listener that answers and one that may take its time."""
    return organism_of(
        listener("desk", desk, peers=["ledger", "slow"]),
        listener("ledger", ledger),
        listener("slow", slow),
    )


async def slow(find: Find) -> Found:
    """Answer five days later."""
    await sleep(timedelta(days=5))
    return Found("at last")


async def test_now_is_the_time_by_which_a_flow_is_woken():
    async def measure(invoice: Invoice) -> Paid:
        began = await now()
        await sleep(DAYS)
        return Paid(str((await now() - began) // timedelta(hours=1)))

    async with organism(await asyncio.to_thread(house, measure)) as o:
        await o.send(Invoice(1), to="desk")
        await o.advance(DAYS)
        assert await o.drain() == [Paid("72")]


async def test_a_flow_sleeps_three_days():
    async with organism(await asyncio.to_thread(house, remind)) as o:
        await o.send(Invoice(7), "desk")
        await o.advance(timedelta(days=2))
        assert await answers_so_far(o) == []
        await o.advance(timedelta(days=1))
        assert await o.drain() == [Paid("re v7")]


async def answers_so_far(o):
    """Return the answers so far."""
    return [record.to for record in o.trace().records if record.event is Event.ANSWERED]


async def test_an_answer_in_time_cancels_the_timer():
    async with organism(await asyncio.to_thread(house, urge)) as o:
        assert await o.ask(Invoice(1), "desk") == Paid("re x")
        names = [record.root for record in o.trace().records if record.event is Event.DROPPED]
        assert names == ["TimerFired"]


async def test_an_expired_wait_raises_and_a_later_answer_is_dropped():
    async with organism(await asyncio.to_thread(house, urge, slow)) as o:
        await o.send(Invoice(1), "desk")
        await o.advance(DAYS)
        assert await o.drain() == [Paid("slow timeout")]


async def test_a_flow_that_continues_after_an_expired_wait_ignores_the_late_answer():
    async def patient(invoice: Invoice) -> Paid:
        try:
            await wait_for(ask("slow", Find("x"), reply=Found), timeout=DAYS)
        except TimedOut:
            await sleep(timedelta(days=10))
        return Paid("in peace")

    async with organism(await asyncio.to_thread(house, patient, slow)) as o:
        await o.send(Invoice(1), "desk")
        for _ in range(4):
            await o.advance(timedelta(days=4))
        assert await o.drain() == [Paid("in peace")]


async def test_a_coroutine_is_closed_when_it_expires():
    closed = []

    async def both():
        try:
            return await gather(ask("slow", Find("a"), reply=Found), sleep(timedelta(days=9)))
        finally:
            closed.append(True)

    async def desk(invoice: Invoice) -> Paid:
        try:
            await wait_for(both(), timeout=DAYS)
        except TimedOut as late:
            return Paid(late.to.rpartition(".")[2])
        return Paid("?")

    async with organism(await asyncio.to_thread(house, desk, slow)) as o:
        await o.send(Invoice(1), "desk")
        await o.advance(DAYS)
        assert await o.drain() == [Paid("both")]
        assert closed == [True]


async def test_an_expired_part_may_only_clean_up():
    async def stubborn():
        try:
            await ask("slow", Find("a"), reply=Found)
        finally:
            await tell("ledger", Find("b"))

    async def desk(invoice: Invoice) -> Paid:
        await wait_for(stubborn(), timeout=DAYS)
        return Paid("?")

    async with organism(await asyncio.to_thread(house, desk, slow)) as o:
        await o.send(Invoice(1), "desk")
        await o.advance(DAYS)
        (error,) = await o.drain()
        assert isinstance(error, SystemError)
        assert error.code is Code.INTERNAL


async def test_a_refused_request_ends_a_wait_at_once():
    async def desk(invoice: Invoice) -> Paid:
        try:
            await wait_for(ask("nobody", Find("a")), timeout=DAYS)
        except TimedOut:
            return Paid("late")
        except Refused as error:
            return Paid(type(error).__name__)
        return Paid("?")

    async with organism(await asyncio.to_thread(house, desk)) as o:
        assert await o.ask(Invoice(1), "desk") == Paid("Refused")


@pytest.mark.parametrize("time", [timedelta(-1), timedelta(days=3651)])
async def test_a_time_out_of_range_is_an_error(time):
    with pytest.raises(ValueError, match="from 0 seconds to ten years"):
        sleep(time)
    with pytest.raises(ValueError, match="from 0 seconds to ten years"):
        wait_for(ask("a", Find("a")), timeout=time)


async def test_a_sleeping_flow_wakes_once_after_a_restart(tmp_path):
    clock, calls = FakeClock(), []

    async def desk(invoice: Invoice) -> Paid:
        calls.append("begun")
        await sleep(DAYS)
        await ask("ledger", Find("x"), reply=Found)
        return Paid("done")

    made = replace(await asyncio.to_thread(house, desk), project=tmp_path, journal=Journal())
    async with await asyncio.to_thread(build, made, clock=clock, durable=True) as server:
        handle = await server.open("console")
        codec = server.rules.codecs.of(Invoice)
        await handle.send(codec.encode(Invoice(1)).encode(), "desk")
        await server.settle_timers()
        conversation = handle.id
    clock.advance(4 * 86_400)
    for _ in range(2):
        async with await asyncio.to_thread(build, made, clock=clock, durable=True) as server:
            await server.settle_timers()
            left = [
                event.root async for event in server.engine.outbox(conversation) if hasattr(event, "root")
            ]
            assert [root.rpartition("}")[2] for root in left] == ["Paid"]
    assert calls == ["begun", "begun"], "it was run again from its log, once"
