"""A conversation of a journal as its rows have it, held against its seal.

Owns the columns of a delivery, and which rows belong to the present state of a conversation. Its state is kept whole
now and then, or never yet, and each step since then has the changes that it made: a step writes what it changes, and to
read a conversation costs what is in it rather than what has happened in it. Refuses to know what a state means.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from agentserver.core.encoding import kept, snapshot
from agentserver.core.encoding.recording import Origin
from agentserver.core.encoding.snapshot import Snapshot, UnreadableError
from agentserver.core.messages import NO_CALL, Call, Delivery
from agentserver.core.receipts import Receipt
from agentserver.engines.journal import seal, suspension
from agentserver.engines.journal.connection import snapshot as moment
from agentserver.engines.journal.rows import DeliveryEnd, DeliveryRow
from agentserver.engines.journal.seal import GENESIS, Sealed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agentserver.engines.journal.connection import Connection


@dataclass(slots=True)
class RowCache:
    """The stored rows of an open conversation, so that they need not be read before they are written.

    Args:
        values: by owner and name.
        queued: the number and the digest of each delivery's row, by its id.
        belongings: the sum of the digests of the values and of what is queued.
        state: the digest of its state, of the changes since it was kept whole included.
        rights: of the principal, as they stand in its row.
        asks: how many messages wait for a person.
    """

    number: int
    opened: float
    version: int
    chain: bytes
    values: dict[str, dict[str, bytes]] = field(default_factory=dict)
    queued: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    belongings: int = 0
    state: bytes = b""
    rights: str = ""
    asks: int = 0

    def queue(self, key: str, number: int, digest: bytes) -> None:
        """A delivery waits in it."""
        self.queued[key] = number, digest
        self.belongings = seal.added(self.belongings, digest)

    def unqueue(self, key: str) -> DeliveryRow:
        """Remove a delivery that no longer waits. Returns its row."""
        number, digest = self.queued.pop(key)
        self.belongings = seal.added(self.belongings, digest)
        return DeliveryRow(number, self.number)

    def store(self, owner: str, values: Mapping[str, bytes]) -> dict[tuple[int, str, str], bytes | None]:
        """Everything of an owner's is this now; gives what that changes, with None for what is removed."""
        known = self.values.get(owner, {})
        changed: dict[tuple[int, str, str], bytes | None] = {}
        for name in known.keys() | values.keys() if known else values.keys():
            before, now = known.get(name), values.get(name)
            if before == now:
                continue
            changed[self.number, owner, name] = now
            self._exchange(owner, name, before, now)
        if values:
            self.values[owner] = dict(values)
        else:
            self.values.pop(owner, None)
        return changed

    def replace(self, values: Mapping[str, Mapping[str, bytes]]) -> dict[tuple[int, str, str], bytes | None]:
        """Everything of every owner is this now; gives what ``store`` does."""
        changed: dict[tuple[int, str, str], bytes | None] = {}
        for owner in {**self.values, **values}:
            changed.update(self.store(owner, values.get(owner, {})))
        return changed

    def amend(
        self, owner: str, changes: Mapping[str, bytes | None]
    ) -> dict[tuple[int, str, str], bytes | None]:
        """Change some of an owner's values, and look at no other; None removes one. Gives what ``store`` does."""
        known = self.values.setdefault(owner, {})
        for name, now in changes.items():
            self._exchange(owner, name, known.pop(name, None), now)
            if now is not None:
                known[name] = now
        if not known:
            del self.values[owner]
        return {(self.number, owner, name): now for name, now in changes.items()}

    def _exchange(self, owner: str, name: str, before: bytes | None, now: bytes | None) -> None:
        """Let the sum of the digests have one value in place of another."""
        for each in (before, now):
            if each is not None:
                self.belongings = seal.added(self.belongings, seal.value(self.number, owner, name, each))


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


def find_rows(connection: Connection, conversation: str) -> RowCache | None:
    """The stored rows of a conversation; None when it is unknown. One that is closed or aside has version -1."""
    if suspension.is_suspended(connection, conversation):
        return RowCache(0, 0.0, -1, GENESIS)
    found = stored(connection, conversation)
    if found is None:
        return None
    row = found.row
    if row.closed is not None:
        return RowCache(row.number, row.opened, -1, row.chain)
    held = (snapshot.by_owner(found.values), found.queued(), found.belongings)
    return RowCache(row.number, row.opened, row.version, row.chain, *held, row.state, row.rights, row.asks)


def find_dead_row(connection: Connection, conversation: str, delivery: str) -> DeliveryRow | None:
    """Find the row of a dead letter of a conversation; None when there is none."""
    row = connection.execute(
        "select d.number, d.conversation from delivery d join conversation c on c.number = d.conversation"
        " where c.id = ? and d.id = ? and d.state = ?",
        (conversation, delivery, int(DeliveryEnd.DEAD)),
    ).fetchone()
    return None if row is None else DeliveryRow(*row)


def find_receipt(connection: Connection, number: int, name: str) -> Receipt | None:
    """The receipt in a conversation, by its number, under a name."""
    row = connection.execute(
        "select request, content from receipt where conversation = ? and name = ?", (number, name)
    ).fetchone()
    return None if row is None else Receipt(str(row[0]), str(row[1]))
