"""The rows of one transaction, and the statements that write them.

Owns the order of the columns. Refuses to know what the rows mean.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from agentserver.engines.journal import seal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentserver.engines.journal.connection import Connection

_AT_ONCE = (64, 16, 4, 1)
"""Rows that one run of a statement writes. Each run lets go of Python's lock, and has to wait for it afterwards."""


class _Statement:
    """A statement on several rows.

    Args:
        columns: of a row.
        before: the rows.
        after: the rows.
        row: the form of a row, if not all of its columns are given as they are.
    """

    def __init__(self, columns: int, before: str, after: str = "", row: str = "") -> None:
        one = row or f"({', '.join('?' * columns)})"
        texts = {size: f"{before} values {', '.join([one] * size)}{after}" for size in _AT_ONCE}
        self._texts = MappingProxyType(texts)

    def run(self, connection: Connection, rows: Sequence[Sequence[object]]) -> None:
        """Write rows, of which no two may be about the same."""
        at = 0
        for size, text in self._texts.items():
            while len(rows) - at >= size:
                connection.execute(text, [*chain.from_iterable(rows[at : at + size])])
                at += size


def _insert(table: str, columns: int, row: str = "", *, replace: bool = False) -> _Statement:
    return _Statement(columns, f"insert{' or replace' * replace} into {table}", row=row)


def _update(table: str, *columns: str) -> _Statement:
    """Rows have the values of these columns, and their number at the end."""
    changed = ", ".join(f"{name} = n.{name}" for name in columns)
    before = f"with n({', '.join(columns)}, number) as ("
    after = f") update {table} set {changed} from n where {table}.number = n.number"  # noqa: S608 - our own names
    return _Statement(len(columns) + 1, before, after)


EVENT = "insert into event values (?, ?, ?, ?, ?, ?, ?, ?, ?, 1, x'01')"
LEFT = (
    "update event set waiting = 0, mark = x'00'"
    " where waiting = 1 and conversation = (select number from conversation where id = ?1)"
    " and (?2 is null or (version = ?2 and position = ?3) or (?4 and (version, position) <= (?2, ?3)))"
)
_STEP = _insert("step", 13)
_DELIVERY = _insert("delivery", 14, "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, '', null, ?)")
_ENDED = _update("delivery", "state", "reason", "ended", "mark")
_EVENT = _insert("event", 9, "(?, ?, ?, ?, ?, ?, ?, ?, ?, 1, x'01')")
_RECEIPT = _insert("receipt", 4)
_OPENED = _insert("conversation", 11, "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, x'')")
_STATE = _update("conversation", "touched", "version", "closed", "chain", "state", "seal")
_VALUE = _insert("value", 4, replace=True)
_NO_VALUE = "delete from value where conversation = ? and owner = ? and name = ?"
_WHOLE = _insert("state", 3, replace=True)
_NO_WHOLE = "delete from state where conversation = ?"


_LINK = 12
"""The index of the link among the columns of a step."""


class DeliveryEnd(IntEnum):
    """The ways in which a delivery ends."""

    QUEUED = 0
    DONE = 1
    DROPPED = 2
    DEAD = 3
    DISCARDED = 4
    REDRIVEN = 5


class Left(NamedTuple):
    """An event that has left; all of its conversation without a version, all up to this place with ``before``."""

    conversation: str
    version: int | None = None
    position: int | None = None
    before: bool = False


@dataclass(slots=True)
class Rows:
    """The rows of one transaction."""

    opened: list[tuple[object, ...]] = field(default_factory=list)
    states: dict[int, tuple[object, ...]] = field(default_factory=dict)
    steps: list[tuple[object, ...]] = field(default_factory=list)
    receipts: list[tuple[object, ...]] = field(default_factory=list)
    deliveries: list[tuple[object, ...]] = field(default_factory=list)
    ended: dict[int, tuple[object, ...]] = field(default_factory=dict)
    events: list[tuple[object, ...]] = field(default_factory=list)
    values: dict[tuple[int, str, str], bytes | None] = field(default_factory=dict)
    wholes: dict[int, tuple[int, bytes] | None] = field(default_factory=dict)

    def write(self, connection: Connection) -> None:
        """Write them, a table at a time."""
        gone = [key for key, data in self.values.items() if data is None]
        over = [(number,) for number, whole in self.wholes.items() if whole is None]
        for removal, keys in ((_NO_VALUE, gone), (_NO_WHOLE, over)):
            if keys:
                connection.executemany(removal, keys)
        for statement, rows in (
            (_OPENED, self.opened),
            (_DELIVERY, self.deliveries),
            (_ENDED, list(self.ended.values())),
            (_EVENT, self.events),
            (_STEP, self.steps),
            (_RECEIPT, self.receipts),
            (_VALUE, [(*key, data) for key, data in self.values.items() if data is not None]),
            (_WHOLE, [(number, *whole) for number, whole in self.wholes.items() if whole is not None]),
            (_STATE, list(self.states.values())),
        ):
            if rows:
                statement.run(connection, rows)

    def end(self, number: int, ending: DeliveryEnd, reason: str = "", at: float | None = None) -> None:
        """Write what has become of a delivery."""
        self.ended[number] = (int(ending), reason, at, seal.mark(number, ending, reason, at), number)

    def links(self) -> list[bytes]:
        """The links that the steps add to their chains, in order."""
        return [step[_LINK] for step in self.steps]  # type: ignore[misc]
