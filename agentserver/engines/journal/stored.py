"""A conversation of a journal as its rows have it, held against its seal.

Owns the columns of a delivery, and which rows belong to the present state of a conversation. Its state is kept whole
now and then, or never yet, and each step since then has the changes that it made: a step writes what it changes, and to
read a conversation costs what is in it rather than what has happened in it. Refuses to know what a state means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from agentserver.core.encoding import kept, snapshot
from agentserver.core.encoding.recording import Origin
from agentserver.core.encoding.snapshot import Snapshot, UnreadableError
from agentserver.core.messages import NO_CALL, Call, Delivery
from agentserver.engines.journal import seal
from agentserver.engines.journal.connection import snapshot as moment
from agentserver.engines.journal.seal import Sealed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentserver.engines.journal.connection import Connection


def row_delivery(delivery: Delivery) -> tuple[object, ...]:
    """The columns of a delivery, from ``id`` to ``call``."""
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
        _call_text(delivery.call),
    )


COLUMNS = (
    "d.id, d.request, d.thread, d.origin, d.sender, d.recipient, d.root, d.message, d.hop, d.about, d.call"
)


def read_delivery(conversation: str, row: Sequence[object]) -> Delivery:
    """The delivery with these columns."""
    key, request, thread, origin, sender, to, root, message, hop, about, call = row
    return Delivery(
        key,  # type: ignore[arg-type]
        conversation,
        request,  # type: ignore[arg-type]
        thread,  # type: ignore[arg-type]
        origin,  # type: ignore[arg-type]
        sender,  # type: ignore[arg-type]
        to,  # type: ignore[arg-type]
        root,  # type: ignore[arg-type]
        message,  # type: ignore[arg-type]
        hop,  # type: ignore[arg-type]
        about,  # type: ignore[arg-type]
        call=_call(str(call)),
    )


def _call_text(call: Call) -> str:
    """A call as a column; empty for one of which nothing is known."""
    return "" if call == NO_CALL else f"{call.order} {call.place} {int(call.refused)} {call.key}"


def _call(text: str) -> Call:
    if not text:
        return NO_CALL
    order, place, refused, key = text.split(" ", 3)
    return Call(int(order), key, int(place), refused == "1")


class Stored(NamedTuple):
    """A conversation's row with the rows that belong to its present state.

    Args:
        waiting: each delivery that is queued or held, with the number and the digest of its row.
        values: by owner and name.
        belongings: the sum of the digests of both.
        state: as it was kept whole; empty for that of a conversation that has just begun.
        changes: of the steps since then.
    """

    row: Sealed
    waiting: list[tuple[int, bytes, Delivery]]
    values: dict[tuple[str, str], bytes]
    belongings: int
    state: bytes
    changes: tuple[bytes, ...]

    def queued(self) -> dict[str, tuple[int, bytes]]:
        """The number and the digest of each delivery's row, by its id."""
        return {delivery.id: (number, digest) for number, digest, delivery in self.waiting}

    def snapshot(self) -> Snapshot:
        """The conversation in parts."""
        waiting = {delivery.id: delivery for _, _, delivery in self.waiting}
        state = self.state or snapshot.take(_beginning(self.row).conversation()).state
        return Snapshot(state, waiting, self.values, self.changes)


def _beginning(row: Sealed) -> Origin:
    return Origin(row.id, row.principal, row.root, kept.rights_in(row.rights))


def stored(connection: Connection, conversation: str) -> Stored | None:
    """A conversation as it is stored; None when it is unknown.

    Raises UnreadableError when it is not what was written.
    """
    with moment(connection):
        return _stored(connection, conversation)


def _stored(connection: Connection, conversation: str) -> Stored | None:
    try:
        row = connection.execute(
            "select number, id, principal, root, opened, touched, version, closed, chain, state, rights, asks, seal"
            " from conversation where id = ?",
            (conversation,),
        ).fetchone()
        if row is None:
            return None
        *columns, sealed = row
        found = _belonging(connection, Sealed(*columns))
        if _whole(found) and sealed == found.row.seal(found.belongings):
            return found
    except (TypeError, ValueError, OverflowError):
        pass
    raise UnreadableError(f"conversation {conversation}: what is kept of it is not what was written")


def _belonging(connection: Connection, row: Sealed) -> Stored:
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
    return Stored(row, waiting, held, total, *_state(connection, row))


def _state(connection: Connection, row: Sealed) -> tuple[bytes, tuple[bytes, ...]]:
    if row.closed is not None:
        return b"", ()
    version, state = connection.execute(
        "select version, data from state where conversation = ?", (row.number,)
    ).fetchone() or (0, b"")
    steps = connection.execute(
        "select changes from step where conversation = ? and version > ? order by version",
        (row.number, version),
    )
    return state, tuple(changes for (changes,) in steps)


def _whole(found: Stored) -> bool:
    """True when the state and the changes since are those of which the digest is in the conversation's row."""
    if found.row.closed is not None:
        return True
    digest = seal.state(found.state)
    for changes in found.changes:
        digest = seal.changed(digest, changes)
    return digest == found.row.state
