"""The socket of a running server: each connection is told an overview, and another one each second.

Owns how often and to how many. Refuses to let a server wait for, or fail with, whoever looks at it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

import anyio
from anyio.to_thread import run_sync

from agentserver.gateways.top import place
from agentserver.supervision import Ending, start_errand, start_helper

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator
    from pathlib import Path

    from agentserver.gateways.top.overview import Overviews

EVERY = 1.0
"""Seconds between two overviews."""

READERS = 8
"""Connections at once; a further one is closed."""

logger = logging.getLogger("agentserver.top")


@asynccontextmanager
async def followed(overviews: Overviews, path: Path, every: float = EVERY) -> AsyncIterator[None]:
    """While it lasts, the server can be followed at ``path``; where it cannot, it runs all the same."""
    try:
        listening = await run_sync(place.listening, path)
    except OSError as error:
        logger.info("nobody can follow this server: %s", error)
        try:
            yield
        finally:
            overviews.stop()
        return
    try:
        marked = await run_sync(place.mark, path)
        async with anyio.create_task_group() as tasks:
            serve = partial(_Readers(overviews, every).serve, listening)
            start_helper(tasks, "shows the server to agentserver top", Ending.RESTART, serve)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()
    finally:
        overviews.stop()
        listening.close()
        with anyio.CancelScope(shield=True):
            await run_sync(place.remove, path, marked)


class _Readers:
    """Those who look at the server."""

    def __init__(self, overviews: Overviews, every: float) -> None:
        self._overviews = overviews
        self._every = every
        self._count = 0

    async def serve(self, listening: socket.socket) -> None:
        """Take connections, for ever."""
        loop = asyncio.get_running_loop()
        async with anyio.create_task_group() as tasks:
            while True:
                peer, _ = await loop.sock_accept(listening)
                peer.setblocking(False)
                if self._count >= READERS or not place.own(peer):
                    peer.close()
                    continue
                self._count += 1
                start_errand(tasks, "shows the server to a reader", Ending.OWNER, partial(self._tell, peer))

    async def _tell(self, peer: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with peer, suppress(OSError):
            try:
                while True:
                    line = json.dumps(self._overviews.overview()) + "\n"
                    await loop.sock_sendall(peer, line.encode())
                    await anyio.sleep(self._every)
            finally:
                self._count -= 1
