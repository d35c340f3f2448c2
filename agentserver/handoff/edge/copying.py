"""Copies the record of handoffs to a file while a server runs, in a thread."""

from __future__ import annotations

import logging
import time
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio
from anyio import to_thread

from agentserver.handoff.edge.records import AuditFile
from agentserver.supervision import QueueThread

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from agentserver.handoff.audit import HandoffEntry
    from agentserver.handoff.edge.heads import Heads


WAITING: Final = 10_000
"""Records that may wait for the disk; the file lacks later ones, which the journal has."""
PATIENCE: Final = 5.0
"""Seconds that the end waits for the disk."""

_COPY_LOG: Final = logging.getLogger(__name__)


class AuditCopy:
    """AuditSink that writes to a file in a thread.

    Args:
        path: the file.
        report: called with each break of the file, once when a record cannot be kept, and at the end with how many
            were not.
        waiting: records that may wait for the disk.
        heads: where the file's head is kept; a note next to the file without one.
    """

    def __init__(
        self, path: Path, report: Callable[[str], None], waiting: int = WAITING, heads: Heads | None = None
    ) -> None:
        self._path = path
        self._report = report
        self._file = AuditFile(path, self._fail, heads, report)
        self._queue: QueueThread[HandoffEntry] = QueueThread(
            "copies the record of handoffs", self._write, waiting, begin=self._file.check
        )
        self._failures = 0

    def start(self) -> None:
        """Start the thread, which checks the file first."""
        self._queue.start()

    def append(self, record: HandoffEntry) -> None:
        """Queue a record. Neither blocks nor raises."""
        if not self._queue.put(record):
            self._fail(f"handoff audit: {self._path}: the disk is too slow; records are left out")

    def end(self, until: float) -> None:
        """Wait for the disk until ``time.monotonic()`` reaches ``until``, then report what the file lacks."""
        if not self._queue.end(until):
            self._report(
                f"handoff audit: {self._path}: the disk did not answer in time; the last records are left out"
            )
        if self._failures:
            lacks = f"{self._failures} failures; only the journal has what was left out"
            self._report(f"handoff audit: {self._path}: {lacks}")

    def _write(self, batch: Sequence[HandoffEntry]) -> None:
        for record in batch:
            self._file.append(record)

    def _fail(self, message: str) -> None:
        self._failures += 1
        if self._failures == 1:
            self._report(message)


@asynccontextmanager
async def copy_records(
    path: Path,
    report: Callable[[str], None] = _COPY_LOG.error,
    waiting: int = WAITING,
    heads: Heads | None = None,
) -> AsyncIterator[AuditCopy]:
    """Yield a sink that writes to a file; leaving waits for its last records for PATIENCE seconds at most.

    Args are those of AuditCopy.
    """
    copy = AuditCopy(path, report, waiting, heads)
    copy.start()
    try:
        yield copy
    finally:
        end = partial(copy.end, time.monotonic() + PATIENCE)
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(end, limiter=anyio.CapacityLimiter(1))
