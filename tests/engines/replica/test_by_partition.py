"""The work of taking up every partition grows with what there is, and not with what there is for each partition."""

from __future__ import annotations

import pytest

from agentserver.engines.conformance.sample import SampleConversation, keep
from agentserver.engines.replica.by_partition import PartitionedReading, partition_of
from agentserver.engines.replica.engine import ReplicaEngine
from agentserver.engines.replica.log import PARTITIONS
from tests.engines.together.broker import MemoryBroker, MemoryLog

pytestmark = pytest.mark.anyio
MANY = 200


async def test_all_shares_are_taken_up_with_one_reading(tmp_path):
    """Each share read all conversations, of 64 shares."""
    sample, steps = SampleConversation(), []
    async with ReplicaEngine(MemoryLog(MemoryBroker(PARTITIONS), "p"), tmp_path, "o") as engine:
        said = [sample.said(sample.opened(), "1") for _ in range(MANY)]
        for one in said:
            await keep(engine, one)

        async def counted(work):
            steps.clear()
            await engine._do(lambda: engine._connection.set_progress_handler(lambda: steps.append(1), 1))
            found = await work()
            await engine._do(lambda: engine._connection.set_progress_handler(None, 1))
            return found, len(steps)

        async def once():
            await engine._do(engine._reader.open_conversations)
            await engine._do(engine._reader.active)
            await engine._do(lambda: engine._reader.idle(1e12))

        async def every():
            held = await anext(engine.shares())
            assert len(held) == PARTITIONS
            found = [key for share in held async for key, _ in engine.open_conversations(share)]
            active = [key for share in held async for key in engine.at_work(share)]
            idle = [key for share in held async for key in engine.idle(share, 1e12)]
            return sorted(found), sorted(active), sorted(idle)

        _, least = await counted(once)
        ids = sorted(one.conversation.id for one in said)
        for _ in range(2):
            found, taken = await counted(every)
            assert found == (ids, ids, ids)
            assert taken == least


async def test_what_changes_in_a_partition_is_read_again():
    kept = ["a", "b"]

    async def read():
        return list(kept)

    reading = PartitionedReading(read, str)
    assert partition_of("a") != partition_of("b")
    assert await reading.take(partition_of("a")) == ["a"]
    kept.clear()
    assert await reading.take(partition_of("b")) == ["b"]
    assert await reading.take(partition_of("b")) == []
    kept.append("b")
    reading.changed(partition_of("b"))
    assert await reading.take(partition_of("b")) == ["b"]
