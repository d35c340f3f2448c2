"""The journal's file: how it is opened, and what its tables are.

Owns the checks at opening, the schema and its migrations. Refuses to know what the rows mean.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from agentserver.engines.sqlite.proof import head
from agentserver.ports import EngineError

if TYPE_CHECKING:
    from pathlib import Path

logger = logging.getLogger("agentserver.journal")

APPLICATION: Final = 0x41475356
"""The file's application id: AGSV."""

CHECKPOINT_PAGES: Final = 4000
"""Pages of the write-ahead log after which it is carried over into the file."""

READ_AT_ONCE: Final = 4 << 20
"""Bytes of the file that are read at once before it is checked."""

LOG_LIMIT: Final = 64 << 20
"""Bytes that the write-ahead log is cut back to once it has been carried over."""

MIGRATIONS: Final = (
    """
    create table conversation (
        number integer primary key,
        id text not null unique,
        principal text not null,
        root text not null,
        opened real not null,
        touched real not null,
        version integer not null,
        closed real,
        chain blob not null,
        state blob not null
    ) strict;
    create index conversation_touched on conversation(touched);

    create table step (
        number integer primary key,
        conversation integer not null,
        version integer not null,
        at real not null,
        seed blob not null,
        cause blob not null,
        records blob not null,
        first_delivery integer not null,
        deliveries integer not null,
        first_event integer not null,
        events integer not null,
        chain blob not null
    ) strict;
    create unique index step_of on step(conversation, version);

    create table delivery (
        number integer primary key,
        conversation integer not null,
        id text not null,
        request text not null,
        thread text not null,
        origin text not null,
        sender text not null,
        recipient text not null,
        root text not null,
        message blob not null,
        hop integer not null,
        about text not null,
        state integer not null default 0,
        reason text not null default '',
        ended real
    ) strict;
    create index delivery_queued on delivery(conversation) where state = 0;
    create index delivery_dead on delivery(number) where state = 3;

    create table event (
        number integer primary key,
        conversation integer not null,
        version integer not null,
        position integer not null,
        request text not null,
        sender text,
        root text,
        message blob,
        flag integer not null,
        waiting integer not null default 1
    ) strict;
    create index event_waiting on event(conversation, version, position) where waiting = 1;

    create table value (
        conversation integer not null,
        owner text not null,
        name text not null,
        data blob not null,
        primary key (conversation, owner, name)
    ) strict, without rowid;
    """,
    """
    create table answer (
        approval text primary key,
        digest text not null,
        said text not null,
        author text not null,
        at real not null
    ) strict, without rowid;
    """,
    """
    create table head (
        identity blob not null,
        steps integer not null,
        link blob not null
    ) strict;
    insert into head values (randomblob(16), 0, zeroblob(32));
    """,
    """
    create table receipt (
        conversation integer not null,
        name text not null,
        content text not null,
        request text not null,
        primary key (conversation, name)
    ) strict, without rowid;
    create index event_request on event(request);
    """,
    """
    alter table conversation add column seal blob not null default x'';
    alter table step add column form integer not null default 1;
    alter table delivery add column mark blob not null default x'';
    alter table event add column mark blob not null default x'';
    alter table answer add column seal blob not null default x'';
    alter table head add column seal blob not null default x'';
    """,
    """
    create table calendar (
        jumps text not null,
        last real not null,
        seal blob not null
    ) strict;
    """,
    """
    create table handoff (
        file text primary key,
        count integer not null,
        hash text not null,
        line text not null,
        size integer not null
    ) strict, without rowid;
    """,
    """
    create table aside (
        number integer primary key,
        conversation integer not null,
        at real not null,
        reason text not null,
        first_event integer not null,
        events integer not null,
        ended real,
        seal blob not null
    ) strict;
    create index aside_of on aside(conversation);
    """,
    """
    alter table step add column changes blob not null default x'';
    create table state (
        conversation integer primary key,
        version integer not null,
        data blob not null
    ) strict;
    """,
    """
    alter table delivery add column call text not null default '';
    """,
)
"""The migrations, each from one version to the next. The version of a file is the number of those it has seen.

``delivery.call``: see engines/sqlite/stored.py; an earlier version wrote none.
``delivery.state``: 0 queued or held, 1 done, 2 dropped, 3 dead, 4 discarded by an operator, 5 a request of its own.
``event``: a reply when it has a message, with ``flag`` for errors; else the end of a request, ``flag`` for answered.
Seals, marks and the ``form`` of a step's link: see engines/sqlite/proof/seal.py; an earlier version wrote none.
``answer``: see engines/sqlite/care/answers.py. ``head``: see engines/sqlite/proof/head.py. ``calendar``: see
engines/sqlite/calendar.py. ``handoff``: see engines/sqlite/care/handoffs.py.
``aside``: see engines/sqlite/care/aside.py.
``state``, ``step.changes``: see engines/sqlite/stored.py.
``value``: see core/encoding/snapshot.py. Since version 10 there are entries of logs among them.
``receipt``: the messages that came under an id of their sender's; see core/receipts.py.
"""

