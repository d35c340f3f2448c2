"""The stored rows that steps build on, read from a connection.

Owns the queries. Must not number rows: who writes them knows which numbers are free.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.core.encoding import snapshot
from agentserver.core.receipts import Receipt
from agentserver.engines.journal.care import aside
from agentserver.engines.journal.kept import Kept
from agentserver.engines.journal.rows import DeliveryEnd, DeliveryRow
from agentserver.engines.journal.seal import GENESIS
from agentserver.engines.journal.stored import stored

if TYPE_CHECKING:
    from agentserver.engines.journal.connection import Connection


def find(connection: Connection, conversation: str) -> Kept | None:
    """The stored rows of a conversation; None when it is unknown. One that is closed or aside has version -1."""
    if aside.is_aside(connection, conversation):
        return Kept(0, 0.0, -1, GENESIS)
    found = stored(connection, conversation)
    if found is None:
        return None
    row = found.row
    if row.closed is not None:
        return Kept(row.number, row.opened, -1, row.chain)
    held = (snapshot.by_owner(found.values), found.queued(), found.belongings)
    return Kept(row.number, row.opened, row.version, row.chain, *held, row.state, row.rights, row.asks)


def dead(connection: Connection, conversation: str, delivery: str) -> DeliveryRow | None:
    """Find the row of a dead letter of a conversation; None when there is none."""
    row = connection.execute(
        "select d.number, d.conversation from delivery d join conversation c on c.number = d.conversation"
        " where c.id = ? and d.id = ? and d.state = ?",
        (conversation, delivery, int(DeliveryEnd.DEAD)),
    ).fetchone()
    return None if row is None else DeliveryRow(*row)


def receipt(connection: Connection, number: int, name: str) -> Receipt | None:
    """The receipt in a conversation, by its number, under a name."""
    row = connection.execute(
        "select request, content from receipt where conversation = ? and name = ?", (number, name)
    ).fetchone()
    return None if row is None else Receipt(str(row[0]), str(row[1]))
