"""The rows of one transaction, and the statements that write them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from agentserver.core.messages import UNDECIDED
from agentserver.engines.journal import seal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from agentserver.core.messages import EventPlace
    from agentserver.engines.journal.connection import Connection

Row: TypeAlias = tuple[object, ...]

_new = tuple.__new__

_AT_ONCE = (64, 32, 16, 8, 4, 2, 1)
"""Rows per statement. Each run releases the GIL and waits to get it back."""


class _Statement:
    """Statement that writes several rows.

    Args:
        columns: of a row.
        before: text before the rows.
        after: text after the rows.
        row: the placeholders of a row, unless one for each column.
    """

    def __init__(self, columns: int, before: str, after: str = "", row: str = "") -> None:
        one = row or f"({', '.join('?' * columns)})"
        texts = {size: f"{before} values {', '.join([one] * size)}{after}" for size in _AT_ONCE}
        self._texts = MappingProxyType(texts)

    def run(self, connection: Connection, rows: Sequence[Sequence[object]]) -> None:
        """Write rows, which must have distinct keys."""
        at = 0
        for size, text in self._texts.items():
            while len(rows) - at >= size:
                connection.execute(text, [*chain.from_iterable(rows[at : at + size])])
                at += size


def _insert(table: str, columns: int, after: str = "", row: str = "") -> _Statement:
    return _Statement(columns, f"insert into {table}", after, row)


def _update(table: str, *columns: str) -> _Statement:
    """Make an update statement; each row holds these columns and then its number."""
    changed = ", ".join(f"{name} = n.{name}" for name in columns)
    before = f"with n({', '.join(columns)}, number) as ("
    after = f") update {table} set {changed} from n where {table}.number = n.number"  # noqa: S608 - our own names
    return _Statement(len(columns) + 1, before, after)


def _delete(table: str, *columns: str) -> _Statement:
    """Make a statement that removes the rows with these values, which it finds by their key."""
    names = ", ".join(columns)
    after = f") delete from {table} where ({names}) in (select {names} from n)"  # noqa: S608 - our own names
    return _Statement(len(columns), f"with n({names}) as (", after)


EVENT = "insert into event values (?, ?, ?, ?, ?, ?, ?, ?, ?, 1, x'01')"
LEFT = (
    "update event set waiting = 0, mark = x'00'"
    " where waiting = 1 and conversation = (select number from conversation where id = ?1)"
    " and (?2 is null or (version = ?2 and position = ?3) or (?4 and (version, position) <= (?2, ?3)))"
)
_STEP = _insert("step", 14)
_DELIVERY = _insert("delivery", 17)
_ENDED = _update("delivery", "state", "reason", "ended", "mark")
_QUEUED = _insert(
    "queue",
    4,
    " on conflict (conversation, delivery) do update set delayed = excluded.delayed, mark = excluded.mark",
)
_UNQUEUED = _delete("queue", "conversation", "delivery")
_EVENT = _insert("event", 9, row="(?, ?, ?, ?, ?, ?, ?, ?, ?, 1, x'01')")
_RECEIPT = _insert("receipt", 4)
_OPENED = _insert("conversation", 17)
_STATE = _update(
    "conversation", "touched", "version", "last", "chain", "state", "asks", "due", "tokens", "money", "seal"
)
_CLOSED = "update conversation set closed = ? where number = ?"
"""By itself: SQLite would take an open conversation out of the index of open ones with each step, and put it back."""

_VALUE = _insert("value", 4, " on conflict (conversation, owner, name) do update set data = excluded.data")
_FACET = _insert("facet", 4, " on conflict (conversation, kind, value) do nothing")
_WORDS = _insert("wordlist", 3)
_NO_VALUE = "delete from value where conversation = ? and owner = ? and name = ?"
_WHOLE = _insert(
    "state", 3, " on conflict (conversation) do update set version = excluded.version, data = excluded.data"
)
_NO_WHOLE = "delete from state where conversation = ?"


_CLOSED_AT = 3
"""The index of ``closed`` among the columns of a conversation's last state."""

_LINK = 13
"""The index of the chain link among the columns of a step."""


class DeliveryEnd(IntEnum):
    """End of a delivery. Until then it is ``DONE`` in advance, and in the queue: most need no second write."""

    DONE = 1
    DROPPED = 2
    DEAD = 3
    DISCARDED = 4
    REDRIVEN = 5


def write_discard(by: str, reason: str) -> str:
    """Write the reason of a discarded delivery: the operator in a line, then why it had been given up."""
    return f"{by.replace(chr(10), ' ')}\n{reason}"


def read_discard(text: str) -> tuple[str, str]:
    """Read the operator and the reason of a discarded delivery."""
    by, _, reason = text.partition("\n")
    return by, reason


class Acknowledgement(NamedTuple):
    """One acknowledged event, or all up to this place with ``before``, or all of a conversation without a version."""

    conversation: str
    version: int | None = None
    position: int | None = None
    before: bool = False


class DeliveryRow(NamedTuple):
    """The number of a delivery's row, and of its conversation."""

    number: int
    owner: int


class EndedDelivery(NamedTuple):
    """Update that ends a delivery, in the order of its columns.

    Args:
        ended: seconds since the epoch.
        number: of its row.
        owner: number of its conversation.
        within: number of the conversation whose step ended it. It differs from ``owner`` when a dead letter is
            redriven.
    """

    state: int
    reason: str
    ended: float | None
    mark: bytes
    number: int
    owner: int
    within: int


