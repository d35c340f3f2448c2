"""The rows of one transaction, and the statements that write them.

Owns the order of the columns. Refuses to know what the rows mean.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from agentserver.engines import journal_seal as seal

if TYPE_CHECKING:
    import sqlite3

_STEP = "insert into step values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_DELIVERY = "insert into delivery values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, '', null, ?)"
_ENDED = "update delivery set state = ?, reason = ?, ended = ?, mark = ? where number = ?"
EVENT = "insert into event values (?, ?, ?, ?, ?, ?, ?, ?, ?, 1, x'01')"
_RECEIPT = "insert into receipt values (?, ?, ?, ?)"
LEFT = (
    "update event set waiting = 0, mark = x'00'"
    " where waiting = 1 and conversation = (select number from conversation where id = ?1)"
    " and (?2 is null or (version = ?2 and position = ?3))"
)
_OPENED = "insert into conversation values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, x'')"
_STATE = "update conversation set touched = ?, version = ?, closed = ?, chain = ?, state = ?, seal = ? where number = ?"
_VALUE = "insert or replace into value values (?, ?, ?, ?)"
_WHOLE = "insert or replace into state values (?, ?, ?)"
_NO_WHOLE = "delete from state where conversation = ?"
_NO_VALUE = "delete from value where conversation = ? and owner = ? and name = ?"


_LINK = 11
"""The index of the link among the columns of a step."""


class Ending(IntEnum):
    """The ways in which a delivery ends."""

    QUEUED = 0
    DONE = 1
    DROPPED = 2
    DEAD = 3
    DISCARDED = 4
    REDRIVEN = 5


class Left(NamedTuple):
    """An event that has left; all of its conversation without a version."""

    conversation: str
    version: int | None = None
    position: int | None = None


@dataclass(slots=True)
class Rows:
    """The rows of one transaction."""

    opened: list[tuple[object, ...]] = field(default_factory=list)
    states: dict[int, tuple[object, ...]] = field(default_factory=dict)
    steps: list[tuple[object, ...]] = field(default_factory=list)
    receipts: list[tuple[object, ...]] = field(default_factory=list)
    deliveries: list[tuple[object, ...]] = field(default_factory=list)
    ended: list[tuple[object, ...]] = field(default_factory=list)
    events: list[tuple[object, ...]] = field(default_factory=list)
    values: dict[tuple[int, str, str], bytes | None] = field(default_factory=dict)
    wholes: dict[int, tuple[int, bytes] | None] = field(default_factory=dict)

    def write(self, connection: sqlite3.Connection) -> None:
        """Write them, each table once."""
        for statement, rows in (
            (_OPENED, self.opened),
            (_DELIVERY, self.deliveries),
            (_ENDED, self.ended),
            (EVENT, self.events),
            (_STEP, self.steps),
            (_RECEIPT, self.receipts),
            (_NO_VALUE, [key for key, data in self.values.items() if data is None]),
            (_VALUE, [(*key, data) for key, data in self.values.items() if data is not None]),
            (_NO_WHOLE, [(number,) for number, whole in self.wholes.items() if whole is None]),
            (_WHOLE, [(number, *whole) for number, whole in self.wholes.items() if whole is not None]),
            (_STATE, list(self.states.values())),
        ):
            if rows:
                connection.executemany(statement, rows)

    def end(self, number: int, ending: Ending, reason: str = "", at: float | None = None) -> None:
        """Write what has become of a delivery."""
        self.ended.append((ending, reason, at, seal.mark(number, ending, reason, at), number))

    def links(self) -> list[bytes]:
        """The links that the steps add to their chains, in order."""
        return [step[_LINK] for step in self.steps]  # type: ignore[misc]
