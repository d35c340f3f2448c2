"""Opening and checking the journal's file."""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from agentserver.engines.journal.reader import Reader
from agentserver.engines.journal.schema import FORMAT, Dialect
from agentserver.engines.journal.seal import digest
from agentserver.engines.sqlite import head
from agentserver.ports import EngineError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from agentserver.core.guard import CoreGuard


logger = logging.getLogger("agentserver.journal")

APPLICATION: Final = 0x41475356
"""The file's application id: AGSV."""

PAGE: Final = 2048
"""Bytes of a page. A transaction writes each page that it changes, most of them for a row or two."""

CHECKPOINT_PAGES: Final = 1000
"""Pages of the write-ahead log after which it is checkpointed. All that wait for the next commit wait for that, too."""

NO_INDEX_AT_ONCE: Final = "pragma automatic_index = off"
"""Keeps SQLite from making an index of a whole table for one query: it expects more rows of a step than there are."""

READ_AT_ONCE: Final = 4 << 20
"""Bytes per read before the check."""

LOG_LIMIT: Final = 64 << 20
"""Bytes to which a checkpoint truncates the write-ahead log."""


class Sync(StrEnum):
    """Durability of a commit."""

    FULL = "full"  # the disk: survives a power loss
    NORMAL = "normal"  # the operating system: survives the process, but not a power loss


@dataclass(frozen=True, slots=True)
class JournalOptions:
    """File of a journal, and the durability of its commits.

    Args:
        path: of the file.
        sync: durability of a commit.
    """

    path: Path
    sync: Sync = Sync.FULL


DRIVER: Final = (sqlite3.Error, UnicodeDecodeError)
"""Exceptions of the driver; the second one when its message quotes text of a damaged file."""


def convert_error(path: Path, error: Exception) -> EngineError:
    """Convert an exception of SQLite to an error with advice."""
    name = getattr(error, "sqlite_errorname", "") or type(error).__name__
    advice = next((text for start, text in _ADVICE.items() if name.startswith(start)), str(error))
    return EngineError(f"{path}: {advice} ({name})")


_ADVICE: Final = {
    "SQLITE_FULL": "the disk is full",
    "SQLITE_READONLY": "the file or its directory cannot be written",
    "SQLITE_CANTOPEN": "the file cannot be opened",
    "SQLITE_CORRUPT": "the file is damaged: restore a backup, or move it away to start a new one",
    "SQLITE_NOTADB": "the file is no journal of this server",
    "SQLITE_IOERR": "the disk cannot be read or written",
    "SQLITE_BUSY": "another program holds the file",
    "SQLITE_ERROR": "its tables are not those of this agentserver: use the version that wrote it, or move it away",
}

FATAL: Final = ("SQLITE_IOERR", "SQLITE_CORRUPT", "SQLITE_NOTADB")
"""Errors that leave the disk in an unknown state: nothing is written until the file is reopened."""


def open_writing(options: JournalOptions) -> sqlite3.Connection:
    """Open a journal for writing, or create it. Requires the lock.

    Raises EngineError when it is damaged, of another format, no journal, or has lost commits.
    """
    path = options.path
    try:
        _refuse_orphaned_log(path)
        _read_through(path)
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    except OSError as error:
        raise EngineError(f"{path}: {error.strerror}") from error
    except DRIVER as error:
        raise convert_error(path, error) from error
    connection.text_factory = _decode_text
    with ExitStack() as stack:
        stack.callback(connection.close)
        connection.execute(NO_INDEX_AT_ONCE)
        _prepare(connection, options)
        stack.pop_all()
    return connection


def _refuse_orphaned_log(path: Path) -> None:
    """Refuse to create a journal next to the log of a missing one, which SQLite would delete."""
    log = path.with_name(f"{path.name}-wal")
    with contextlib.suppress(FileNotFoundError):
        if log.stat().st_size and not (path.exists() and path.stat().st_size):
            raise EngineError(
                f"{path} is gone, and {log.name} holds its last commits: put the journal back, restore a copy"
                " of it (agentserver journal restore FILE), or move the log away to start a new journal"
            )


