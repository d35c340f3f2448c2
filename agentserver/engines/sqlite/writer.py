"""Group commit of outcomes to a journal file.

Each outcome is committed whole or not at all, and a failing one does not affect the others. The engine calls it in its
writing thread.
"""

from __future__ import annotations

import logging
import sqlite3
from functools import partial
from typing import TYPE_CHECKING

from agentserver.engines.journal import suspension
from agentserver.engines.journal.rows import LEFT, Acknowledgement, Rows
from agentserver.engines.journal.step_data import EncodedOutcome, StepMaker, from_outside
from agentserver.engines.journal.step_rows import StepRows
from agentserver.engines.journal.stored import find_dead_row, find_receipt, find_rows
from agentserver.engines.sqlite import head as journal_head
from agentserver.engines.sqlite import maintenance
from agentserver.engines.sqlite.file import FATAL, about_a_row, about_the_file, convert_error
from agentserver.engines.sqlite.lock import Files
from agentserver.ports import EngineError, UnstorableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from agentserver.core.guard import CoreGuard
    from agentserver.core.messages import Done, Reply
    from agentserver.core.records.outcome import Outcome
    from agentserver.engines.sqlite.lock import Lock


logger = logging.getLogger("agentserver.journal")

_FULL = 2
"""SQLite's name for a commit that waits for the disk."""


