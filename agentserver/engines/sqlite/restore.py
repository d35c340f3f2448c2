"""Export of a journal, and its restoration.

Files are created and moved in an order that never puts a copy next to the log of another journal. An interrupted
restoration has changed nothing, or is refused at the next start.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import ExitStack, closing, contextmanager
from itertools import count, islice
from typing import TYPE_CHECKING

from agentserver.engines.journal.reader import Reader
from agentserver.engines.sqlite.file import DRIVER, convert_error, open_reading
from agentserver.engines.sqlite.lock import HEAD, INDEX, LOG, Lock, find_companion
from agentserver.engines.sqlite.maintenance import findings, keep_only
from agentserver.ports import EngineError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

FAULTS = 3
"""Most faults named when a copy is refused."""


def export(source: Path, target: Path, conversations: Collection[str] = ()) -> None:
    """Write a snapshot of a journal, or of some conversations, also while a server writes it.

    Only its owner may read the copy. Raises EngineError when the journal is missing or the copy cannot be written;
    LookupError for an unknown conversation.
    """
    with closing(open_reading(source)) as connection:
        known = {key for key in conversations if Reader(connection).find(key) == [key]}
        if known != set(conversations):
            raise LookupError(", ".join(sorted(set(conversations) - known)))
        with _made(target):
            _copy(connection, target)
            if conversations:
                _reduce_copy(target, known)
            _sync(target)


def _reduce_copy(target: Path, known: Collection[str]) -> None:
    with closing(sqlite3.connect(target, isolation_level=None)) as copy:
        keep_only(copy, known)


def _copy(connection: sqlite3.Connection, target: Path) -> None:
    """Copy everything to an empty file."""
    connection.execute("vacuum into ?", (str(target),))


def restore(copy: Path, path: Path) -> Path | None:
    """Replace the journal with a copy. Returns the path of the previous journal, if any.

    Raises EngineError, without changes, when a server uses the journal or the copy is damaged or no journal.
    """
    try:
        return _replace_journal(copy, path)
    except OSError as error:
        raise EngineError(f"{error.filename or path}: {error.strerror}") from error


def _replace_journal(copy: Path, path: Path) -> Path | None:
    with Lock(path):
        if copy.exists() and copy.samefile(path):
            raise EngineError(f"{copy}: this is the journal itself")
        faults = list(islice(findings(copy), FAULTS))
        if faults:
            raise EngineError(f"{copy}: it is damaged and was not restored: {'; '.join(faults)}")
        journal, fresh = find_companion(path, ""), find_companion(path, ".restoring")
        fresh.unlink(missing_ok=True)  # of an interrupted restore
        with closing(open_reading(copy)) as connection, _made(fresh):
            _copy(connection, fresh)
            _sync(fresh)
        kept = _rename_journal(path) if journal.stat().st_size else None
        fresh.replace(journal)
        # Last: it keeps servers from using a partly restored journal.
        head = find_companion(path, HEAD)
        if head.exists():
            head.unlink() if kept is None else head.rename(find_companion(kept, HEAD))
        _sync(journal.parent)
        return kept


def _rename_journal(path: Path) -> Path:
    """Rename the journal and its log."""
    kept = next(
        each
        for number in count(1)
        if not (each := find_companion(path, f".before-restore-{number}")).exists()
    )
    for suffix in (
        LOG,
        "",
    ):  # the log first: a missing one is refused at the start, but a wrong one would corrupt the journal
        if find_companion(path, suffix).exists():
            find_companion(path, suffix).rename(find_companion(kept, suffix))
    find_companion(path, INDEX).unlink(missing_ok=True)
    return kept


@contextmanager
def _made(target: Path) -> Iterator[None]:
    """Create a private file, and delete it if the block fails."""
    try:
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    except OSError as error:
        why = "exists already" if isinstance(error, FileExistsError) else error.strerror
        raise EngineError(f"{target}: {why}") from error
    try:
        with ExitStack() as unmade:
            unmade.callback(target.unlink, missing_ok=True)
            yield
            unmade.pop_all()
    except DRIVER as error:
        raise convert_error(target, error) from error


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
