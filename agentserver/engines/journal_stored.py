"""A conversation of a journal as its rows have it, held against its seal.

Owns the columns of a delivery, and which rows belong to the present state of a conversation. Refuses to know what a
state means.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, NamedTuple

from agentserver.core.messages import Delivery
from agentserver.core.snapshot import UnreadableError
from agentserver.engines import journal_seal as seal
from agentserver.engines.journal_seal import Sealed

if TYPE_CHECKING:
    from collections.abc import Sequence


def row_delivery(delivery: Delivery) -> tuple[object, ...]:
    """The columns of a delivery, from ``id`` to ``about``."""
    return (
        delivery.id,
        delivery.request,
        delivery.thread,
        delivery.origin,
        delivery.sender,
        delivery.to,
        delivery.root,
        delivery.message,
        delivery.hop,
        delivery.about,
    )


COLUMNS = "d.id, d.request, d.thread, d.origin, d.sender, d.recipient, d.root, d.message, d.hop, d.about"


def read_delivery(conversation: str, row: Sequence[object]) -> Delivery:
    """The delivery with these columns."""
    key, request, thread, origin, sender, to, root, message, hop, about = row
    return Delivery(key, conversation, request, thread, origin, sender, to, root, message, hop, about)  # type: ignore[arg-type]


class Stored(NamedTuple):
    """A conversation's row with the rows that belong to its present state.

    Args:
        waiting: each delivery that is queued or held, with the number and the digest of its row.
        values: by owner and name.
        belongings: the sum of the digests of both.
    """

    row: Sealed
    waiting: list[tuple[int, bytes, Delivery]]
    values: dict[tuple[str, str], bytes]
    belongings: int

    def queued(self) -> dict[str, tuple[int, bytes]]:
        """The number and the digest of each delivery's row, by its id."""
        return {delivery.id: (number, digest) for number, digest, delivery in self.waiting}


def stored(connection: sqlite3.Connection, conversation: str) -> Stored | None:
    """A conversation as it is stored; None when it is unknown.

    Raises UnreadableError when it is not what was written. One that an earlier version wrote last has no seal.
    """
    try:
        row = connection.execute(
            "select number, id, principal, root, opened, touched, version, closed, chain, state, seal"
            " from conversation where id = ?",
            (conversation,),
        ).fetchone()
        if row is None:
            return None
        *columns, sealed = row
        found = _belonging(connection, Sealed(*columns))
        if not sealed or sealed == found.row.seal(found.belongings):
            return found
    except (TypeError, ValueError, OverflowError):
        pass
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorname", None) is not None:
            raise  # else it is the module's own word for a text that is no UTF-8 any more
    raise UnreadableError(f"conversation {conversation}: what is kept of it is not what was written")


def _belonging(connection: sqlite3.Connection, row: Sealed) -> Stored:
    queued = connection.execute(
        f"select d.number, {COLUMNS} from delivery d where d.conversation = ? and d.state = 0",  # noqa: S608
        (row.number,),
    ).fetchall()
    waiting = [
        (number, seal.delivery(number, row.number, columns), read_delivery(row.id, columns))
        for number, *columns in queued
    ]
    values = connection.execute("select owner, name, data from value where conversation = ?", (row.number,))
    held = {(owner, name): data for owner, name, data in values}
    total = 0
    for _, digest, _ in waiting:
        total = seal.added(total, digest)
    for key, data in held.items():
        total = seal.added(total, seal.value(row.number, *key, data))
    return Stored(row, waiting, held, total)