class Writer:
    """Commits outcomes to an open journal.

    Args:
        connection: the only writing connection to the journal.
        path: for messages.
        guards: guards whose memories are stored.
        limit: bytes of the journal beyond which outside messages are refused; None for no limit.

    ``pending_acks`` holds acknowledgements to be written with the next successful commit.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: Path,
        guards: Sequence[CoreGuard] = (),
        limit: int | None = None,
    ) -> None:
        self._connection = connection
        self._path = path
        self._steps = StepMaker(guards)
        self.adopt = self._steps.adopt
        self.encode = self._steps.encode
        self._limit = limit
        self._full: EngineError | None = None
        self._broken: EngineError | None = None
        self.pending_acks: list[Acknowledgement] = []
        self._stored = FileRows(connection)
        self._rows = StepRows(self._stored)
        head = journal_head.read(connection)
        assert head is not None
        self._head = head
        # A statement of many rows keeps what it may have to take back: else a file is made for every transaction.
        connection.execute("pragma temp_store = memory")
        (sync,) = connection.execute("pragma synchronous").fetchone()
        self._head_file = journal_head.HeadFile(path, durable=sync >= _FULL)
        self._head_file.note(head)
        self._files = Files(path)

    # Commits

    def commit(
        self, outcomes: Sequence[Outcome], acknowledged: Iterable[Acknowledgement] = ()
    ) -> list[EngineError | None]:
        """Commit outcomes in order and in one transaction. Returns an error or None for each.

        Args:
            outcomes: a later one of the same conversation may build on an earlier one.
            acknowledged: acknowledged events.
        """
        return self.write([self.encode(outcome) for outcome in outcomes], acknowledged)

    def write(
        self, group: Sequence[EncodedOutcome | EngineError], acknowledged: Iterable[Acknowledgement] = ()
    ) -> list[EngineError | None]:
        """Commit encoded outcomes, as ``commit`` does."""
        self._broken = self._broken or self._files.find_replacement()
        if self._broken is not None:
            return [self._broken] * len(group)
        self.pending_acks += acknowledged
        found = self._attempt(group)
        if isinstance(found, list):
            # After the commit, so that confirmed steps are in the journal's current file.
            self._broken = self._files.find_replacement()
            return found if self._broken is None else [self._broken] * len(group)
        if isinstance(found, sqlite3.Error) and about_the_file(found):
            return [self._convert_failure(found)] * len(group)
        if len(group) <= 1:
            kind = UnstorableError if about_a_row(found) else EngineError
            return [kind(f"{self._path}: {found}")] * len(group)
        # One of them fails: commit each alone, so that the others succeed.
        return [self.write([one])[0] for one in group]

    def _attempt(self, group: Sequence[EncodedOutcome | EngineError]) -> list[EngineError | None] | Exception:
        rows = Rows()
        try:
            self._connection.execute("begin immediate")
            self._full = self._over()
            found = [one if isinstance(one, EngineError) else self._prepare(one, rows) for one in group]
            rows.write(self._connection)
            if self.pending_acks:
                self._connection.executemany(LEFT, self.pending_acks)
            head = self._head.compute_after(rows.list_links()) if rows.steps else self._head
            if rows.steps:
                journal_head.keep(self._connection, head)
            self._connection.execute("commit")
            self.pending_acks.clear()
        except (sqlite3.Error, TypeError, ValueError, LookupError, OverflowError) as error:
            self._undo()
            return error
        self._head = head
        self._head_file.note(head)
        return found

    def suspend(self, conversation: str, reason: str, at: float) -> tuple[Reply | Done, ...]:
        """Suspend a conversation. Returns the events that leave it."""
        self.check()
        self._steps.forget(conversation)
        self._rows.forget(conversation)
        events = suspension.suspend(self._connection, conversation, reason, at)
        self._stored.count()
        return events

    def forget(self, conversations: Iterable[str]) -> None:
        """Forget the cached rows of some conversations."""
        for conversation in conversations:
            self._steps.forget(conversation)
            self._rows.forget(conversation)

    def check(self) -> None:
        """Check that commits are possible. Raises EngineError."""
        self._broken = self._broken or self._files.find_replacement()
        if self._broken is not None:
            raise self._broken

    def _over(self) -> EngineError | None:
        """Make the error for a journal that exceeds its limit; None if it does not."""
        if self._limit is None:
            return None
        size = maintenance.count_held_bytes(self._connection)
        if size < self._limit:
            return None
        full = EngineError(
            f"{self._path}: it holds {size} bytes, and its limit is {self._limit} (journal.limit). Nothing new is"
            " accepted until finished conversations expire (journal.retention) or the limit is higher"
        )
        if self._full is None:
            logger.error("%s", full)
        return full

    def leave(self, lock: Lock) -> None:
        """Protect the files of a journal that replaced this one. Call it before the connection closes."""
        if self._files.find_replacement() is not None:
            lock.spare_the_log()

    def _undo(self) -> None:
        """Roll back a transaction, and forget the rows that it would have stored."""
        self._steps.forget()
        try:
            if self._connection.in_transaction:
                self._connection.execute("rollback")
            self._rows.forget()
            self._stored.count()
        except sqlite3.Error as error:
            self._broken = convert_error(self._path, error)

    def _convert_failure(self, error: sqlite3.Error) -> EngineError:
        refusal = convert_error(self._path, error)
        if (getattr(error, "sqlite_errorname", None) or "").startswith(FATAL):
            self._broken = refusal
        return refusal

    def _prepare(self, encoded: EncodedOutcome, rows: Rows) -> EngineError | None:
        """Add an outcome's rows, or return the error that prevents all of them."""
        outcome = encoded.outcome
        name = None if encoded.receipt is None else encoded.receipt.name
        objection = self._rows.find_objection(outcome.conversation.id, outcome.before, name, rows)
        if objection is not None:
            return objection
        if self._full is not None and from_outside(outcome):
            return self._full  # running requests continue, so that they finish
        step = self._steps.make_step(encoded)
        self._rows.add(step, rows)
        self._steps.note_stored(encoded, step)
        return None


TABLES = ("conversation", "step", "delivery", "event")
"""Tables with numbered rows."""


class FileRows:
    """Stored rows that steps build on: see ``agentserver.engines.journal.step_rows.StoredRows``.

    Args:
        connection: the only writing connection to the journal.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.find = partial(find_rows, connection)
        self.dead = partial(find_dead_row, connection)
        self.receipt = partial(find_receipt, connection)
        self.count()

    def count(self) -> None:
        """Read the last number of each table: unwritten numbers become free."""
        self._conversation, self._step, self._delivery, self._event = map(self._compute_highest, TABLES)

    def _compute_highest(self, table: str) -> int:
        (number,) = self._connection.execute(f"select max(number) from {table}").fetchone()  # noqa: S608 - our own names
        return int(number or 0)

    def number_conversation(self) -> int:
        """Take the next number of a conversation."""
        self._conversation += 1
        return self._conversation

    def number_step(self, deliveries: int, events: int) -> tuple[int, int, int]:
        """Take the numbers of a step's rows. Returns its own, and the first of its deliveries and of its events."""
        first = self._step + 1, self._delivery + 1, self._event + 1
        self._step += 1
        self._delivery += deliveries
        self._event += events
        return first
