"""Maintenance of a journal's file: statistics, vacuum, export and restoration.

Files are created and moved in an order that never puts a copy next to the log of another journal. An interrupted
restoration has changed nothing, or is refused at the next start.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import ExitStack, closing, contextmanager
from itertools import count, islice
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from agentserver.engines.journal import records
from agentserver.engines.journal.reader import Reader, find_faults
from agentserver.engines.journal.retention import remove_conversations
from agentserver.engines.journal.rows import DeliveryEnd
from agentserver.engines.sqlite import head as journal_head
from agentserver.engines.sqlite.file import (
    DRIVER,
    WORDS,
    convert_error,
    find_count_damage,
    has_other_tables,
    open_reading,
)
from agentserver.engines.sqlite.lock import HEAD, INDEX, LOG, Lock, find_companion
from agentserver.ports import EngineError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    from agentserver.engines.sqlite.head import HeadRecord

T = TypeVar("T")


class Stats(NamedTuple):
    """Statistics of a journal. Sizes in bytes, times in seconds since the epoch.

    Args:
        size: of the file.
        log: of the write-ahead log.
        free: free pages in the file, which are reused before it grows.
        used: in use, to which the limit of a journal applies.
        unread: unacknowledged replies and ends of requests.
        receipts: idempotency keys of messages.
    """

    size: int
    log: int
    free: int
    open: int
    closed: int
    steps: int
    queued: int
    dead: int
    unread: int
    receipts: int
    oldest: float | None
    used: int


def count_held_bytes(connection: sqlite3.Connection) -> int:
    """Count the bytes in use, including the log."""
    (pages,), (free,), (size,) = (
        connection.execute(f"pragma {name}").fetchone()
        for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)


def vacuum(connection: sqlite3.Connection) -> None:
    """Shrink the file to its contents. Temporarily needs as much space again."""
    connection.execute("vacuum")
    connection.execute("pragma wal_checkpoint(truncate)").fetchall()


def keep_only(copy: sqlite3.Connection, known: Collection[str]) -> None:
    """Remove all other conversations from a copy of a journal."""
    removed = [
        number for number, key in copy.execute("select number, id from conversation") if key not in known
    ]
    remove_conversations(copy, removed)
    records.keep_names_of(copy, known)
    copy.execute("delete from answer")  # they lack their conversation
    copy.execute("vacuum")


def collect_stats(path: Path) -> Stats:
    """Collect the statistics of a journal. Raises EngineError."""
    with closing(open_reading(path)) as connection:

        def one(statement: str, *values: object) -> int:
            return int(connection.execute(statement, values).fetchone()[0] or 0)

        log = path.with_name(f"{path.name}-wal")
        (oldest,) = connection.execute("select min(opened) from conversation").fetchone()
        return Stats(
            path.stat().st_size,
            log.stat().st_size if log.exists() else 0,
            one("pragma freelist_count") * one("pragma page_size"),
            one("select count(*) from conversation where closed is null"),
            one("select count(*) from conversation where closed is not null"),
            one("select count(*) from step"),
            one("select count(*) from queue where delayed = 0"),
            one("select count(*) from delivery where state = ?", DeliveryEnd.DEAD),
            one("select count(*) from event where waiting = 1"),
            one("select count(*) from receipt"),
            oldest,
            count_held_bytes(connection),
        )


def leave(path: Path, put: Callable[[sqlite3.Connection], T]) -> T:
    """Store an operator's decision durably, also while a server uses the journal.

    ``put`` writes it, as ``records.put_answer`` does. Raises EngineError.
    """
    open_reading(path).close()
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None)
        with closing(connection):
            connection.execute("pragma synchronous = full")
            return put(connection)
    except sqlite3.Error as error:
        raise convert_error(path, error) from error


def find_findings(path: Path) -> Iterator[str]:
    """Find damage, a line each, also while a server writes the journal.

    Raises EngineError when the file is no readable journal.
    """
    record = journal_head.read_head_file(path)  # before the journal, which may be newer but never older
    with closing(open_reading(path)) as connection:
        try:
            connection.execute("begin")  # one snapshot, also while a server writes
            yield from _iter_faults(connection, path, record)
        except DRIVER as error:
            yield str(convert_error(path, error))


def _iter_faults(connection: sqlite3.Connection, path: Path, record: HeadRecord | None) -> Iterator[str]:
    found = [line for (line,) in connection.execute("pragma integrity_check(20)") if line != "ok"]
    yield from (f"the file: {' '.join(line.split())}" for line in found)
    if not found:
        if has_other_tables(connection):
            yield "the file: its tables do not match a journal's"
        yield from _iter_head(connection, path, record)
        yield from find_faults(connection, (sqlite3.Error,))
        yield from find_count_damage(connection)
        for index in _INDEXES:
            yield from _find_wrong_words(connection, index)


class _WordIndex(NamedTuple):
    """Index of words that triggers keep.

    Args:
        table: its virtual table.
        words: selects the key and the words of each row that it is made of.
        name: for people.
        owner: what an entry belongs to.
    """

    table: str
    words: str
    name: str
    owner: str


_INDEXES: Final = (
    _WordIndex(
        "wordindex",
        "select conversation << 20 | version, words from main.wordlist",
        "the index of words",
        "message",
    ),
    _WordIndex("noteindex", "select number, words from main.note", "the index of notes", "note"),
)

_REBUILD: Final = f"""
    create virtual table temp.right_@index using {WORDS};
    insert into temp.right_@index (rowid, words) @words;
    create virtual table temp.right_@index_terms using fts5vocab(temp, right_@index, instance);
    create virtual table temp.found_@index_terms using fts5vocab(main, @index, instance);
