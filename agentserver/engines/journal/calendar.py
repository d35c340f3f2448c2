"""The journal's calendar: how the machine's clock has gone while servers had the journal.

Owns the one row that keeps it. Refuses to know clocks.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from agentserver.core.state.elapsed import Calendar, Jump
from agentserver.engines.journal.connection import transaction
from agentserver.engines.journal.seal import digest

if TYPE_CHECKING:
    from agentserver.engines.journal.connection import Connection

logger = logging.getLogger("agentserver.journal")


def sound(connection: Connection) -> bool:
    """True when the kept calendar is as it was written."""
    rows = connection.execute("select jumps, last, seal from calendar").fetchall()
    return len(rows) < 2 and all(seal == digest((jumps, last)) for jumps, last, seal in rows)  # noqa: PLR2004 - one row


def read(connection: Connection) -> Calendar:
    """The known part of the calendar. Where nothing can be read, no time that has passed so far counts."""
    if not sound(connection):
        logger.error("the journal's calendar is not what was written: all deadlines count from now")
        return Calendar(last=0.0)
    row = connection.execute("select jumps, last from calendar").fetchone()
    if row is None:
        return Calendar(last=connection.execute("select max(touched) from conversation").fetchone()[0])
    jumps, last = row
    return Calendar(tuple(Jump(at, to) for at, to in json.loads(jumps)), last)


def keep(connection: Connection, calendar: Calendar) -> None:
    """Write it."""
    row = (json.dumps(calendar.jumps), float(calendar.last or 0.0))
    with transaction(connection):
        connection.execute("delete from calendar")
        connection.execute("insert into calendar values (?, ?, ?)", (*row, digest(row)))
