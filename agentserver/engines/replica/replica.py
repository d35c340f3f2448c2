"""A replica: a journal to which a log is applied, in its order.

Owns the transaction that an entry and its place go into, and what comes of each act. The same log gives the same rows:
an act that cannot be kept is dropped by every replica alike. Synchronous: its engine calls it from a thread of its own.
Refuses to know where entries come from.
"""

from __future__ import annotations

import logging
import sqlite3
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from agentserver.engines.replica import kept_arrivals
from agentserver.engines.replica.entries import form
from agentserver.engines.replica.entries.acts import (
    Departing,
    Discarding,
    Done,
    Forgetting,
    Handing,
    Naming,
    Setting,
)
from agentserver.engines.replica.entries.form import UnreadableEntry
from agentserver.engines.replica.log import BrokenLogError
from agentserver.engines.replica.tables import keep_claim, keep_place, last_claims, place_of
from agentserver.engines.sqlite.care import maintenance, openings
from agentserver.engines.sqlite.file import about_the_file, told
from agentserver.engines.sqlite.proof import head as journal_head
from agentserver.engines.sqlite.rows import LEFT, Rows
from agentserver.engines.sqlite.steps.numbered import StepRows
from agentserver.engines.sqlite.steps.step import StepData
from agentserver.ports import EngineError, UnfitError
from agentserver.ports.errors import FencedError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from agentserver.core.messages import Done as Over
    from agentserver.core.messages import Reply
    from agentserver.engines.replica.entries.acts import Act
    from agentserver.engines.replica.log import LogEntry
    from agentserver.ports.sharing import Fate

    Result: TypeAlias = EngineError | str | bool | int | Fate | tuple[Reply | Over, ...] | None

logger = logging.getLogger("agentserver.journal")

_ABOUT_AN_ACT = (sqlite3.Error, TypeError, ValueError, LookupError, OverflowError)


class Applied(NamedTuple):
    """An entry, with what has come of it.

    Args:
        acts: that it has; none of one that was dropped.
        results: what has come of each: an error when it was not done. Of a claim the number of the last event before.
    """

    entry: LogEntry
    acts: tuple[Act, ...] = ()
    results: tuple[Result, ...] = ()


class Replica:
    """Applies entries to an open journal.

    Args:
        connection: to the journal, which has the tables of a replica; no other writes it.
        path: for messages.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._rows = StepRows(connection)
        self._waiting = Rows()
        self.place = place_of(connection)
        self.claims = last_claims(connection)
        self._read_head()

    def _read_head(self) -> None:
        head = journal_head.read(self._connection)
        assert head is not None
        self._head = head

    def apply(self, entries: Sequence[LogEntry]) -> list[Applied]:
        """Apply entries in order and in one transaction; gives what has come of each.

        One that comes before the place of the replica was applied already, and is left out.
        Raises EngineError when the file cannot be written, and BrokenLogError when one is of a later version: what it
        says must not be missing from the replica. Then nothing was applied.
        """
        coming = [entry for entry in entries if entry.place > self.place]
        if not coming:
            return []
        try:
            return self._attempt(coming)
        except BrokenLogError as error:
            self._undo(error)
            raise
        except _ABOUT_AN_ACT as error:
            self._undo(error)
        if len(coming) > 1:
            return [applied for entry in coming for applied in self.apply([entry])]
        try:
            return self._attempt(coming, apart=True)
        except _ABOUT_AN_ACT as error:
            self._undo(error)
            raise EngineError(f"{self._path}: an entry cannot be applied: {error}") from error

    def _attempt(self, entries: Sequence[LogEntry], *, apart: bool = False) -> list[Applied]:
        self._connection.execute("begin immediate")
        claims = dict(self.claims)
        found = [self._entry(entry, claims, apart=apart) for entry in entries]
        self._write()
        keep_place(self._connection, entries[-1].place, entries[-1].id)
        self._connection.execute("commit")
        self.place, self.claims = entries[-1].place, claims
        return found

    def _undo(self, error: Exception) -> None:
        """Forget a transaction. Raises EngineError when the file is what fails."""
        self._waiting = Rows()
        if self._connection.in_transaction:
            self._connection.execute("rollback")
        self._rows.forget()
        self._read_head()
        if isinstance(error, sqlite3.Error) and about_the_file(error):
            raise told(self._path, error) from error

    def _entry(self, entry: LogEntry, claims: dict[int, int], *, apart: bool) -> Applied:
        if not entry.body:
            claims[entry.partition] = entry.place
            keep_claim(self._connection, entry.partition, entry.place)
            return Applied(entry, (), (self._rows.events,))
        acts = form.load(entry.body)
        if isinstance(acts, UnreadableEntry) and acts.later:
            raise BrokenLogError(f"the entry at {entry.place} is of a later version: upgrade this server")
        if isinstance(acts, UnreadableEntry):
            logger.error("the entry at %d of the log is left out: %s", entry.place, acts.why)
            return Applied(entry)
        if entry.epoch is not None and entry.epoch != claims.get(entry.partition):
            # The log compares before it takes an entry, which may be too early: here it cannot be.
            return Applied(entry, acts, (FencedError("another process has claimed it"),) * len(acts))
        do = self._apart if apart else self._act
        return Applied(entry, acts, tuple([do(act, entry) for act in acts]))

    def _apart(self, act: Act, entry: LogEntry) -> Result:
        """Do an act by itself, so that what is wrong with it does not concern the others."""
        self._write()
        self._connection.execute("savepoint act")
        try:
            result = self._act(act, entry)
            self._write()
        except _ABOUT_AN_ACT as error:
            if isinstance(error, sqlite3.Error) and about_the_file(error):
                raise
            self._waiting = Rows()
            self._connection.execute("rollback to act")
            self._rows.forget()
            self._read_head()
            result = UnfitError(f"it cannot be kept: {error}")
        self._connection.execute("release act")
        return result

    def _write(self) -> None:
        """Write the rows that wait."""
        rows, self._waiting = self._waiting, Rows()
        rows.write(self._connection)
        if rows.steps:
            self._head = self._head.after(rows.links())
            journal_head.keep(self._connection, self._head)

    def _act(self, act: Act, entry: LogEntry) -> Result:
        if isinstance(act, StepData):
            return self._step(act)
        self._write()
        match act:
            case Setting(conversation, reason, at):
                return self._rows.set_aside(conversation, reason, at)
            case Forgetting(before):
                return self._forget(before)
            case Handing(arrival):
                return kept_arrivals.keep(self._connection, arrival, entry)
            case Done(arrival, fate):
                kept_arrivals.done(self._connection, arrival, fate)
                return None
        return _small(self._connection, act)

    def _step(self, step: StepData) -> Result:
        if step.revived is not None or step.redriven is not None:
            self._write()  # the dead letter may be among what waits
        name = None if step.receipt is None else step.receipt.name
        objection = self._rows.objection(step.conversation, step.before, name, self._waiting)
        if objection is None:
            self._rows.add(step, self._waiting)
            if step.closed:
                self._write()  # it is not among what is known any more, and has to be found as it is
        return objection

    def _forget(self, before: float) -> int:
        total = gone = maintenance.forget(self._connection, before)
        while gone:
            gone = maintenance.forget(self._connection, before)
            total += gone
        return total


def _small(connection: sqlite3.Connection, act: Departing | Discarding | Naming) -> Result:
    match act:
        case Departing(left):
            connection.execute(LEFT, left)
            return None
        case Discarding(delivery):
            return maintenance.discard(connection, delivery)
        case Naming(name, conversation, at):
            return openings.claim(connection, name, conversation, at)
