"""Pumps over engines on one log, while the shares of the conversations move."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from random import Random

import anyio
import pytest

from agentserver import HandlerResponse, invocation
from agentserver.core.messages import UNDECIDED, Reply
from agentserver.engines.replica.engine import ReplicaEngine
from agentserver.engines.replica.log import PARTITIONS
from agentserver.ports import EngineError
from tests.core.paper import Answer, Ask, listener
from tests.engines.together.broker import MemoryBroker, MemoryLog
from tests.machine import HANGS
from tests.pump.desk import desk, until

pytestmark = pytest.mark.anyio

SERVERS = 3


class Chain:
    """Two listeners, of which the second fails now and then; notes the epochs in which each delivery was run."""

    def __init__(self, random):
        self.random, self.epochs = random, {}

    async def passing(self, payload, metadata):
        await asyncio.sleep(self.random.random() * 0.01)
        if isinstance(payload, Answer):
            return HandlerResponse.respond(payload)
        return HandlerResponse(Ask(payload.text), "b")

    async def ending(self, payload, metadata):
        now = invocation()
        self.epochs.setdefault(now.idempotency_key, []).append(now.epoch)
        await asyncio.sleep(self.random.random() * 0.01)
        if self.random.random() < 0.2:
            raise ValueError("once more")
        return HandlerResponse.respond(Answer(payload.text))


async def opened(one):
    """A conversation that is this server's."""
    handle = await one.open()
    while not one.pump._shares.has(handle.id):
        handle.detach()
        handle = await one.open()
    return handle


async def test_every_request_is_answered_once_and_epochs_only_grow(tmp_path):
    random, broker = Random(7), MemoryBroker(PARTITIONS)
    chain = Chain(random)
    pairs = (
        (listener("a", "b", concurrency=4), chain.passing),
        (listener("b", retries=50, concurrency=4), chain.ending),
    )
    async with AsyncExitStack() as stack:
        logs = [MemoryLog(broker, f"p{number}") for number in range(SERVERS)]
        engines = [
            await stack.enter_async_context(ReplicaEngine(log, tmp_path / log.name, "o")) for log in logs
        ]
        desks = [await stack.enter_async_context(desk(*pairs, engine=engine)) for engine in engines]
        await until(lambda: sum(len(one.pump._shares.held) for one in desks) == PARTITIONS)
        handles = []
        for number in range(24):
            one = desks[number % SERVERS]
            handles.append(await opened(one))
            await one.send(handles[-1], Ask("x"))
        for _ in range(100):
            broker.claim(random.randrange(PARTITIONS), f"p{random.randrange(SERVERS)}")
            await asyncio.sleep(random.random() * 0.005)
        with anyio.fail_after(HANGS):
            for handle in handles:
                while (await engines[0].load(handle.id)).requests:  # noqa: ASYNC110 - a replica has no event
                    await asyncio.sleep(0.02)
        await until(lambda: all(one.pump._accounts.rest.is_set() for one in desks))
        nothing = {"a": (0, 0), "b": (0, 0)}  # a handler whose conversation has gone may be ending yet
        await until(lambda: all(one.pump.queues() == nothing for one in desks))
        left = [await engines[1].left(handle.id, UNDECIDED, 100) for handle in handles]
    assert [len([event for event in events if isinstance(event, Reply)]) for events in left] == [1] * len(
        handles
    )
    assert all(epochs == sorted(epochs) for epochs in chain.epochs.values())


async def test_a_server_whose_log_cannot_be_followed_any_more_ends_with_the_reason(tmp_path):
    """It went on with nothing to do, and refused everybody."""
    broker = MemoryBroker(PARTITIONS)
    log = MemoryLog(broker, "p0")
    with pytest.raises(ExceptionGroup) as group:
        async with ReplicaEngine(log, tmp_path, "o") as engine, desk(engine=engine) as one:
            await until(lambda: len(one.pump._shares.held) == PARTITIONS)
            broker.append(0, None, b"AGE9 of a later version", "id")
            await asyncio.Event().wait()
    assert group.group_contains(EngineError, match="upgrade this server")
