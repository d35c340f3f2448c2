"""The subject of the checks of several engines, over a broker in this process."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from agentserver.engines.conformance.together import SharedSubject

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from agentserver.ports import Engine
    from tests.engines.together.broker import MemoryBroker, MemoryLog


def over(broker: MemoryBroker, opened: Callable[[str], tuple[Engine, MemoryLog]]) -> SharedSubject:
    """Engines over this broker; ``opened`` gives the engine of a process of that name, with its log."""
    logs: dict[str, MemoryLog] = {}

    def open_(name: str) -> Engine:
        engine, logs[name] = opened(name)
        return engine

    async def still(name: str) -> None:
        broker.still(name)
        broker.advance(1.5)
        broker.advance(1.5)
        await asyncio.sleep(0)

    async def moving(name: str) -> None:
        broker.moving(logs[name])

    @asynccontextmanager
    async def away() -> AsyncIterator[None]:
        broker.away = True
        yield
        broker.advance(10.0)
        await asyncio.sleep(0.05)
        broker.come_back()

    return SharedSubject(open_, still, moving, away)