READABLE: Final = 1
"""The earliest version that can be read without being brought up to date."""

SEALED: Final = 5
"""The version since which rows have digests."""

CHANGING: Final = 9
"""The version since which a step has the changes that it made."""

CALLING: Final = 10
"""The version since which a delivery has the call that it is or answers."""

_UNCALLED: Final = """
    create temp view delivery as select *, '' as call from main.delivery;
"""
_UNCHANGING: Final = """
    create temp view delivery as select *, '' as call from main.delivery;
    create temp view state as select 0 as conversation, 0 as version, x'' as data where false;
    create temp view step as select *, x'' as changes from main.step;
"""
_UNSEALED: Final = """
    create temp view conversation as select *, x'' as seal from main.conversation;
    create temp view delivery as select *, x'' as mark, '' as call from main.delivery;
    create temp view event as select *, x'' as mark from main.event;
    create temp view state as select 0 as conversation, 0 as version, x'' as data where false;
    create temp view step as select *, 1 as form, x'' as changes from main.step;
"""


class Sync(StrEnum):
    """The degree to which a commit waits for the disk."""

    FULL = "full"  # the disk: outlives a loss of power
    NORMAL = "normal"  # the operating system: outlives the process, not a loss of power


@dataclass(frozen=True, slots=True)
class JournalOptions:
    """The file of a journal, and when a commit counts as written.

    Args:
        path: of the file.
        sync: what a commit waits for.
    """

    path: Path
    sync: Sync = Sync.FULL


DRIVER: Final = (sqlite3.Error, UnicodeDecodeError)
"""The exceptions of the driver; the second when its own message quotes text of a damaged file."""


def told(path: Path, error: Exception) -> EngineError:
    """Turn an exception of SQLite into an error that says what to do about it."""
    name = getattr(error, "sqlite_errorname", "") or type(error).__name__
    advice = next((text for start, text in _ADVICE.items() if name.startswith(start)), str(error))
    return EngineError(f"{path}: {advice} ({name})")


_ADVICE: Final = {
    "SQLITE_FULL": "the disk is full",
    "SQLITE_READONLY": "the file or its directory cannot be written",
    "SQLITE_CANTOPEN": "the file cannot be opened",
    "SQLITE_CORRUPT": "the file is damaged: restore a backup, or move it away to begin anew",
    "SQLITE_NOTADB": "the file is no journal of this server",
    "SQLITE_IOERR": "the disk cannot be read or written",
    "SQLITE_BUSY": "another program holds the file",
}

FATAL: Final = ("SQLITE_IOERR", "SQLITE_CORRUPT", "SQLITE_NOTADB")
"""After these it is unknown what is on the disk: nothing more is written until the file has been opened anew."""


