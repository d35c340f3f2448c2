"""The record of handoffs copied to a file while a server runs.

Owns the thread that writes, so that a slow disk holds nobody up, and what is said when the file falls behind the
journal. Refuses to know the file's form.
"""

from __future__ import annotations

import logging
import queue
import threading
from typing import TYPE_CHECKING, Final, Self

from agentserver.handoff.edge.records import AuditFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

    from agentserver.handoff.audit import AuditRecord

WAITING: Final = 10_000
"""Records that may wait for the disk; more are left to the journal."""
PATIENCE: Final = 5.0
"""Seconds that closing waits for the disk."""

_LOG: Final = logging.getLogger(__name__)


class AuditCopy:
    """An AuditSink that appends to a file in a thread of its own. A context manager: leaving it writes what waits.

    Args:
        path: the file.
        report: told once when a record cannot be kept, and at the end how many were not.
        waiting: records that may wait for the disk.
    """

    def __init__(
        self, path: Path, report: Callable[[str], None] = _LOG.error, waiting: int = WAITING
    ) -> None:
        self._path = path
        self._report = report
        self._file = AuditFile(path, self._failed)
        self._queue: queue.Queue[AuditRecord | None] = queue.Queue(waiting)
        self._thread = threading.Thread(target=self._write, name="handoff-audit", daemon=True)
        self._failures = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._queue.put(None, timeout=PATIENCE)
        except queue.Full:
            self._failed(f"handoff audit: {self._path}: the disk does not answer")
        else:
            self._thread.join(PATIENCE)
        if self._failures:
            self._report(
                f"handoff audit: {self._path}: {self._failures} failures; only the journal has what was left out"
            )

    def append(self, record: AuditRecord) -> None:
        """Keep a record. Neither blocks nor raises."""
        try:
            self._queue.put_nowait(record)
        except queue.Full:
            self._failed(f"handoff audit: {self._path}: the disk is too slow; records are left out")

    def _failed(self, message: str) -> None:
        self._failures += 1
        if self._failures == 1:
            self._report(message)

    def _write(self) -> None:
        while (record := self._queue.get()) is not None:
            self._file.append(record)