def _read_through(path: Path) -> None:
    """Create the file if necessary, and read it once into the page cache.

    The check reads pages in random order, which takes a disk ten times as long. This must precede SQLite: closing any
    descriptor of the file drops SQLite's locks.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        buffer = bytearray(READ_AT_ONCE)
        while os.readv(descriptor, [buffer]):
            pass
    finally:
        os.close(descriptor)


def _prepare(connection: sqlite3.Connection, options: JournalOptions) -> None:
    try:
        version = _check(connection, options.path)
        _compare(connection, options.path)
        if not version:
            connection.execute(f"pragma page_size = {PAGE}")  # before there is a first page
        connection.execute("pragma journal_mode = wal")
        connection.execute(f"pragma synchronous = {options.sync}")
        connection.execute(f"pragma wal_autocheckpoint = {CHECKPOINT_PAGES}")
        connection.execute(f"pragma journal_size_limit = {LOG_LIMIT}")
        if not version:
            mark = f"pragma application_id = {APPLICATION}; pragma user_version = {FORMAT};"
            connection.executescript(f"begin immediate; {TABLES} {mark} commit;")
    except DRIVER as error:
        raise convert_error(options.path, error) from error


def _compare(connection: sqlite3.Connection, path: Path) -> None:
    """Compare the journal with its head file. Raises EngineError when commits are missing."""
    lost = head.describe_missing(path, head.read(connection), head.read_head_file(path))
    if lost is not None:
        logger.error("%s", lost)


def _check(connection: sqlite3.Connection, path: Path) -> int:
    """Check every page. Returns the version of the file. Raises EngineError."""
    (version,) = connection.execute("pragma user_version").fetchone()
    (application,) = connection.execute("pragma application_id").fetchone()
    (objects,) = connection.execute("select count(*) from sqlite_master").fetchone()
    if application != APPLICATION and (objects or version):
        raise EngineError(f"{path}: the file is a database of another program")
    if version not in (0, FORMAT):
        raise EngineError(f"{path}: {_describe_other_format(version)}")
    if version and has_other_tables(connection):
        raise EngineError(f"{path}: {_ADVICE['SQLITE_ERROR']}")
    (verdict,) = connection.execute("pragma quick_check(1)").fetchone()
    verdict = " ".join(verdict.split())
    if verdict != "ok":
        raise EngineError(
            f"{path}: the file is damaged ({verdict}): restore a backup, or move it away to start a new one"
        )
    return int(version)


def has_other_tables(connection: sqlite3.Connection) -> bool:
    """Compare the tables of a file with those of an empty journal; True when they differ."""
    with contextlib.closing(sqlite3.connect(":memory:")) as fresh:
        fresh.executescript(TABLES)
        return _collect_tables(fresh) != _collect_tables(connection)


def _collect_tables(connection: sqlite3.Connection) -> list[tuple[object, ...]]:
    query = (
        "select type, name, tbl_name, sql from main.sqlite_master"
        " where name not glob 'wordindex_*' and name not glob 'noteindex_*'"  # SQLite's own, of its version
        " order by type, name"
    )
    return connection.execute(query).fetchall()


def _decode_text(data: bytes) -> str:
    """Decode text. Invalid UTF-8 is preserved, so that it fails its seal."""
    return data.decode("utf-8", "surrogateescape")


def open_reading(path: Path) -> sqlite3.Connection:
    """Open a journal for reading, also while a server writes it. Raises EngineError if it is missing."""
    if not path.is_file():
        raise EngineError(
            f"{path}: there is no journal yet; agentserver run creates it, or name one with --journal"
        )
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
        connection.text_factory = _decode_text
        try:
            connection.execute(NO_INDEX_AT_ONCE)
            (version,) = connection.execute("pragma user_version").fetchone()
            (application,) = connection.execute("pragma application_id").fetchone()
            (tables,) = connection.execute("select count(*) from sqlite_master").fetchone()
        except DRIVER:
            connection.close()
            raise
    except DRIVER as error:
        raise convert_error(path, error) from error
    if not tables:
        connection.close()
        raise EngineError(f"{path}: it is empty: the server that created it has not started yet; start it")
    if application != APPLICATION or version != FORMAT:
        connection.close()
        other = "the file is a database of another program"
        raise EngineError(
            f"{path}: {other if application != APPLICATION else _describe_other_format(version)}"
        )
    return connection


def _describe_other_format(version: int) -> str:
    """Describe an unsupported format."""
    return (
        f"not a journal of format {FORMAT} (it has {version}): another agentserver wrote it, or it is damaged;"
        " use the version that wrote it, or move it away to begin with an empty journal"
    )


def about_a_row(error: Exception) -> bool:
    """Check whether a row caused an error, which would recur."""
    name = getattr(error, "sqlite_errorname", None)
    return name is None or name.startswith(("SQLITE_CONSTRAINT", "SQLITE_MISMATCH", "SQLITE_TOOBIG"))


def about_the_file(error: sqlite3.Error) -> bool:
    """Check whether the disk or the file caused an error."""
    name = getattr(error, "sqlite_errorname", None) or ""
    return name.startswith((*FATAL, "SQLITE_FULL", "SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_BUSY"))


WORDS: Final = """fts5(
        words, content = '', detail = none, columnsize = 0, tokenize = 'unicode61 remove_diacritics 0'
    )"""
"""The kind of the indexes of words, of messages and of notes."""

_OWN = """
    create table claim (epoch integer not null, seal blob not null) strict;

    create table head (
        identity blob not null,
        steps integer not null,
        link blob not null,
        seal blob not null
    ) strict;
    insert into head values (randomblob(16), 0, zeroblob(32), x'');

    create virtual table wordindex using @words;
    create trigger wordlist_added after insert on wordlist begin
        insert into wordindex (rowid, words) values (new.conversation << 20 | new.version, new.words);
    end;
    create trigger wordlist_removed after delete on wordlist begin
        insert into wordindex (wordindex, rowid, words)
            values ('delete', old.conversation << 20 | old.version, old.words);
    end;

    create virtual table noteindex using @words;
    create trigger note_added after insert on note begin
        insert into noteindex (rowid, words) values (new.number, new.words);
    end;
    create trigger note_removed after delete on note begin
        insert into noteindex (noteindex, rowid, words) values ('delete', old.number, old.words);
    end;
