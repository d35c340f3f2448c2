"""Marks of poison messages: deliveries that may have crashed this server.

Every delivery queued under a dead incarnation is suspect; a normal hop writes no mark. The next owner runs suspects one
at a time and marks each before it runs, so that a marked delivery was alone when the process died.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from agentserver.engines.postgres.connection import DRIVER
from agentserver.ports import NO_PREVIOUS_RUN, EngineError, PreviousRun
from agentserver.supervision import run_errand

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agentserver.engines.postgres.connection import Link
    from agentserver.engines.postgres.leases import Lease
    from agentserver.engines.postgres.threads import ReadingThread

LONGEST = 2.0
"""Seconds for which an ending process waits for the database."""

SEVERAL = "several"
"""A pseudo id that makes several suspects, so that none is taken for the culprit."""

_SERVER = "select gone, blameless, held from @server where incarnation = $1"
_SUSPECTS = "select delivery, ends, alone from @suspect where incarnation = $1"
_QUEUED = (
    "select d.id from @queue q join @conversation c on c.number = q.conversation join @delivery d"
    " on d.number = q.delivery and d.conversation = q.conversation where q.delayed = 0 and c.owner = $1"
)
_BEGIN = (
    "insert into @suspect (delivery, incarnation, ends) select key, $1, ends from unnest($2::text[], $3::int[])"
    " as n(key, ends) on conflict (delivery) do update set incarnation = $1, ends = excluded.ends, alone = false"
)
_ALONE = "update @suspect set alone = true where delivery = $1 and incarnation = $2"
_ACQUIT = "delete from @suspect where delivery = any($1::text[])"
_HOLD = "update server set held = ? where incarnation = ?"
_END = "update server set blameless = true where incarnation = ?"

logger = logging.getLogger("agentserver.engines")


class ServerMarks:
    """Marks of this server in the database.

    Args:
        link: for statements.
        lease: of this process.
        thread: reaches the database while the event loop is blocked.
    """

    at_once = False

    def __init__(self, link: Link, lease: Lease, thread: ReadingThread) -> None:
        self._link, self._lease, self._thread = link, lease, thread
        self._suspects: set[str] = set()
        self._writing: dict[int, asyncio.Task[None]] = {}
        self._acquitted: set[str] = set()
        self._acquitting: asyncio.Task[None] | None = None
        self._slot = 0

    async def previous_run(self, previous: int) -> PreviousRun:
        """Read how an incarnation ended: its marks, or else everything queued under it."""
        if not previous:
            return NO_PREVIOUS_RUN
        try:
            servers = await self._link.fetch(_SERVER, previous)
            suspects = await self._link.fetch(_SUSPECTS, previous)
            queued = await self._link.fetch(_QUEUED, self._lease.incarnation)
        except (EngineError, *DRIVER) as error:
            logger.warning("the marks of server number %d cannot be read: %s", previous, error)
            return NO_PREVIOUS_RUN
        ends = {key: number for key, number, _ in suspects}
        isolated = frozenset(key for key, _, marked in suspects if marked)
        blameless, blocked = (servers[0]["blameless"], servers[0]["held"]) if servers else (False, "")
        if blameless:
            return PreviousRun(frozenset(), "", ends)
        running = isolated or frozenset({SEVERAL, *(key for (key,) in queued)})
        return PreviousRun(running, blocked, ends)

    async def begin(self, suspects: Mapping[str, int], calls: int) -> None:  # noqa: ARG002 - a port's signature
        """Store suspects with their crash counts. On failure only the next owner lacks them."""
        if not suspects:
            return
        self._suspects |= suspects.keys()
        try:
            await self._link.fetch(_BEGIN, self._lease.incarnation, [*suspects], [*suspects.values()])
        except (EngineError, *DRIVER) as error:
            logger.warning("suspects cannot be stored: %s", error)

    def enter(self, delivery: str, conversation: str) -> int:  # noqa: ARG002 - a port's signature
        """Mark a suspect; other deliveries need no mark."""
        if delivery not in self._suspects:
            return 0
        self._slot += 1
        self._writing[self._slot] = run_errand(self._mark(delivery), "marks a suspect")
        return self._slot

    async def _mark(self, delivery: str) -> None:
        try:
            await self._link.fetch(_ALONE, delivery, self._lease.incarnation)
        except (EngineError, *DRIVER) as error:
            logger.warning("a suspect cannot be marked: %s", error)

    async def wait_until_marked(self, slot: int) -> None:
        """Wait until the mark of a suspect is written."""
        task = self._writing.get(slot)
        if task is not None:
            await asyncio.shield(task)

    def leave(self, slot: int) -> None:
        """Clear a mark. A suspect stays one until it is acquitted."""
        self._writing.pop(slot, None)

    def acquit(self, delivery: str) -> None:
        """Forget a suspect."""
        if delivery in self._suspects:
            self._suspects.discard(delivery)
            self._acquitted.add(delivery)
            if self._acquitting is None or self._acquitting.done():
                self._acquitting = run_errand(self._acquit(), "acquits suspects")

    async def flush(self) -> None:
        """Wait until acquittals are written."""
        if self._acquitting is not None:
            await self._acquitting

    async def _acquit(self) -> None:
        while self._acquitted:
            due, self._acquitted = self._acquitted, set()
            try:
                await self._link.fetch(_ACQUIT, [*due])
            except (EngineError, *DRIVER) as error:
                logger.warning("suspects cannot be acquitted: %s", error)
                return

    def hold(self, delivery: str) -> None:
        """Record, from the watchdog's thread, which delivery blocks the event loop."""
        self._write(lambda: self._thread.execute(_HOLD, (delivery, self._lease.incarnation)))

    def end(self) -> None:
        """Record that no delivery causes the coming end."""
        self._lease.blameless = True
        self._write(lambda: self._thread.execute(_END, (self._lease.incarnation,)), wait=False)

    def _write(self, work: Callable[[], object], *, wait: bool = True) -> None:
        with suppress(RuntimeError, TimeoutError, EngineError, *DRIVER):
            future = self._thread.submit(work)
            if wait:
                future.result(LONGEST)