def open_writing(options: JournalOptions) -> sqlite3.Connection:
    """The journal, ready to be written, made when there is none. The lock must be held.

    Raises EngineError when it is damaged, of a later version, no journal, or has lost what was committed.
    """
    path = options.path
    try:
        _mind_the_log(path)
        _read_through(path)
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    except OSError as error:
        raise EngineError(f"{path}: {error.strerror}") from error
    except DRIVER as error:
        raise told(path, error) from error
    connection.text_factory = _text
    with ExitStack() as stack:
        stack.callback(connection.close)
        _prepare(connection, options)
        stack.pop_all()
    return connection


def _mind_the_log(path: Path) -> None:
    """Refuse to begin anew beside the log of a journal that is gone. SQLite would delete it, and what it holds."""
    log = path.with_name(f"{path.name}-wal")
    with contextlib.suppress(FileNotFoundError):
        if log.stat().st_size and not (path.exists() and path.stat().st_size):
            raise EngineError(
                f"{path} is gone, and {log.name} holds what was committed to it: put the journal back, restore a copy"
                " of it (agentserver journal restore FILE), or move the log away to begin anew"
            )


def _read_through(path: Path) -> None:
    """Make the file if need be, and have the operating system read all of it.

    The check goes through the file criss-cross; from a disk that takes ten times as long as from front to back. Comes
    before SQLite has the file: closing any descriptor of it would drop SQLite's locks.
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
        connection.execute("pragma journal_mode = wal")
        connection.execute(f"pragma synchronous = {options.sync}")
        connection.execute(f"pragma wal_autocheckpoint = {CHECKPOINT_PAGES}")
        connection.execute(f"pragma journal_size_limit = {LOG_LIMIT}")
        for number in range(version, len(MIGRATIONS)):
            mark = f"pragma application_id = {APPLICATION}; pragma user_version = {number + 1};"
            connection.executescript(f"begin immediate; {MIGRATIONS[number]} {mark} commit;")
    except DRIVER as error:
        raise told(options.path, error) from error


def _compare(connection: sqlite3.Connection, path: Path) -> None:
    """Hold the journal against the head that is kept beside it. Raises EngineError when commits are missing."""
    lost = head.missing(path, head.read(connection), head.noted(path))
    if lost is not None:
        logger.error("%s", lost)


def _check(connection: sqlite3.Connection, path: Path) -> int:
    """The file's version, after a look at every page. Raises EngineError."""
    (version,) = connection.execute("pragma user_version").fetchone()
    (application,) = connection.execute("pragma application_id").fetchone()
    (objects,) = connection.execute("select count(*) from sqlite_master").fetchone()
    if application != APPLICATION and (objects or version):
        raise EngineError(f"{path}: the file is a database of another program")
    if version > len(MIGRATIONS):
        raise EngineError(
            f"{path}: written by a later agentserver (format {version}; this one knows {len(MIGRATIONS)})"
        )
    (verdict,) = connection.execute("pragma quick_check(1)").fetchone()
    verdict = " ".join(verdict.split())
    if verdict != "ok":
        raise EngineError(
            f"{path}: the file is damaged ({verdict}): restore a backup, or move it away to begin anew"
        )
    return int(version)


def _text(data: bytes) -> str:
    """Text of the file. What is none survives, so that it is found not to be what was written."""
    return data.decode("utf-8", "surrogateescape")


def open_reading(path: Path) -> sqlite3.Connection:
    """The journal, to be read while a server may be writing it. Raises EngineError when there is none."""
    if not path.is_file():
        raise EngineError(f"{path}: there is no journal")
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
        connection.text_factory = _text
        try:
            (version,) = connection.execute("pragma user_version").fetchone()
            (application,) = connection.execute("pragma application_id").fetchone()
        except DRIVER:
            connection.close()
            raise
    except DRIVER as error:
        raise told(path, error) from error
    if application != APPLICATION or not READABLE <= version <= len(MIGRATIONS):
        connection.close()
        raise EngineError(
            f"{path}: no journal of this version; agentserver run brings an older one up to date"
        )
    if version < CALLING:
        # Views that let an earlier journal read like one of this version.
        views = _UNSEALED if version < SEALED else _UNCHANGING if version < CHANGING else _UNCALLED
        connection.executescript(views)
    return connection
