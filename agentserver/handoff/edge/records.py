"""The record of handoffs as a file of JSON lines.

Owns that file and the note beside it of where its chain ends. Refuses to stop anybody: a disk that fails is
reported, and the handoff goes on. The file is a copy for people and tools; where a journal runs, the journal
is the record.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agentserver.handoff.audit import AuditRecord, Flaw, Seal, last, sealed, verify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DEFAULT: Final = Path("./out/handoff-audit.jsonl")
LINE: Final = 1 << 20
"""Bytes of a line."""

_LOG: Final = logging.getLogger(__name__)


class AuditFile:
    """An AuditSink that appends to a file; several processes may share it.

    Args:
        path: the file; it and its folder are made when missing.
        report: told, in one line, what could not be kept and why.
    """

    def __init__(self, path: Path = DEFAULT, report: Callable[[str], None] = _LOG.error) -> None:
        self._path = path
        self._report = report
        self._lock = threading.Lock()
        self._at: tuple[int, Seal] | None = (
            None  # the size of the file when this object last wrote, and its end
        )

    def append(self, record: AuditRecord) -> None:
        """Keep a record. Raises nothing for a disk that fails."""
        try:
            with self._lock:
                self._append(record)
        except OSError as error:
            told = dict(record.members)
            self._report(
                f"handoff audit: {self._path}: {error.strerror or error}; not kept: "
                f"{told.get('timestamp')} {told.get('result')} {told.get('reason')} {told.get('raw_sha256')}"
            )

    def _append(self, record: AuditRecord) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(self._path) as file:
            size = os.fstat(file).st_size
            if self._at is None or self._at[0] != size:
                size, end = self._resumed(file, size)
            else:
                end = self._at[1]
            line, end = sealed(record, end)
            try:
                _write(file, line.encode() + b"\n")
            except OSError:
                os.ftruncate(file, size)  # a torn line would break the chain for every record behind it
                raise
            self._at = os.fstat(file).st_size, end
            self._noted_down(end)

    def _noted(self) -> Seal | None:
        """Where an empty file's chain is known to have ended; a spoiled note is told, and counts as none."""
        try:
            return _noted(self._path)
        except ValueError as error:
            self._report(f"handoff audit: {error}; the chain starts anew")
            return None

    def _noted_down(self, end: Seal) -> None:
        """Write down where the chain ends. The record is kept already, so a failure is told apart."""
        try:
            _note(self._path, end)
        except OSError as error:
            self._report(
                f"handoff audit: {_beside(self._path)}: {error.strerror or error}; the end is not noted"
            )

    def _resumed(self, file: int, size: int) -> tuple[int, Seal]:
        """The size and the chain's end of a file that somebody else has written, without a torn last line."""
        start = max(0, size - LINE)
        tail = os.pread(file, LINE, start)
        whole = tail[: tail.rfind(b"\n") + 1]
        if len(whole) < len(tail):
            size = start + len(whole)
            os.ftruncate(file, size)
            self._report(f"handoff audit: {self._path}: a torn last line was removed")
        lines = whole.splitlines()
        found = last(lines[-1].decode("utf-8", "replace")) if lines else self._noted()
        if lines and found is None:
            self._report(
                f"handoff audit: {self._path}: its last line is no record; the chain starts anew behind it"
            )
        return size, found or Seal()


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file
    finally:
        os.close(file)


def _write(file: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(file, left) :]


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.end")


def _note(path: Path, end: Seal) -> None:
    """Write down where the chain ends, so that records cut off are missed."""
    new = path.with_name(f".{path.name}.end.new")
    new.write_text(json.dumps({"count": end.count, "hash": end.hash}), encoding="utf-8")
    new.replace(_beside(path))


def _noted(path: Path) -> Seal | None:
    """Where the chain was known to end; None when there is no note.

    Raises ValueError when the note cannot be read as one, OSError when it cannot be read at all.
    """
    try:
        members = json.loads(_beside(path).read_text(encoding="utf-8"))
        return Seal(int(members["count"]), str(members["hash"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{_beside(path)}: is no note of where a chain ends") from None


def verify_file(path: Path = DEFAULT, report: Callable[[str], object] = _LOG.warning) -> Seal | Flaw:
    """Follow the chain in a file from its start to where its note says that it ends.

    Args:
        path: the file.
        report: told when the note is missing, since records cut off at the end are then not missed. A spoiled note is
            a flaw of the last record.

    Returns:
        the end of the chain, or the first line that was altered, removed, inserted or moved.

    Raises:
        OSError: when the file cannot be read.
    """
    try:
        end, spoiled = _noted(path), False
    except ValueError:
        end, spoiled = None, True
    with path.open("rb") as file:
        lines = iter(lambda: file.readline(LINE), b"")
        found = verify((line.rstrip(b"\n").decode("utf-8", "replace") for line in lines), end)
    if spoiled and isinstance(found, Seal):
        return Flaw(found.count, "is not known to be the last: the note beside the file is spoiled")
    if end is None and not spoiled:
        report(f"{_beside(path)}: missing; without it, records cut off at the end are not missed")
    return found
