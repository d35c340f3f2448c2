"""Engines on one storage at once: the storage in memory keeps what such storage promises."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from agentserver.engines.conformance.together import TOGETHER, SharedSubject
from tests.engines.together.broker import MemoryBroker
from tests.engines.together.member import Storage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


def subject() -> SharedSubject:
    """A storage in memory."""
    storage = Storage(MemoryBroker())
    broker, engines = storage.broker, {}

    def open_(name):
        engine = engines[name] = storage.engine(name)
        return engine

    async def still(name):
        broker.still(name)
        broker.advance(1.5)
        broker.advance(1.5)
        await asyncio.sleep(0)

    async def moving(name):
        broker.moving(engines[name].log)

    @asynccontextmanager
    async def away() -> AsyncIterator[None]:
        broker.away = True
        yield
        broker.advance(10.0)
        await asyncio.sleep(0.05)
        broker.come_back()

    return SharedSubject(open_, still, moving, away)


pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("check", TOGETHER, ids=lambda check: check.__name__)
async def test_a_storage_in_memory_is_shared(check):
    await check(subject())