"""
"""Builds an index again, next to the stored one."""

_WRONG: Final = (
    "select count(*) from (select term, doc from {} except select term, doc from {})"  # two of our own tables
)


def _find_wrong_words(connection: sqlite3.Connection, index: _WordIndex) -> Iterator[str]:
    """Compare an index with the words that it is made of."""
    text = _REBUILD.replace("@index", index.table).replace("@words", index.words)
    right, stored = (f"{kind}_{index.table}_terms" for kind in ("right", "found"))
    try:
        for statement in text.split(";")[:-1]:
            connection.execute(statement)
        missing, foreign = (
            connection.execute(_WRONG.format(*names)).fetchone()[0]
            for names in ((right, stored), (stored, right))
        )
    except sqlite3.DatabaseError as error:
        yield f"{index.name}: it cannot be read, so searches by text are wrong ({error})"
        return
    if missing or foreign:
        yield (
            f"{index.name}: {missing} entries are missing and {foreign} belong to no {index.owner},"
            " so searches by text are wrong"
        )


def _iter_head(connection: sqlite3.Connection, path: Path, record: HeadRecord | None) -> Iterator[str]:
    try:
        head = journal_head.read(connection)
        lost = None if head is None else journal_head.describe_missing(path, head, record)
        if lost is not None:
            yield lost
    except EngineError as error:
        yield str(error)


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
        faults = list(islice(find_findings(copy), FAULTS))
        if faults:
            raise EngineError(f"{copy}: it is damaged and was not restored: {'; '.join(faults)}")
        journal, fresh = find_companion(path, ""), find_companion(path, ".restoring")
        fresh.unlink(missing_ok=True)  # of an interrupted restore
        with closing(open_reading(copy)) as connection, _made(fresh):
            _copy(connection, fresh)
            _sync(fresh)
        backup = _rename_journal(path) if journal.stat().st_size else None
        fresh.replace(journal)
        # Last: it keeps servers from using a partly restored journal.
        head = find_companion(path, HEAD)
        if head.exists():
            head.unlink() if backup is None else head.rename(find_companion(backup, HEAD))
        _sync(journal.parent)
        return backup


def _rename_journal(path: Path) -> Path:
    """Rename the journal and its log."""
    backup = next(
        each
        for number in count(1)
        if not (each := find_companion(path, f".before-restore-{number}")).exists()
    )
    for suffix in (
        LOG,
        "",
    ):  # the log first: a missing one is refused at the start, but a wrong one would corrupt the journal
        if find_companion(path, suffix).exists():
            find_companion(path, suffix).rename(find_companion(backup, suffix))
    find_companion(path, INDEX).unlink(missing_ok=True)
    return backup


@contextmanager
def _made(target: Path) -> Iterator[None]:
    """Create a private file, and delete it if the block fails."""
    try:
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    except OSError as error:
        reason = "exists already" if isinstance(error, FileExistsError) else error.strerror
        raise EngineError(f"{target}: {reason}") from error
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