class FoldedRows(NamedTuple):
    """Rows of one transaction with distinct keys, each an insert or an update.

    Args:
        opened: new conversations, with their last state.
        deliveries: new deliveries, with their final states.
        ended_deliveries: ends of older deliveries.
        queued: new rows of the queue, or changed ones.
        unqueued: keys of removed rows of the queue.
        values: new or changed values.
        removed_keys: keys of removed values.
        wholes: whole states.
        over: keys of closed conversations, whose states are deleted.
        states: last states of older conversations.
        facets: new facets.
        words: of new messages.
    """

    opened: list[Row]
    deliveries: list[Row]
    ended_deliveries: list[EndedDelivery]
    queued: list[Row]
    unqueued: list[Row]
    events: list[Row]
    steps: list[Row]
    receipts: list[Row]
    values: list[Row]
    removed_keys: list[Row]
    wholes: list[Row]
    over: list[Row]
    states: list[Row]
    facets: list[Row]
    words: list[Row]


def make_gone_test(
    acknowledged: Iterable[Acknowledgement], conversation: str
) -> Callable[[EventPlace], bool]:
    """Make a test for places whose acknowledgements are about to be written."""
    found = [one for one in acknowledged if one.conversation == conversation]
    places = {(one.version, one.position) for one in found}
    everything = any(one.version is None for one in found)
    before = max(((one.version, one.position) for one in found if one.before), default=UNDECIDED)
    return lambda place: everything or place <= before or place in places


@dataclass(slots=True)
class Rows:
    """Rows of one transaction, as its steps made them."""

    opened: dict[int, Row] = field(default_factory=dict)
    states: dict[int, Row] = field(default_factory=dict)
    steps: list[Row] = field(default_factory=list)
    receipts: list[Row] = field(default_factory=list)
    deliveries: list[Row] = field(default_factory=list)
    ended_deliveries: dict[int, EndedDelivery] = field(default_factory=dict)
    queue: dict[DeliveryRow, bool | None] = field(default_factory=dict)
    events: list[Row] = field(default_factory=list)
    values: dict[tuple[int, str, str], bytes | None] = field(default_factory=dict)
    wholes: dict[int, tuple[int, bytes] | None] = field(default_factory=dict)
    facets: list[Row] = field(default_factory=list)
    words: list[Row] = field(default_factory=list)

    def fold(self) -> FoldedRows:
        """Merge rows with the same key, so that one statement can write a table."""
        states, ended = dict(self.states), dict(self.ended_deliveries)
        added = {row[0] for row in self.deliveries}
        return FoldedRows(
            [(*row, *states.pop(number)[:-1]) for number, row in self.opened.items()],
            [(*row[:-1], *_end(ended.pop(row[0], None), row[-1])) for row in self.deliveries],  # type: ignore[call-overload]
            list(ended.values()),
            [
                (row.owner, row.number, int(delayed), seal.mark_queued(row.number, delayed=delayed))
                for row, delayed in self.queue.items()
                if delayed is not None
            ],
            [
                (row.owner, row.number)
                for row, delayed in self.queue.items()
                if delayed is None and row.number not in added
            ],
            self.events,
            self.steps,
            self.receipts,
            [(*key, data) for key, data in self.values.items() if data is not None],
            [key for key, data in self.values.items() if data is None],
            [(number, *state) for number, state in self.wholes.items() if state is not None],
            [(number,) for number, state in self.wholes.items() if state is None],
            list(states.values()),
            self.facets,
            self.words,
        )

    def write(self, connection: Connection) -> None:
        """Write the rows, a table at a time."""
        rows = self.fold()
        for removal, keys in (
            (_NO_VALUE, rows.removed_keys),
            (_NO_WHOLE, rows.over),
        ):
            if keys:
                connection.executemany(removal, keys)
        for statement, those in (
            (_OPENED, rows.opened),
            (_DELIVERY, rows.deliveries),
            (_ENDED, [row[:5] for row in rows.ended_deliveries]),
            (_UNQUEUED, rows.unqueued),
            (_QUEUED, rows.queued),
            (_EVENT, rows.events),
            (_STEP, rows.steps),
            (_RECEIPT, rows.receipts),
            (_VALUE, rows.values),
            (_WHOLE, rows.wholes),
            (_STATE, [(*row[:_CLOSED_AT], *row[_CLOSED_AT + 1 :]) for row in rows.states]),
            (_FACET, rows.facets),
            (_WORDS, rows.words),
        ):
            if those:
                statement.run(connection, those)
        closed = [(row[_CLOSED_AT], row[-1]) for row in rows.states if row[_CLOSED_AT] is not None]
        if closed:
            connection.executemany(_CLOSED, closed)

    def end(
        self, row: DeliveryRow, within: int, ending: DeliveryEnd, reason: str = "", at: float | None = None
    ) -> None:
        """Record the end of a delivery by a step of the conversation ``within``."""
        number, owner = row
        mark = seal.mark(number, ending, reason, at)
        columns = (int(ending), reason, at, mark, number, owner, within)
        self.ended_deliveries[number] = _new(EndedDelivery, columns)

    def list_links(self) -> list[bytes]:
        """List the chain links that the steps add, in order."""
        return [step[_LINK] for step in self.steps]  # type: ignore[misc]


def _end(ended: EndedDelivery | None, mark: object) -> Row:
    return (int(DeliveryEnd.DONE), "", None, mark) if ended is None else ended[:4]
