"""The entrance of a log: who waits is told, whenever a claim comes in between."""

from __future__ import annotations

import asyncio

import pytest

from agentserver.engines.conformance.sample import SampleConversation
from agentserver.engines.replica import sending
from agentserver.engines.replica.entries import form
from agentserver.engines.replica.entries.acts import Departing
from agentserver.engines.replica.sending import Outgoing
from agentserver.engines.sqlite.rows import Left
from agentserver.engines.sqlite.steps.step import StepMaker
from agentserver.ports import EngineError, FencedError
from agentserver.ports.sharing import Share
from tests.machine import HANGS

pytestmark = pytest.mark.anyio


class ClaimedLog:
    """A log in which everything was claimed by others."""

    away = ""
    most = 1 << 20

    async def append(self, partition, epoch, entry, id):  # noqa: A002 - the Protocol's
        raise FencedError("another process has claimed it")


async def test_a_claim_that_is_applied_while_a_large_entry_is_made_leaves_no_one_waiting(monkeypatch):
    """Who was told by the claim did not count this one yet: its step, and SIGTERM with it, waited for ever."""
    monkeypatch.setattr(sending, "LARGE", 0)
    held, sample, steps = [Share(0, 5)], SampleConversation(), StepMaker()

    async def apart(work):
        held[0] = Share(0, 9)
        return work()

    outgoing = Outgoing(ClaimedLog(), steps, lambda _: held[0], apart)
    waiting = outgoing.put(0, steps.encode(sample.said(sample.opened(), "1")), Share(0, 5))
    async with asyncio.timeout(HANGS):
        with pytest.raises(FencedError):
            await waiting


class FullLog:
    """A log that has no room the first time."""

    away = ""
    most = 1 << 20

    def __init__(self):
        self.kept, self.asked = [], 0
        self.grown = asyncio.Event()

    async def append(self, partition, epoch, entry, id):  # noqa: A002 - the Protocol's
        self.asked += 1
        if self.asked == 1:
            raise EngineError("the broker keeps nothing: maximum bytes exceeded")
        self.kept += form.load(entry)
        self.grown.set()


async def test_an_event_that_left_is_let_out_of_the_outbox_though_the_log_refused_it_once(monkeypatch):
    """It was forgotten, and the event told again as if it never had been."""
    monkeypatch.setattr(sending, "AGAIN", 0.0)
    monkeypatch.setattr(sending, "LATER", 0.0)
    log, left, sample, steps = FullLog(), Left("c", 3, 0), SampleConversation(), StepMaker()
    outgoing = Outgoing(log, steps, lambda _: Share(0, 5), None)
    outgoing.leave(0, left)
    waiting = outgoing.put(0, steps.encode(sample.said(sample.opened(), "1")), Share(0, 5))
    async with asyncio.timeout(HANGS):
        with pytest.raises(EngineError, match="maximum bytes"):
            await waiting
        assert list(outgoing.leaving()) == [left]
        await log.grown.wait()
    assert log.kept == [Departing(left)]
    assert list(outgoing.leaving()) == [left], "until a replica has it"


async def test_an_entry_is_sent_again_after_a_failure_that_nobody_expected(monkeypatch, caplog):
    """Its task ended with it: whoever waited for the entry waited for ever, and nothing told of it."""
    monkeypatch.setattr(sending, "AGAIN", 0.0)
    log, left, ids = FullLog(), Left("c", 3, 0), []
    append, log.asked = log.append, 1

    async def broken(partition, epoch, entry, id):  # noqa: A002 - the Protocol's
        ids.append(id)
        if len(ids) == 1:
            raise RuntimeError("the transport is closed")
        await append(partition, epoch, entry, id)

    log.append = broken
    outgoing = Outgoing(log, StepMaker(), lambda _: Share(0, 5), None)
    outgoing.put(0, Departing(left))
    async with asyncio.timeout(HANGS):
        await log.grown.wait()
    assert (log.kept, len(ids), len(set(ids))) == ([Departing(left)], 2, 1)
    assert "the transport is closed" in caplog.text


async def test_an_event_is_on_its_way_out_also_while_a_large_entry_is_made(monkeypatch):
    monkeypatch.setattr(sending, "LARGE", 0)
    left, sample, steps, seen = Left("c", 3, 0), SampleConversation(), StepMaker(), []

    async def apart(work):
        seen.extend(outgoing.leaving())
        return work()

    log = FullLog()
    log.asked = 1
    outgoing = Outgoing(log, steps, lambda _: Share(0, 5), apart)
    outgoing.leave(0, left)
    outgoing.put(0, steps.encode(sample.said(sample.opened(), "1")), Share(0, 5))
    async with asyncio.timeout(HANGS):
        await log.grown.wait()
    assert seen == list(outgoing.leaving()) == [left]


async def test_who_waits_for_a_large_entry_that_is_being_made_is_told_that_nothing_comes(monkeypatch):
    monkeypatch.setattr(sending, "LARGE", 0)
    making, sample, steps = asyncio.Event(), SampleConversation(), StepMaker()

    async def apart(work):
        making.set()
        await asyncio.Event().wait()

    outgoing = Outgoing(FullLog(), steps, lambda _: Share(0, 5), apart)
    waiting = outgoing.put(0, steps.encode(sample.said(sample.opened(), "1")), Share(0, 5))
    await making.wait()
    await outgoing.close(0.0)
    with pytest.raises(EngineError, match="closed"):
        await waiting


async def test_who_waits_is_told_that_the_log_is_broken():
    held, sample, steps = [Share(0, 5)], SampleConversation(), StepMaker()

    async def apart(work):
        return work()

    outgoing = Outgoing(ClaimedLog(), steps, lambda _: held[0], apart)
    waiting = outgoing.put(0, steps.encode(sample.said(sample.opened(), "1")), Share(0, 5))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    outgoing.give_back("broken")
    async with asyncio.timeout(HANGS):
        with pytest.raises(FencedError, match="broken"):
            await waiting
