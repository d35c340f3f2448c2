"""The file of a replica: found, made, made anew from what the log keeps, copied.

Owns which of the files in a directory is this process's. What is wrong with one costs no data: the log has it, and a
replica that is damaged is made anew. One that has what the log has not is refused, and stays as it is. Refuses to know
what is in it beyond its place.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import secrets
import sqlite3
from contextlib import AsyncExitStack, ExitStack, closing, suppress
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from agentserver.engines.replica.log import BEHIND
from agentserver.engines.replica.tables import TABLES, followed_of, is_replica, keep_log, place_of
from agentserver.engines.sqlite.file import DRIVER, JournalOptions, Sync, open_reading, open_writing, told
from agentserver.engines.sqlite.lock import HEAD, INDEX, LOG, Lock, beside
from agentserver.engines.sqlite.proof.seal import digest
from agentserver.ports import EngineError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path
    from typing import Any

    from agentserver.engines.replica.log import ReplicatedLog
    from agentserver.engines.replica.tables import FollowedLog

logger = logging.getLogger("agentserver.journal")

MOST: Final = 64
"""Processes that may have a replica each in one directory."""


IDENTITY: Final = "log"
"""The name of a log's own id, which the first server draws."""
_ID: Final = re.compile(r"[0-9a-f]{32}")

_UNWRITTEN: Final = "remove the bucket AS_ONCE of this log at the broker, and a server gives it again"

_DRAWN: Final = "it was removed at the broker and drawn again, and this server goes on"

_REMEDY: Final = (
    "The log was lost or went back, or it is of another organism with the same engine.nats.name: nothing was changed."
    " Without this replica the server goes on with what the log has: move it away (mv {path}* TO/)."
    " It can begin an empty log: move it away, and agentserver journal import TO/{name}"
)


def path_of(directory: Path, number: int = 0) -> Path:
    """The path of one of the replicas in a directory."""
    return directory / ("replica.db" if number == 0 else f"replica-{number}.db")


def is_replica_at(path: Path) -> bool:
    """True for the file of a replica; False for one that is not there or cannot be read."""
    if not path.is_file():
        return False
    try:
        with closing(open_reading(path)) as connection:
            return is_replica(connection)
    except (EngineError, *DRIVER):
        return False


def take(directory: Path, stack: ExitStack) -> Path:
    """Lock the first replica that no other process has, until the stack is left. Raises EngineError without one."""
    for number in range(MOST):
        path = path_of(directory, number)
        try:
            stack.enter_context(Lock(path))
        except EngineError:
            if number + 1 == MOST or not directory.is_dir():
                raise
            continue
        return path
    raise AssertionError


def opened(path: Path, organism: str) -> sqlite3.Connection:
    """The replica at a path, made when there is none. The lock must be held. Raises EngineError for a damaged one.

    Args:
        path: of the file.
        organism: the name that its log has: replicas of one log have one identity.
    """
    connection = open_writing(JournalOptions(path, Sync.NORMAL))
    try:
        connection.executescript(TABLES)
        (steps,) = connection.execute("select steps from head").fetchone()
        if not steps:
            identity = blake2b(organism.encode(), digest_size=16).digest()
            sealed = digest(("head", 0), identity, bytes(32))
            connection.execute("update head set identity = ?, seal = ?", (identity, sealed))
    except DRIVER as error:
        connection.close()
        raise told(path, error) from error
    return connection


def remove(path: Path) -> None:
    """Remove a replica. Its lock is held, and nothing has it open."""
    for each in (path, beside(path, LOG), beside(path, INDEX), beside(path, HEAD)):
        with suppress(FileNotFoundError):
            each.unlink()


