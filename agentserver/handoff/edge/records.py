"""The record of handoffs as a file of JSON lines.

What does not fit is recorded behind it and reported; nothing in the file is removed. The file is a copy for
people and tools; where a journal runs, the journal is the record, and keeps the head.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import threading
import time
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
from anyio import to_thread

from agentserver.handoff.audit import (
    Flaw,
    HandoffEntry,
    Seal,
    follow_chain,
    parse_seal,
    record_break,
    seal_record,
    verify,
)
from agentserver.handoff.edge.heads import ChainHead, FileHeadStore, HeadStore
from agentserver.supervision import QueueThread

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    from agentserver.handoff.audit import HandoffEntry
    from agentserver.handoff.edge.heads import HeadStore

DEFAULT: Final = Path("./out/handoff-audit.jsonl")
LINE: Final = 1 << 20
"""Bytes of a line."""

_LOG: Final = logging.getLogger(__name__)


class AuditFile:
    """An AuditSink that appends to a file; several processes may share it, if they share its head.

    Args:
        path: the file; it and its folder are made when missing.
        report: called with one line about what could not be kept and why.
        heads: where the head is kept; a note next to the file without it. The note is written in any case.
        alarm: called with one line if the file was not as it had been left; ``report`` without it.
    """

    def __init__(
        self,
        path: Path = DEFAULT,
        report: Callable[[str], None] = _LOG.error,
        heads: HeadStore | None = None,
        alarm: Callable[[str], None] | None = None,
    ) -> None:
        self._path = path
        self._report = report
        self._alarm = alarm or report
        self._note = FileHeadStore(path)
        self._heads = heads
        self._lock = threading.Lock()
        self._unkept: ChainHead | None = None  # where this object left the file when that could not be kept

    def append(self, record: HandoffEntry) -> None:
        """Keep a record. Raises nothing for a disk that fails."""
        try:
            with self._lock, _open_locked(self._path) as file:
                self._put(file, record, self._verify_head(file))
        except OSError as error:
            members = dict(record.members)
            facts = " ".join(
                str(members.get(name)) for name in ("timestamp", "result", "reason", "raw_sha256")
            )
            self._report(f"handoff audit: {self._path}: {error.strerror or error}; not kept: {facts}")

    def check(self) -> None:
        """Hold the whole file against its head, and record a break. Raises nothing for a disk that fails."""
        try:
            with self._lock:
                if not self._path.exists() and self._read_head() is None:
                    return
                with _open_locked(self._path) as file:
                    self._keep(self._verify_head(file, whole=True))
        except OSError as error:
            self._report(f"handoff audit: {self._path}: {error.strerror or error}; it was not checked")

    def _verify_head(self, file: int, *, whole: bool = False) -> ChainHead:
        """Return the head of a file that is as it was left, or of one whose break has been recorded."""
        head = self._read_head()
        if head is None:
            head, flaw = self._taken_over(file)
        else:
            lacks = _find_missing_part(file, head)
            if lacks is None and self._unkept is not None and _find_missing_part(file, self._unkept) == b"":
                head, lacks = self._unkept, b""
            if lacks:  # the writer died between the head and the file
                _write(file, lacks)
            if lacks is not None and head.line:
                self._keep(head._replace(line=""))
            flaw = _find_flaw(file, head) if whole or lacks is None else None
        if flaw is None:
            return head
        self._alarm(
            f"handoff audit: {self._path}: the record in line {flaw.line} {flaw.detail}; the chain continues from "
            f"the {head.end.count} records that are known"
        )
        if _read_tail(file)[-1:] not in {b"", b"\n"}:
            _write(file, b"\n")
        return self._put(file, record_break(flaw, datetime.now(UTC).isoformat(timespec="milliseconds")), head)

    def _read_head(self) -> ChainHead | None:
        """Return the head that is kept; a spoiled one is reported and ignored.

        A journal may not have met the file yet.
        """
        for heads in self._collect_keepers():
            try:
                head = heads.read()
            except ValueError as error:
                self._report(f"handoff audit: {error}; a new chain starts")
                continue
            if head is not None:
                return head
        return None

    def _collect_keepers(self) -> tuple[HeadStore, ...]:
        return (self._note,) if self._heads is None else (self._heads, self._note)

    def _taken_over(self, file: int) -> tuple[ChainHead, Flaw | None]:
        """Return the head of a file without a stored one: where it ends, as far as it is intact."""
        at, flaw = follow_chain(_iter_lines(file))
        if at.count:
            self._report(f"handoff audit: {self._path}: nothing says where its {at.count} records ended")
        return ChainHead(at), flaw

    def _put(self, file: int, record: HandoffEntry, head: ChainHead) -> ChainHead:
        """Keep the head of a record, then write the record. One that cannot be written was never there."""
        line, end = seal_record(record, head.end)
        size = os.fstat(file).st_size
        new_head = ChainHead(end, line, size + len(line.encode()) + 1)
        self._keep(new_head)
        try:
            _write(file, line.encode() + b"\n")
        except OSError:
            os.ftruncate(file, size)  # the beginning of this line, and of no other
            self._keep(head)
            raise
        self._keep(new_head._replace(line=""))
        return new_head._replace(line="")

    def _keep(self, head: ChainHead) -> None:
        """Keep the head. The record is more than its place, so a failure can be distinguished."""
        self._unkept = None
        for heads in self._collect_keepers():
            try:
                heads.keep(head)
            except OSError as error:
                self._report(f"handoff audit: {self._path}: {error.strerror or error}; its end is not noted")
                self._unkept = head


@contextmanager
def _open_locked(path: Path) -> Iterator[int]:
    """Yield the file, locked against other writers, and the one that its path names when it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            if _stands(file, path):
                yield file
                return
        finally:
            os.close(file)


