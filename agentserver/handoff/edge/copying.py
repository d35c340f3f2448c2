"""The record of handoffs copied to a file while a server runs.

Owns the task that writes, in a thread, so that a slow disk holds nothing up, and the words when the file falls behind
the journal. Refuses to know the file's form.
"""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio
from anyio import to_thread

from agentserver.handoff.audit import HandoffEntry
from agentserver.handoff.edge.records import AuditFile
from agentserver.supervision import Ending, start_errand

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

    from agentserver.handoff.edge.heads import Heads


WAITING: Final = 10_000
"""Records that may wait for the disk; more are left to the journal."""
PATIENCE: Final = 5.0
"""Seconds that the end waits for the disk."""

_LOG: Final = logging.getLogger(__name__)


class AuditCopy:
    """An AuditSink whose records are written by a task.

    Args:
        path: the file.
        queue: where records wait for the task.
        report: told of each break of the file; once when a record cannot be kept, and at the end how often that was so.
        heads: where the file's head is kept; a note beside it without one.
    """

    def __init__(
        self,
        path: Path,
        queue: MemoryObjectSendStream[HandoffEntry],
        report: Callable[[str], None],
        heads: Heads | None = None,
    ) -> None:
        self._path = path
        self._queue = queue
        self._report = report
        self._file = AuditFile(path, self._failed, heads, report)
        self._failures = 0

    def append(self, record: HandoffEntry) -> None:
        """Keep a record. Neither blocks nor raises."""
        try:
            self._queue.send_nowait(record)
        except anyio.WouldBlock:
            self._failed(f"handoff audit: {self._path}: the disk is too slow; records are left out")

    async def write(self, queue: MemoryObjectReceiveStream[HandoffEntry]) -> None:
        """Check the file, then write what waits until the queue is closed and empty."""
        async with queue:
            await to_thread.run_sync(self._file.check, abandon_on_cancel=True)
            async for record in queue:
                await to_thread.run_sync(self._file.append, record, abandon_on_cancel=True)

    def summary(self) -> None:
        """Say at the end how much the file lacks, if anything."""
        if self._failures:
            told = f"{self._failures} failures; only the journal has what was left out"
            self._report(f"handoff audit: {self._path}: {told}")

    def _failed(self, message: str) -> None:
        self._failures += 1
        if self._failures == 1:
            self._report(message)


@asynccontextmanager
async def copying(
    path: Path,
    report: Callable[[str], None] = _LOG.error,
    waiting: int = WAITING,
    heads: Heads | None = None,
) -> AsyncIterator[AuditCopy]:
    """A sink that writes to a file; leaving waits for what is still to be written, for PATIENCE at most.

    Args:
        path: the file.
        report: see AuditCopy.
        waiting: records that may wait for the disk.
        heads: see AuditCopy.
    """
    send, receive = anyio.create_memory_object_stream[HandoffEntry](waiting)
    copy = AuditCopy(path, send, report, heads)
    async with anyio.create_task_group() as tasks:
        write = partial(copy.write, receive)
        start_errand(tasks, "copies the record of handoffs", Ending.SERVER, write)
        try:
            yield copy
        finally:
            send.close()
            tasks.cancel_scope.deadline = anyio.current_time() + PATIENCE
    if tasks.cancel_scope.cancelled_caught:
        report(f"handoff audit: {path}: the disk did not answer in time; the last records are left out")
    copy.summary()