"""
SQLITE: Final = Dialect(
    {
        "integer": "integer",
        "real": "real",
        "blob": "blob",
        "counter": "integer",
        "rowkey": "integer primary key",
    },
    {
        "table": "strict",
        "lookup": "strict, without rowid",
        "history": "strict",
        "history_lookup": "strict, without rowid",
    },
    literal=("x'", "'"),
)

TABLES: Final = SQLITE.render_tables() + _OWN.replace("@words", WORDS)
"""The tables. ``claim``: see ``count_opening``; ``head``: see head.py; ``wordindex``: engines/journal/finding.py;
``noteindex``: engines/journal/notes.py.
"""


def count_opening(connection: sqlite3.Connection) -> int:
    """Count an opening. Returns the number of openings."""
    for damage in find_count_damage(connection):
        logger.error("%s: invocation().epoch may go back", damage)
    (before,) = connection.execute("select coalesce(max(epoch), 0) from claim").fetchone()
    row = (int(before) + 1,)
    connection.execute("begin immediate")
    connection.execute("delete from claim")
    connection.execute("insert into claim values (?, ?)", (*row, digest(row)))
    connection.execute("commit")
    return row[0]


def find_count_damage(connection: sqlite3.Connection) -> Iterator[str]:
    """Yield a line if the count of openings fails its seal."""
    if connection.execute("select 1 from sqlite_master where name = 'claim'").fetchone() is None:
        return
    rows = connection.execute("select epoch, seal from claim").fetchall()
    if len(rows) > 1 or any(seal != digest((epoch,)) for epoch, seal in rows):
        yield "the count of openings fails its seal"


@contextmanager
def read_journal(path: Path, guards: Sequence[CoreGuard] = ()) -> Iterator[Reader]:
    """Read the journal at a path, also while a server writes it. Raises EngineError.

    Args:
        path: of the file.
        guards: guards whose memories are stored; a conversation that holds one cannot be loaded without them.
    """
    try:
        with closing(open_reading(path)) as connection:
            yield Reader(connection, guards)
    except DRIVER as error:
        raise convert_error(path, error) from error
