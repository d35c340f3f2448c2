"""The entrance of a log: who waits is told, whenever a claim comes in between."""

from __future__ import annotations

import asyncio

import pytest

from agentserver.engines.conformance.sample import SampleConversation
from agentserver.engines.replica import sending
from agentserver.engines.replica.sending import Outgoing
from agentserver.engines.sqlite.steps.step import StepMaker
from agentserver.ports import FencedError
from agentserver.ports.sharing import Share

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
    async with asyncio.timeout(5):
        with pytest.raises(FencedError):
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
    async with asyncio.timeout(5):
        with pytest.raises(FencedError, match="broken"):
            await waiting
