"""A server whose replica cannot be written, as on a full disk, leaves its part to others for as long as that is so."""

from __future__ import annotations

import asyncio

import pytest

from agentserver.engines.conformance.sample import SampleConversation, keep
from agentserver.engines.replica import following
from agentserver.engines.replica.engine import ReplicaEngine
from agentserver.engines.replica.log import PARTITIONS
from agentserver.ports import EngineError, FencedError
from tests.engines.together.broker import MemoryBroker, MemoryLog
from tests.machine import HANGS

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(following, "AGAIN", 0.0)


class FullDisk:
    """Stands between a follower and its replica, and lets nothing through while it is full."""

    def __init__(self, engine):
        self.full, self._replica = True, engine._following._replica
        engine._following._replica = self

    def apply(self, entries):
        if self.full:
            raise EngineError("the disk is full")
        return self._replica.apply(entries)

    def __getattr__(self, name):
        return getattr(self._replica, name)


async def holding(engine, enough):
    """Wait until an engine holds as many shares as is enough."""
    shares = engine.shares()
    while not enough(len(held := await anext(shares))):
        pass
    return held


async def test_a_full_disk_costs_a_server_its_part_until_there_is_room_again(tmp_path):
    """It kept its lease: whoever came to its part of the conversations waited."""
    broker, sample = MemoryBroker(PARTITIONS), SampleConversation()
    async with (
        ReplicaEngine(MemoryLog(broker, "a"), tmp_path / "a", "o") as one,
        ReplicaEngine(MemoryLog(broker, "b"), tmp_path / "b", "o") as other,
        asyncio.timeout(HANGS),
    ):
        await holding(other, lambda number: number)
        (share, *_) = await holding(one, lambda number: 0 < number < PARTITIONS)
        said = sample.said(sample.opened(), "1")
        while one.share_of(said.conversation.id) is None:
            said = sample.said(sample.opened(), "1")
        disk = FullDisk(one)
        with pytest.raises(FencedError, match="disk is full"):
            await keep(one, said)
        await holding(one, lambda number: not number)
        await holding(other, lambda number: number == PARTITIONS)
        assert await other.load(said.conversation.id) == said.conversation, "it was in the log before"
        with pytest.raises(EngineError, match="disk is full"):
            await one.claim("n", "c", 1.0)
        disk.full = False
        await holding(one, lambda number: number)
        assert await one.load(said.conversation.id) == said.conversation
        again = sample.said(sample.opened(), "2")
        while one.share_of(again.conversation.id) is None:
            again = sample.said(sample.opened(), "2")
        await keep(one, again)
        assert share.epoch < one.share_of(again.conversation.id).epoch


async def test_trouble_that_is_over_soon_costs_nothing(tmp_path):
    broker, sample = MemoryBroker(PARTITIONS), SampleConversation()
    async with ReplicaEngine(MemoryLog(broker, "a"), tmp_path, "o") as engine:
        held = await holding(engine, lambda number: number)
        disk, failures = FullDisk(engine), []
        replica = disk._replica

        class Brief:
            def apply(self, entries):
                failures.append(1)
                if len(failures) < following.STUCK:
                    raise EngineError("the disk is full")
                return replica.apply(entries)

            def __getattr__(self, name):
                return getattr(replica, name)

        disk._replica, disk.full = Brief(), False
        await keep(engine, sample.said(sample.opened(), "1"))
        assert len(failures) >= following.STUCK
        assert await anext(engine.shares()) == held
