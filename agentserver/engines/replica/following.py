"""The follower: what comes of the log goes into the replica, as much at once as has come.

Owns where this process is in the log, and that trouble with the file or the log is waited out. Refuses to know who
waits for an entry.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from agentserver.engines.replica import opening
from agentserver.engines.replica.log import BrokenLogError
from agentserver.ports import EngineError
from agentserver.ports.tasks import ended

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from agentserver.engines.replica.log import LogEntry, ReplicatedLog
    from agentserver.engines.replica.replica import Applied, Replica

logger = logging.getLogger("agentserver.journal")

TOGETHER: Final = 256
"""Entries that one transaction has at most."""

AHEAD: Final = 4 * TOGETHER
"""Entries that may have come and not be applied."""

AGAIN: Final = 1.0
"""Seconds between two attempts at what has failed."""

STUCK: Final = 3
"""Attempts in a row to apply something, each of which failed, after which this process cannot: longer than a lease."""

SINCE: Final = 64 << 20
"""Bytes of entries after which a copy of the replica is kept, at the least; it is larger when the replica is."""


class ReplicaFollower:
    """Applies the log to a replica.

    Args:
        log: to follow.
        replica: at its place.
        do: has the thread of the replica do something.
        settle: is told what has come of each entry, in order.
    """

    def __init__(
        self,
        log: ReplicatedLog,
        replica: Replica,
        do: Callable[[Callable[[], Any]], Awaitable[Any]],
        settle: Callable[[Applied], None],
    ) -> None:
        self._log = log
        self._replica = replica
        self._do = do
        self._settle = settle
        self._coming: list[LogEntry] = []
        self._place = self._last = replica.place
        self._moved, self._turned = asyncio.Event(), asyncio.Event()
        self._failures = 0
        self._tasks: list[asyncio.Task[None]] = []
        self.claims = dict(replica.claims)
        self.trouble = ""
        self._copying: asyncio.Task[None] | None = None
        self._since = 0

    def begin(self) -> None:
        """Follow from now on."""
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._read()), loop.create_task(self._apply())]

    async def end(self) -> None:
        """Follow no more."""
        await ended([*self._tasks, *([] if self._copying is None else [self._copying])])

    async def reached(self, place: int) -> None:
        """Wait until a place was applied. Raises EngineError when following has come to its end."""
        while self._place < place:
            moved = asyncio.ensure_future(self._moved.wait())
            await asyncio.wait([moved, *self._tasks], return_when=asyncio.FIRST_COMPLETED)
            moved.cancel()
            if any(task.done() and not task.cancelled() for task in self._tasks):
                raise EngineError(await self.broken())

    async def broken(self) -> str:
        """Wait until the log cannot be followed any more; gives the reason."""
        await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        found = (task.exception() for task in self._tasks if task.done() and not task.cancelled())
        error = next(found, None)
        why = str(error) if isinstance(error, EngineError) else f"{type(error).__name__}: {error}"
        self.trouble = f"the log cannot be followed: {why}"
        return self.trouble

    async def applying(self, *, can: bool) -> None:
        """Wait until what comes can be applied, or cannot be."""
        while (self._failures < STUCK) is not can:
            await self._turned.wait()

    def _count(self, failures: int) -> None:
        """Count the attempts that have failed, and say so when that makes a difference."""
        before, self._failures = self._failures, failures
        if (before < STUCK) is not (failures < STUCK):
            turned, self._turned = self._turned, asyncio.Event()
            turned.set()

    def _advance(self, place: int) -> None:
        self._place = place
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    async def _read(self) -> None:
        while True:
            try:
                await self._read_on()
            except BrokenLogError:
                raise
            except EngineError as error:
                if not self.trouble:
                    logger.warning("the log cannot be followed: %s", error)
                self.trouble = str(error)
            await asyncio.sleep(AGAIN)

    async def _read_on(self) -> None:
        """Take what comes, and wait where too much of it is not applied."""
        async for entry in self._log.follow(self._last):
            self._coming.append(entry)
            self._last = entry.place
            self._advance(self._place)
            while len(self._coming) >= AHEAD:
                await self._moved.wait()

    async def _apply(self) -> None:
        while True:
            while not self._coming:
                await self._moved.wait()
            coming = self._coming[:TOGETHER]
            try:
                applied = await self._do(partial(self._replica.apply, coming))
            except BrokenLogError:
                raise
            except EngineError as error:
                if not self.trouble:
                    logger.warning("%s", error)
                self.trouble = str(error)
                self._count(self._failures + 1)
                await asyncio.sleep(AGAIN)
                continue
            del self._coming[: len(coming)]
            self.trouble = ""
            self._count(0)
            self.claims = self._replica.claims
            self._since += sum(len(entry.body) for entry in coming)
            for one in applied:
                self._settle(one)
            self._advance(coming[-1].place)

    # Copies

    def copy_when_due(self, path: Path) -> None:
        """Keep a copy of the replica with the log when much has come since the last one."""
        if self._since >= SINCE and (self._copying is None or self._copying.done()):
            self._copying = asyncio.get_running_loop().create_task(self._copy_if_large(path))

    async def _copy_if_large(self, path: Path) -> None:
        stat = await asyncio.to_thread(path.stat)
        if self._since >= stat.st_size:
            self._since = 0
            await self.copy(path)

    async def copy(self, path: Path) -> None:
        """Keep a copy of the replica with the log."""
        file = path.with_name(f"{path.name}.copy")
        try:
            place = await asyncio.to_thread(opening.copy, path, file)
            await self._log.snapshot(place, file)
        except (EngineError, OSError) as error:
            logger.warning("no copy of the replica could be kept: %s", error)
        finally:
            await asyncio.to_thread(opening.discard, file)
