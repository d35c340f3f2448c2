"""Copies of a journal: how one is made, and how one is put in the journal's place.

Owns the order in which files are made and moved: at no instant does a copy stand beside the log of another journal, and
what is cut short is refused at the next start or has changed nothing. Refuses to know what is in them.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import ExitStack, closing, contextmanager
from itertools import count, islice
from typing import TYPE_CHECKING

from agentserver.engines.journal.reader import Reader
from agentserver.engines.sqlite.file import DRIVER, open_reading, told
from agentserver.engines.sqlite.lock import HEAD, INDEX, LOG, Lock, beside
from agentserver.engines.sqlite.maintenance import only
from agentserver.engines.sqlite.verify import findings
from agentserver.ports import EngineError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

FAULTS = 3
"""Faults of a copy that its refusal names."""


def export(source: Path, target: Path, conversations: Collection[str] = ()) -> None:
    """Write a copy of a journal, of one moment, while a server may be writing it; of some conversations, if named.

    Only its owner may read it, from the beginning. Raises EngineError when there is no journal, or the copy cannot be
    made where it should be, of which nothing is left then; LookupError for an unknown conversation.
    """
    with closing(open_reading(source)) as connection:
        known = {key for key in conversations if Reader(connection).find(key) == [key]}
        if known != set(conversations):
            raise LookupError(", ".join(sorted(set(conversations) - known)))
        with _made(target):
            _copied(connection, target)
            if conversations:
                _left(target, known)
            _synced(target)


def _left(target: Path, known: Collection[str]) -> None:
    with closing(sqlite3.connect(target, isolation_level=None)) as copy:
        only(copy, known)


def _copied(connection: sqlite3.Connection, target: Path) -> None:
    """Write everything to an empty file."""
    connection.execute("vacuum into ?", (str(target),))


def restore(copy: Path, path: Path) -> Path | None:
    """Put a copy in the place of the journal, and return the path of the previous journal, if there was one.

    Raises EngineError when a server has the journal, when the copy is not whole, or is no journal. Then nothing has
    changed.
    """
    try:
        return _restored(copy, path)
    except OSError as error:
        raise EngineError(f"{error.filename or path}: {error.strerror}") from error


def _restored(copy: Path, path: Path) -> Path | None:
    with Lock(path):
        if copy.exists() and copy.samefile(path):
            raise EngineError(f"{copy}: this is the journal itself")
        faults = list(islice(findings(copy), FAULTS))
        if faults:
            raise EngineError(f"{copy}: it is damaged, and is not put in place: {'; '.join(faults)}")
        journal, fresh = beside(path, ""), beside(path, ".restoring")
        fresh.unlink(missing_ok=True)  # of a restore that was cut short
        with closing(open_reading(copy)) as connection, _made(fresh):
            _copied(connection, fresh)
            _synced(fresh)
        kept = _put_aside(path) if journal.stat().st_size else None
        fresh.replace(journal)
        # Last: until it is gone no server takes a journal that is half restored for a whole one.
        head = beside(path, HEAD)
        if head.exists():
            head.unlink() if kept is None else head.rename(beside(kept, HEAD))
        _synced(journal.parent)
        return kept


def _put_aside(path: Path) -> Path:
    """Move the journal and its log to names of their own."""
    kept = next(
        each for number in count(1) if not (each := beside(path, f".before-restore-{number}")).exists()
    )
    for suffix in (
        LOG,
        "",
    ):  # the log first: without it a start is refused, with another's it would be a mixture
        if beside(path, suffix).exists():
            beside(path, suffix).rename(beside(kept, suffix))
    beside(path, INDEX).unlink(missing_ok=True)
    return kept


@contextmanager
def _made(target: Path) -> Iterator[None]:
    """A new file for its owner only, which goes again when it cannot be filled."""
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
        raise told(target, error) from error


def _synced(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
