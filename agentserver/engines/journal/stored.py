"""A conversation as stored in rows, verified against its seal.

The state is stored whole only occasionally. Each later step stores its changes, so that a step writes only its
changes, and reading a conversation costs the size of its state rather than of its history.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from agentserver.core.encoding import parts, snapshot
from agentserver.core.encoding.decision_codec import Origin
from agentserver.core.encoding.snapshot import Snapshot, UnreadableError
from agentserver.core.messages import NO_CALL, Call, Delivery
from agentserver.core.receipts import Receipt
from agentserver.engines.journal import seal, suspension
from agentserver.engines.journal.connection import snapshot as moment
from agentserver.engines.journal.finding import read_facets, read_unindexed
from agentserver.engines.journal.rows import DeliveryEnd, DeliveryRow
from agentserver.engines.journal.seal import GENESIS, SealedColumns
from agentserver.engines.journal.walking import STEPS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agentserver.core.encoding.search import Facet
    from agentserver.engines.journal.connection import Connection

_new = tuple.__new__


@dataclass(slots=True)
class RowCache:
    """Cache of an open conversation's stored rows, which saves reads before writes.

    Args:
        last: the number of its last step.
        values: by owner and name.
        queued: the number and the digest of each delivery's row, by its id.
        belongings: the sum of the digests of the values and of queued deliveries.
        state: the digest of its state, including later changes.
        rights: the principal's rights, as in its row.
        asks: the number of messages that wait for a person.
        facets: stored ones, as far as they are known.
        unindexed: messages whose words are not stored yet.
    """

    number: int
    opened: float
    version: int
    last: int
    chain: bytes
    values: dict[str, dict[str, bytes]] = field(default_factory=dict)
    queued: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    belongings: int = 0
    state: bytes = b""
    rights: str = ""
    asks: int = 0
    facets: set[Facet] = field(default_factory=set)
    unindexed: list[bytes] = field(default_factory=list)

    def queue(self, key: str, number: int, digest: bytes) -> None:
        """Add a queued delivery."""
        self.queued[key] = number, digest
        self.belongings = seal.toggle_digest(self.belongings, digest)

    def unqueue(self, key: str) -> DeliveryRow:
        """Remove a queued delivery. Returns its row."""
        number, digest = self.queued.pop(key)
        self.belongings = seal.toggle_digest(self.belongings, digest)
        return _new(DeliveryRow, (number, self.number))

    def store(self, owner: str, values: Mapping[str, bytes]) -> dict[tuple[int, str, str], bytes | None]:
        """Replace an owner's values. Returns the changed ones, with None for removed ones."""
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
        """Replace all values. Returns the changes as ``store`` does."""
        changed: dict[tuple[int, str, str], bytes | None] = {}
        for owner in {**self.values, **values}:
            changed.update(self.store(owner, values.get(owner, {})))
        return changed

    def amend(
        self, owner: str, changes: Mapping[str, bytes | None]
    ) -> dict[tuple[int, str, str], bytes | None]:
        """Change some of an owner's values; None removes one. Returns the changes as ``store`` does."""
        known = self.values.setdefault(owner, {})
        for name, now in changes.items():
            self._exchange(owner, name, known.pop(name, None), now)
            if now is not None:
                known[name] = now
        if not known:
            del self.values[owner]
        return {(self.number, owner, name): now for name, now in changes.items()}

    def _exchange(self, owner: str, name: str, before: bytes | None, now: bytes | None) -> None:
        """Replace a value in the sum of digests."""
        for each in (before, now):
            if each is not None:
                self.belongings = seal.toggle_digest(
                    self.belongings, seal.digest_value(self.number, owner, name, each)
                )


def convert_row_delivery(delivery: Delivery) -> tuple[object, ...]:
    """Convert a delivery to columns, from ``id`` to ``call``."""
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
    """Make a delivery from its columns."""
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
    """Encode a call as a column; empty for ``NO_CALL``."""
    return "" if call == NO_CALL else f"{call.order} {call.place} {int(call.refused)} {call.key}"


def _call(text: str) -> Call:
    if not text:
        return NO_CALL
    order, place, refused, key = text.split(" ", 3)
    return Call(int(order), key, int(place), refused == "1")


class StoredConversation(NamedTuple):
    """A conversation's row with the rows of its current state.

    Args:
        deliveries: each queued or held delivery, with the number and the digest of its row.
        values: by owner and name.
        belongings: the sum of the digests of both.
        state: the last whole state; empty for a new conversation.
        changes: of the later steps.
    """

    row: SealedColumns
    deliveries: list[tuple[int, bytes, Delivery]]
    values: dict[tuple[str, str], bytes]
    belongings: int
    state: bytes
    changes: tuple[bytes, ...]

    def map_queued(self) -> dict[str, tuple[int, bytes]]:
        """Map delivery ids to the number and digest of each row."""
        return {delivery.id: (number, digest) for number, digest, delivery in self.deliveries}

    def assemble_snapshot(self) -> Snapshot:
        """Assemble the snapshot of the conversation."""
        queued = {delivery.id: delivery for _, _, delivery in self.deliveries}
        state = self.state or snapshot.take(_make_origin(self.row).conversation()).state
        return Snapshot(state, queued, self.values, self.changes)


