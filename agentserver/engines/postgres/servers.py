"""Reader of a journal that servers share, with the servers themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from agentserver.codec import ValueRefusedError
from agentserver.engines.journal.finding import POSTGRES_WORDS
from agentserver.engines.journal.reader import Reader
from agentserver.ports.servers import REPORTS, ServerReport, ServerState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentserver.core.guard import CoreGuard
    from agentserver.engines.journal.connection import Connection

_SERVERS: Final = """
    select incarnation, name, extract(epoch from began)::float8, extract(epoch from renewed)::float8,
        extract(epoch from clock_timestamp() - renewed)::float8,
        extract(epoch from expires - renewed)::float8, gone or expires < clock_timestamp(), report
    from server where not gone or renewed > clock_timestamp() - interval '1 hour' order by incarnation
"""


class SharedReader(Reader):
    """Reads a journal that servers share.

    Args:
        connection: to the database.
        guards: guards whose memories are stored.
    """

    def __init__(self, connection: Connection, guards: Sequence[CoreGuard] = ()) -> None:
        super().__init__(connection, guards, POSTGRES_WORDS)

    def list_servers(self) -> tuple[ServerState, ...]:
        """List the servers that have a lease, and those that ended within the last hour, oldest first."""
        rows: list[Any] = self._connection.execute(_SERVERS).fetchall()
        return tuple(ServerState._make((*row[:-1], _read_report(row[-1]))) for row in rows)


def _read_report(text: str) -> ServerReport:
    """Read a report; an empty one if another version wrote it, as during an upgrade of one server after another."""
    try:
        return REPORTS.load(text)
    except ValueRefusedError:
        return ServerReport()
