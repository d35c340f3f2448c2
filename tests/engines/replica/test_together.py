"""Engines over one log at once, in memory: the promises of engines that share their storage, and of every engine."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from agentserver.engines.conformance import CHECKS, Subject
from agentserver.engines.conformance.together import TOGETHER, SharedSubject
from agentserver.engines.replica.engine import ReplicaEngine
from agentserver.engines.replica.log import PARTITIONS
from tests.engines.together.broker import MemoryBroker, MemoryLog

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio


def subject(tmp_path) -> SharedSubject:
    """A log in memory, and a replica for each process."""
    broker, logs = MemoryBroker(PARTITIONS), {}

    def open_(name):
        log = logs[name] = MemoryLog(broker, name)
        return ReplicaEngine(log, tmp_path / name, "o")

    async def still(name):
        broker.still(name)
        broker.advance(1.5)
        broker.advance(1.5)
        await asyncio.sleep(0)

    async def moving(name):
        broker.moving(logs[name])

    @asynccontextmanager
    async def away() -> AsyncIterator[None]:
        broker.away = True
        yield
        broker.advance(10.0)
        await asyncio.sleep(0.05)
        broker.come_back()

    return SharedSubject(open_, still, moving, away)


@pytest.mark.parametrize("check", TOGETHER, ids=lambda check: check.__name__)
async def test_engines_over_one_log_keep_what_they_promise_together(check, tmp_path):
    await check(subject(tmp_path))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_an_engine_over_a_log_keeps_every_promise(check, tmp_path):
    broker, numbers = MemoryBroker(PARTITIONS), itertools.count()

    def opened(guards=()):
        return ReplicaEngine(MemoryLog(broker, f"p{next(numbers)}"), tmp_path, "o", guards)

    await check(Subject(opened, durable=True, guarded=opened))
