"""The subject of the checks of several engines, over storage in memory."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from agentserver.engines.conformance.together import SharedSubject
from tests.engines.together.storage import REST, Storage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


def engines_over(storage: Storage) -> SharedSubject:
    """Engines on this storage."""

    async def stop_named(name: str) -> None:
        storage.still(name)

    async def move_named(name: str) -> None:
        storage.moving(name)

    async def rest() -> None:
        storage.advance(REST)

    @asynccontextmanager
    async def poll_changes() -> AsyncIterator[None]:
        storage.away = True
        yield
        storage.advance(10.0)
        await asyncio.sleep(0.05)
        storage.away = False
        storage.stir()

    return SharedSubject(storage.engine, stop_named, move_named, poll_changes, rest)