def _make_origin(row: SealedColumns) -> Origin:
    return Origin(row.id, row.principal, row.root, parts.read_rights_in(row.rights))


def read_stored(connection: Connection, conversation: str) -> StoredConversation | None:
    """Read a stored conversation; None if it is unknown.

    Raises UnreadableError when it fails its seal.
    """
    with moment(connection):
        return _read_verified(connection, conversation)


def _read_verified(connection: Connection, conversation: str) -> StoredConversation | None:
    try:
        row = connection.execute(
            "select number, id, principal, root, opened, touched, version, last, closed, chain, state, rights, asks,"
            " due, tokens, money, seal"
            " from conversation where id = ?",
            (conversation,),
        ).fetchone()
        if row is None:
            return None
        *columns, sealed = row
        found = _belonging(connection, SealedColumns(*columns))
        if _is_whole(found) and sealed == found.row.compute_seal(found.belongings):
            return found
    except (TypeError, ValueError, OverflowError):
        pass
    raise UnreadableError(f"conversation {conversation}: its stored rows fail their seal")


def _belonging(connection: Connection, row: SealedColumns) -> StoredConversation:
    queued = connection.execute(
        f"select d.number, {COLUMNS} from queue q join delivery d"  # noqa: S608 - our own text
        " on d.number = q.delivery and d.conversation = q.conversation where q.conversation = ?",
        (row.number,),
    ).fetchall()
    deliveries = [
        (number, seal.digest_delivery(number, row.number, columns), read_delivery(row.id, columns))
        for number, *columns in queued
    ]
    values = connection.execute("select owner, name, data from value where conversation = ?", (row.number,))
    data_by_key = {(owner, name): data for owner, name, data in values}
    total = 0
    for _, digest, _ in deliveries:
        total = seal.toggle_digest(total, digest)
    for key, data in data_by_key.items():
        total = seal.toggle_digest(total, seal.digest_value(row.number, *key, data))
    return StoredConversation(row, deliveries, data_by_key, total, *_collect_state(connection, row))


def _collect_state(connection: Connection, row: SealedColumns) -> tuple[bytes, tuple[bytes, ...]]:
    if row.closed is not None:
        return b"", ()
    version, state = connection.execute(
        "select version, data from state where conversation = ?", (row.number,)
    ).fetchone() or (0, b"")
    steps = connection.execute(
        f"select s.changes from {STEPS} order by s.version",  # noqa: S608 - our own text
        (row.number, version),
    )
    return state, tuple(changes for (changes,) in steps)


def _is_whole(found: StoredConversation) -> bool:
    """Check the state and later changes against the digest in the conversation's row."""
    if found.row.closed is not None:
        return True
    digest = seal.digest_state(found.state)
    for changes in found.changes:
        digest = seal.digest_changes(digest, changes)
    return digest == found.row.state


def find_rows(connection: Connection, conversation: str) -> RowCache | None:
    """Find the stored rows of a conversation; None if unknown. A closed or suspended one has version -1."""
    if suspension.is_suspended(connection, conversation):
        return RowCache(0, 0.0, -1, 0, GENESIS)
    found = read_stored(connection, conversation)
    if found is None:
        return None
    row = found.row
    if row.closed is not None:
        return RowCache(row.number, row.opened, -1, row.last, row.chain)
    contents = (snapshot.group_by_owner(found.values), found.map_queued(), found.belongings)
    cache = RowCache(
        row.number,
        row.opened,
        row.version,
        row.last,
        row.chain,
        *contents,
        row.state,
        row.rights,
        row.asks,
    )
    cache.facets |= read_facets(connection, row.number)
    cache.unindexed += read_unindexed(connection, row.number)
    return cache


def find_dead_row(connection: Connection, conversation: str, delivery: str) -> DeliveryRow | None:
    """Find the row of a dead letter, or None."""
    row = connection.execute(
        "select d.number, d.conversation from delivery d join conversation c on c.number = d.conversation"
        " where c.id = ? and d.id = ? and d.state = ?",
        (conversation, delivery, int(DeliveryEnd.DEAD)),
    ).fetchone()
    return None if row is None else DeliveryRow(*row)


def find_receipt(connection: Connection, number: int, name: str) -> Receipt | None:
    """Find the receipt with a name in a conversation, by number."""
    row = connection.execute(
        "select request, content from receipt where conversation = ? and name = ?", (number, name)
    ).fetchone()
    return None if row is None else Receipt(str(row[0]), str(row[1]))