async def current(
    log: ReplicatedLog, path: Path, organism: str, do: Callable[[Callable[[], Any]], Awaitable[Any]]
) -> sqlite3.Connection:
    """The replica at a path, at a place from which the log can be followed. Raises EngineError."""
    first, last = await log.bounds()
    connection: sqlite3.Connection = await do(lambda: _opened_or_anew(path, organism, empty=not last))
    async with AsyncExitStack() as closing_it:
        closing_it.push_async_callback(do, connection.close)
        known = await do(lambda: followed_of(connection))
        # Ids of entries are drawn at random: who has the entry that was applied last has the log that was followed.
        same = bool(known.entry) and await log.id_at(known.place) == known.entry
        identity = await log.once(IDENTITY, known.log if same and known.log else secrets.token_hex(16))
        if _ID.fullmatch(identity) is None:
            raise EngineError(f"the id of the log is none, and no server has written it: {_UNWRITTEN}")
        if same and known.log not in {identity, ""}:
            logger.warning("%s: the log has another id than before, and the same entries: %s", path, _DRAWN)
        why = await _objection(log, known, identity, same=same) if known.place else ""
        if why:
            raise EngineError(f"{path}: {why}. {_REMEDY.format(path=path, name=path.name)}")
        fits = known.place >= max(first, 1)
        if fits:
            closing_it.pop_all()
    if not fits:
        if known.place:
            logger.warning("%s: made anew: it ends at %d, and the log begins at %d", path, known.place, first)
        # A new one begins with the kept copy too: most of the log may be in it.
        restored = await _restored(log, path, organism, first) if last else None
        if restored is None and first:
            raise EngineError(
                f"the log begins at {first}, and no copy of a replica is kept: nothing can be read. Another server that"
                f" has a replica keeps one in time, or stop it and copy its replica.db to {path}"
            )
        connection = await do(restored or (lambda: opened(path, organism)))
    await do(lambda: keep_log(connection, identity))
    return connection


async def _objection(log: ReplicatedLog, known: FollowedLog, identity: str, *, same: bool) -> str:
    """The reason why a replica is not of this log, or this log is not whole; empty when there is none."""
    if known.log and known.log != identity and not same:
        return "it is the replica of another log"
    for pause in (*BEHIND, None):
        _, last = await log.bounds()
        if last >= known.place:
            break
        if pause is None:
            return f"it ends at {known.place}, and the log at {last}"
        await asyncio.sleep(pause)
    there = known.entry and await log.id_at(known.place)
    return f"the log has another entry at {known.place}" if there and there != known.entry else ""


async def _restored(
    log: ReplicatedLog, path: Path, organism: str, first: int
) -> Callable[[], sqlite3.Connection] | None:
    """Fetch the kept copy; gives what puts it in the place of the replica. None when none is kept."""
    file = path.with_name(f"{path.name}.new")
    if await log.restore(file) is None:
        return None
    return lambda: _in_place(file, path, organism, first)


def _anew(path: Path, organism: str) -> sqlite3.Connection:
    remove(path)
    return opened(path, organism)


def _opened_or_anew(path: Path, organism: str, *, empty: bool = False) -> sqlite3.Connection:
    try:
        return opened(path, organism)
    except EngineError as error:
        if empty:
            raise EngineError(
                f"{error}. {_REMEDY.format(path=path, name=path.name)}"
            ) from error  # nothing has it again
        logger.warning("%s: made anew from the log: %s", path, error)
        return _anew(path, organism)


def _in_place(restored: Path, path: Path, organism: str, first: int) -> sqlite3.Connection:
    """Put a restored copy in the place of the replica."""
    remove(path)
    restored.replace(path)
    connection = opened(path, organism)
    # These are of the machine that made the copy.
    connection.executescript("delete from answer; delete from calendar; delete from handoff;")
    if place_of(connection) < first:
        connection.close()
        raise EngineError(f"{path}: the kept copy ends before {first}, where the log begins")
    return connection


def copy(path: Path, to: Path) -> int:
    """Copy a replica that is being written to a file that is not there; gives its place. Raises EngineError."""
    discard(to)
    try:
        os.close(os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
        with closing(open_reading(path)) as source, closing(sqlite3.connect(to)) as target:
            source.backup(target)
            target.execute("pragma journal_mode = delete")
            return place_of(target)
    except DRIVER as error:
        raise told(path, error) from error


def discard(file: Path) -> None:
    """Remove a copy, if it is there and can be."""
    with suppress(OSError):
        file.unlink()
