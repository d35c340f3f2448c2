"""A journal becomes the beginning of a log: what a server of before has kept, for the servers of a cluster.

Owns what may become one, and that a log which has anything already is left as it is. Refuses to know what is in either.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

from anyio import to_thread

from agentserver.engines.replica import tables
from agentserver.engines.replica.entries import form
from agentserver.engines.sqlite.care.restore import FAULTS, export
from agentserver.engines.sqlite.file import JournalOptions, open_writing
from agentserver.engines.sqlite.lock import Lock
from agentserver.engines.sqlite.proof.verify import findings
from agentserver.ports import EngineError

if TYPE_CHECKING:
    from pathlib import Path

    from agentserver.engines.replica.log import ReplicatedLog

MARK: Final = "import"
"""The id of the entry that an import begins with: it says nothing, and the copy is as of its place."""


async def import_journal(log: ReplicatedLog, journal: Path, scratch: Path) -> int:
    """Make a journal the first copy of a replica that a log keeps, and the log begin after it; gives its place.

    One that was cut short is done again from the beginning. The journal stays as it is.

    Args:
        log: of a cluster on which no server ever ran.
        journal: that no server has open.
        scratch: the path of the copy that is made meanwhile.

    Raises EngineError when a server has the journal, when it is not whole or has lost commits, when there is something
    in the log, and when the log cannot be reached.
    """
    await _unused(log)
    try:
        await to_thread.run_sync(_copied, journal, scratch)
        place = await log.append(0, None, form.dump(()), MARK)
        await to_thread.run_sync(_placed, scratch, place)
        await log.snapshot(place, scratch)
    finally:
        await to_thread.run_sync(partial(scratch.unlink, missing_ok=True))
    return place


async def _unused(log: ReplicatedLog) -> None:
    first, last = await log.bounds()
    if not last:
        return
    if not first:
        async for entry in log.follow(0):
            if entry.id == MARK and entry.place == last:
                return  # of an import that was cut short
            break
    raise EngineError("the cluster has something already: a journal is imported where no server ever ran")


def _copied(journal: Path, to: Path) -> None:
    if not journal.is_file():
        raise EngineError(f"{journal}: there is no journal")
    with Lock(journal):
        # Opening it as a server does compares it with the head beside it.
        open_writing(JournalOptions(journal)).close()
        faults = list(islice(findings(journal), FAULTS))
        if faults:
            raise EngineError(f"{journal}: it is damaged, and is not imported: {'; '.join(faults)}")
        to.parent.mkdir(parents=True, exist_ok=True)
        to.unlink(missing_ok=True)
        export(journal, to)


def _placed(copy: Path, place: int) -> None:
    with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        connection.executescript(tables.TABLES)
        tables.keep_place(connection, place, MARK)
        tables.keep_log(connection, "")
        # Those of a copy of a replica are of another log.
        connection.execute("delete from partition_claim")