def _stands(file: int, path: Path) -> bool:
    try:
        named = path.lstat()
    except FileNotFoundError:
        return False
    return os.path.samestat(named, os.fstat(file))


def _write(file: int, data: bytes) -> None:
    remaining = memoryview(data)
    while remaining:
        remaining = remaining[os.write(file, remaining) :]
    os.fsync(file)


def _read_tail(file: int) -> bytes:
    return os.pread(file, LINE, max(0, os.fstat(file).st_size - LINE))


def _find_missing_part(file: int, head: ChainHead) -> bytes | None:
    """Return the missing part of the file's last record, mostly empty; None when it does not end as the head says."""
    tail, size = _read_tail(file), os.fstat(file).st_size
    whole = tail[: tail.rfind(b"\n") + 1]
    begun = tail[len(whole) :]
    last = whole.splitlines()[-1:]
    ends = parse_seal(last[0].decode("utf-8", "replace")) if last else Seal()
    if ends == head.end and not begun:
        return b"" if head.size in {size, -1} else None
    line = head.line.encode() + b"\n"
    lacks = line[len(begun) :]
    fits = head.size in {size + len(lacks), -1} and line.startswith(begun)
    return lacks if head.line and ends == head.before and fits else None


def _iter_lines(file: int) -> Iterator[str]:
    with os.fdopen(os.dup(file), "rb") as reader:
        reader.seek(0)
        yield from _decode_lines(iter(lambda: reader.readline(LINE), b""))


def _decode_lines(lines: Iterator[bytes]) -> Iterator[str]:
    return (line.rstrip(b"\n").decode("utf-8", "replace") for line in lines)


def _find_flaw(file: int, head: ChainHead) -> Flaw | None:
    """Return the first place where the file is not as it was left, if one is there that no record names."""
    at, flaw = follow_chain(_iter_lines(file))
    if flaw is not None or at == head.end:
        return flaw
    if at.count < head.end.count:
        return Flaw(at.count + 1, f"is missing: the chain had {head.end.count} records")
    return Flaw(
        head.end.count + 1 if at.count > head.end.count else at.count, "is not the record that was kept"
    )


def verify_file(
    path: Path = DEFAULT, report: Callable[[str], object] = _LOG.warning, heads: HeadStore | None = None
) -> Seal | Flaw:
    """Follow the chain in a file from its start to where it is known to end.

    Args:
        path: the file.
        report: called if nothing says where the chain ends, since records cut off are then not missed; and of a last
            record that is not written yet. A spoiled note is a flaw of the last record.
        heads: where the head is kept; the note next to the file without it.

    Returns:
        the end of the chain, or the first line that was altered, removed, inserted or moved.

    Raises:
        OSError: when the file cannot be read, or is not there and nothing is known to have been in it.
    """
    store = heads or FileHeadStore(path)
    if not path.exists():
        return _without_file(path, store)
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)  # a writer moves head and file together
        lines = list(_decode_lines(iter(lambda: file.readline(LINE), b"")))
        try:
            head = store.read()
        except ValueError:
            found = verify(lines)
            flaw = "is not known to be the last: the note next to the file is spoiled"
            return Flaw(found.count, flaw) if isinstance(found, Seal) else found
    if head is None:
        report(f"{FileHeadStore(path).path}: missing; without it, records cut off at the end are not missed")
        return verify(lines)
    found = verify(lines, head.end)
    if isinstance(found, Seal) and found != head.end:
        return Flaw(head.end.count + 1, "is not known to the server: it kept fewer records")
    if isinstance(found, Flaw) and head.before is not None and verify(lines, head.before) == head.before:
        report(f"{path}: its last record was not written when the server ended; the next start writes it")
        return head.before
    return found


def _without_file(path: Path, store: HeadStore) -> Flaw:
    """Return the records that a missing file lacks. Raises FileNotFoundError without them."""
    try:
        head = store.read()
    except ValueError:
        return Flaw(1, "is missing: the file is gone, and the note next to it is spoiled")
    found = None if head is None else verify([], head.end)
    if isinstance(found, Flaw):
        return found
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))


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
        self,
        path: Path,
        report: Callable[[str], None],
        waiting: int = WAITING,
        heads: HeadStore | None = None,
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
    heads: HeadStore | None = None,
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
