"""Outcomes as rows, many of them in one transaction.

Owns what a commit writes and which versions are stored. An outcome is there whole or not at all, and one that
cannot be kept does not touch the others. Synchronous: its engine calls it from a thread of its own. Refuses to know
event loops and who waits for a commit.
"""

from __future__ import annotations

import logging
import sqlite3
from typing import TYPE_CHECKING, NamedTuple

from agentserver.core.decide.dismissal import Dismissed
from agentserver.core.encoding import changes, parts, record_rows, recording, snapshot
from agentserver.core.encoding.recorded import given_up
from agentserver.core.messages import Outside, Redriven, Reply, Requeued, TurnedAway
from agentserver.core.receipts import Receipt, given
from agentserver.engines.sqlite.care import aside, maintenance
from agentserver.engines.sqlite.file import FATAL, about_a_row, about_the_file, told
from agentserver.engines.sqlite.kept import Kept
from agentserver.engines.sqlite.lock import Files
from agentserver.engines.sqlite.proof import head as journal_head
from agentserver.engines.sqlite.proof import seal
from agentserver.engines.sqlite.proof.seal import GENESIS, Sealed
from agentserver.engines.sqlite.rows import LEFT, DeliveryEnd, Left, Rows
from agentserver.engines.sqlite.stored import row_delivery, stored
from agentserver.ports import ConflictError, EngineError, RepeatedError, UnfitError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from agentserver.core.encoding.changes import Changes
    from agentserver.core.guard import CoreGuard
    from agentserver.core.messages import Delivery, Done, Moment
    from agentserver.core.records.outcome import Outcome
    from agentserver.engines.sqlite.lock import Lock

logger = logging.getLogger("agentserver.journal")

_FULL = 2
"""SQLite's name for a commit that waits for the disk."""


class Encoded(NamedTuple):
    """An outcome with all that is kept of it as bytes.

    Args:
        moment: in which it was decided.
        cause: what it was decided about.
        records: of what happened.
        changes: of the conversation; None when it is closed, or not known what it was.
    """

    outcome: Outcome
    moment: Moment
    cause: bytes
    records: bytes
    changes: Changes | None


class Writer:
    """Commits outcomes to an open journal.

    Args:
        connection: to the journal; no other writes it.
        path: for messages.
        guards: those whose memories are kept.
        limit: bytes that the journal may hold; beyond it no outside message is kept. None is no limit.

    ``owed`` are the events that have left and are not marked so yet: they go with the next commit that succeeds.
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
        self.adopt(guards)
        self._limit = limit
        self._full: EngineError | None = None
        self._kept: dict[str, Kept] = {}
        self._broken: EngineError | None = None
        self.owed: list[Left] = []
        self._last = {table: self._highest(table) for table in ("conversation", "step", "delivery", "event")}
        head = journal_head.read(connection)
        assert head is not None
        self._head = head
        (sync,) = connection.execute("pragma synchronous").fetchone()
        self._beside = journal_head.Beside(path, durable=sync >= _FULL)
        self._beside.note(head)
        self._files = Files(path)

    def adopt(self, guards: Sequence[CoreGuard]) -> None:
        """Keep the memories of these guards from now on."""
        self._guards = tuple(guards)
        self._dump = snapshot.dumping(self._guards)

    def _highest(self, table: str) -> int:
        (number,) = self._connection.execute(f"select max(number) from {table}").fetchone()  # noqa: S608 - our own names
        return int(number or 0)

    # Commits

    def commit(self, outcomes: Sequence[Outcome], left: Iterable[Left] = ()) -> list[EngineError | None]:
        """Commit what can be, in order and in one transaction; gives for each what stood in its way.

        Args:
            outcomes: the later of two for one conversation may build on the earlier.
            left: events that their gateway has passed on.
        """
        return self.write([self.encode(outcome) for outcome in outcomes], left)

    def encode(self, outcome: Outcome) -> Encoded | EngineError:
        """An outcome as bytes, or why it has none. Touches nothing of the journal's."""
        if outcome.moment is None:
            return UnfitError("an outcome that no step has decided cannot be kept")
        try:
            cause, records = recording.dump(outcome), record_rows.dump_records(outcome)
            changed = self._changes(outcome)
        except (TypeError, ValueError) as error:
            return UnfitError(f"an outcome that cannot be written: {error}")
        return Encoded(outcome, outcome.moment, cause, records, changed)

    def _changes(self, outcome: Outcome) -> Changes | None:
        if outcome.since is None or outcome.conversation.closed:
            return None
        return changes.between(outcome.since, outcome.conversation, self._dump)

    def write(
        self, group: Sequence[Encoded | EngineError], left: Iterable[Left] = ()
    ) -> list[EngineError | None]:
        """Commit what ``encode`` made of some outcomes, as ``commit`` does."""
        self._broken = self._broken or self._files.replaced()
        if self._broken is not None:
            return [self._broken] * len(group)
        self.owed += left
        found = self._attempt(group)
        if isinstance(found, list):
            # After the commit, so that what is told to be kept was in the file that stands there.
            self._broken = self._files.replaced()
            return found if self._broken is None else [self._broken] * len(group)
        if isinstance(found, sqlite3.Error) and about_the_file(found):
            return [self._refused(found)] * len(group)
        if len(group) <= 1:
            kind = UnfitError if about_a_row(found) else EngineError
            return [kind(f"{self._path}: {found}")] * len(group)
        # One of them cannot be written: each for itself, so that the others do not suffer.
        return [self.write([one])[0] for one in group]

    def _attempt(self, group: Sequence[Encoded | EngineError]) -> list[EngineError | None] | Exception:
        rows = Rows()
        try:
            self._connection.execute("begin immediate")
            self._full = self._over()
            found = [one if isinstance(one, EngineError) else self._prepare(one, rows) for one in group]
            rows.write(self._connection)
            if self.owed:
                self._connection.executemany(LEFT, self.owed)
            head = self._head.after(rows.links()) if rows.steps else self._head
            if rows.steps:
                journal_head.keep(self._connection, head)
            self._connection.execute("commit")
            self.owed.clear()
        except (sqlite3.Error, TypeError, ValueError, LookupError, OverflowError) as error:
            self._undo()
            return error
        self._head = head
        self._beside.note(head)
        return found

    def set_aside(self, conversation: str, reason: str, at: float) -> tuple[Reply | Done, ...]:
        """Let a conversation go on no more; gives what is told of its requests."""
        self.check()
        self._kept.pop(conversation, None)
        events = aside.put(self._connection, conversation, reason, at)
        self._last["event"] += len(events)
        return events

    def check(self) -> None:
        """Raises EngineError when nothing can be kept any more."""
        self._broken = self._broken or self._files.replaced()
        if self._broken is not None:
            raise self._broken

    def _over(self) -> EngineError | None:
        """The error for a journal that holds all that it may, if it does."""
        if self._limit is None:
            return None
        held = maintenance.held(self._connection)
        if held < self._limit:
            return None
        full = EngineError(
            f"{self._path}: it holds {held} bytes, and its limit is {self._limit} (journal.limit). Nothing new is"
            " accepted until finished conversations have aged out (journal.retention) or the limit is higher"
        )
        if self._full is None:
            logger.error("%s", full)
        return full

    def leave(self, lock: Lock) -> None:
        """Spare the files of a journal that was put in this one's place. To be called before the connection closes."""
        if self._files.replaced() is not None:
            lock.spare_the_log()

    def _undo(self) -> None:
        """Forget a transaction, and what was believed to be stored by it."""
        self._kept.clear()
        try:
            if self._connection.in_transaction:
                self._connection.execute("rollback")
        except sqlite3.Error as error:
            self._broken = told(self._path, error)

    def _refused(self, error: sqlite3.Error) -> EngineError:
        refusal = told(self._path, error)
        if (getattr(error, "sqlite_errorname", None) or "").startswith(FATAL):
            self._broken = refusal
        return refusal

    def _prepare(self, encoded: Encoded, rows: Rows) -> EngineError | None:
        """Add an outcome's rows, or say why it cannot be kept. Nothing of it is added then."""
        outcome, after = encoded.outcome, encoded.outcome.conversation
        kept = self._kept.get(after.id) or self._find(after.id)
        if (0 if kept is None else kept.version) != outcome.before:
            return ConflictError(after.id)
        repeated = None if kept is None else self._repeated(kept, outcome, rows)
        if repeated is not None:
            return repeated
        if self._full is not None and isinstance(outcome.cause, Outside | TurnedAway | Dismissed):
            return self._full  # what is in hand goes on, so that it comes to rest
        if kept is None:
            kept = self._open(outcome, rows)
        self._add(encoded, kept, self._keep_state(encoded, kept, rows), rows)
        kept.version = after.version
        closed = float(after.touched) if after.closed else None
        touched = float(after.touched)
        state = (touched, after.version, closed, kept.chain, kept.state)
        row = (kept.number, after.id, after.principal, after.tree.root, kept.opened)
        whole = Sealed(*row, *state, kept.rights)
        rows.states[kept.number] = (*state, whole.seal(kept.belongings), kept.number)
        if after.closed:
            del self._kept[after.id]
        return None

    def _repeated(self, kept: Kept, outcome: Outcome, rows: Rows) -> RepeatedError | None:
        """The error for a key of an outside message that is there already, stored or in the same transaction."""
        found = given(outcome)
        if found is None:
            return None
        place = (kept.number, found[0])
        row = self._connection.execute(
            "select content, request from receipt where conversation = ? and name = ?", place
        ).fetchone() or next((row[2:] for row in rows.receipts if row[:2] == place), None)
        return None if row is None else RepeatedError(Receipt(str(row[1]), str(row[0])))

    def _keep_state(self, encoded: Encoded, kept: Kept, rows: Rows) -> bytes:
        """Add the state of the conversation and its values; gives the changes that are to be kept with the step."""
        outcome, after = encoded.outcome, encoded.outcome.conversation
        if encoded.changes is not None and kept.knows(outcome):
            for owner, values in encoded.changes.values.items():
                rows.values.update(kept.store(owner, values))
            for owner, entries in encoded.changes.entries.items():
                rows.values.update(kept.amend(owner, entries))
            if kept.follow(outcome, encoded.changes.state):
                return encoded.changes.state
        else:
            rows.values.update(kept.replace(snapshot.by_owner(snapshot.lasting(after, self._guards))))
        if after.closed:
            kept.last, kept.state = None, b""
            rows.wholes[kept.number] = None
        else:
            state = snapshot.state(after)
            kept.keep(after, state)
            rows.wholes[kept.number] = (after.version, state)
        return b""

    def _add(self, encoded: Encoded, kept: Kept, made: bytes, rows: Rows) -> None:
        """Add what an outcome makes for ever: the step with its changes, its deliveries, what it let go."""
        outcome, moment = encoded.outcome, encoded.moment
        delivery, event = self._last["delivery"] + 1, self._last["event"] + 1
        added = self._add_deliveries(outcome, kept, rows)
        self._end_deliveries(outcome, kept, rows)
        left = self._add_events(outcome, kept, rows)
        receipt = given(outcome)
        if receipt is not None:
            name, (request, content, _) = receipt
            rows.receipts.append((kept.number, name, content, request))
        version = outcome.conversation.version
        rows_made = (delivery, len(added), event, len(left))
        parts = (encoded.cause, encoded.records)
        self._last["step"] += 1
        places = seal.places(self._last["step"], version, *rows_made)
        kept.chain = seal.chained(kept.chain, *moment, *parts, made, places, *added, *left)
        sealed = (kept.chain, seal.FORM, made)
        step = (self._last["step"], kept.number, version, *moment, *parts, *rows_made, *sealed)
        rows.steps.append(step)

    def _find(self, conversation: str) -> Kept | None:
        """Find the stored rows of an open conversation. The version of one that is closed or aside never fits."""
        if aside.is_aside(self._connection, conversation):
            return Kept(0, 0.0, -1, GENESIS)
        found = stored(self._connection, conversation)
        if found is None:
            return None
        row = found.row
        if row.closed is not None:
            return Kept(row.number, row.opened, -1, row.chain)
        values = snapshot.by_owner(found.values)
        held = (values, found.queued(), found.belongings)
        kept = Kept(row.number, row.opened, row.version, row.chain, *held, rights=row.rights)
        self._kept[conversation] = kept
        return kept

    def _open(self, outcome: Outcome, rows: Rows) -> Kept:
        after = outcome.conversation
        self._last["conversation"] += 1
        opened = float(after.touched)
        kept = self._kept[after.id] = Kept(
            self._last["conversation"], opened, 0, GENESIS, rights=parts.rights_text(after.rights)
        )
        kept.begin(outcome)
        key = (kept.number, after.id, after.principal, after.tree.root)
        rows.opened.append((*key, opened, opened, 0, None, GENESIS, b"", kept.rights))
        return kept

    def _add_deliveries(self, outcome: Outcome, kept: Kept, rows: Rows) -> list[bytes]:
        """Gives the digest of each new row."""
        if isinstance(outcome.cause, Requeued):
            self._revive(outcome.cause.delivery, kept, rows)
            return []
        if isinstance(outcome.cause, Redriven):
            told = f"redriven in conversation {outcome.conversation.id}"
            rows.end(
                self._dead(outcome.cause.delivery),
                DeliveryEnd.REDRIVEN,
                told,
                float(outcome.conversation.touched),
            )
        digests = []
        for delivery in outcome.added:
            self._last["delivery"] += 1
            number, columns = self._last["delivery"], row_delivery(delivery)
            digests.append(seal.delivery(number, kept.number, columns))
            kept.queue(delivery.id, number, digests[-1])
            mark = seal.mark(number, DeliveryEnd.QUEUED, "", None)
            rows.deliveries.append((number, kept.number, *columns[:-1], mark, columns[-1]))
        return digests

    def _revive(self, delivery: Delivery, kept: Kept, rows: Rows) -> None:
        number = self._dead(delivery)
        kept.queue(delivery.id, number, seal.delivery(number, kept.number, row_delivery(delivery)))
        rows.end(number, DeliveryEnd.QUEUED)

    def _dead(self, delivery: Delivery) -> int:
        """The number of a dead letter. Raises ValueError when it is none, or none any more."""
        row = self._connection.execute(
            "select d.number from delivery d join conversation c on c.number = d.conversation"
            " where c.id = ? and d.id = ? and d.state = ?",
            (delivery.conversation, delivery.id, DeliveryEnd.DEAD),
        ).fetchone()
        if row is None:
            raise ValueError("what is no dead letter cannot be queued again")
        return int(row[0])

    def _end_deliveries(self, outcome: Outcome, kept: Kept, rows: Rows) -> None:
        at = float(outcome.conversation.touched)
        if outcome.done is not None:
            rows.end(kept.unqueue(outcome.done), *_ending(outcome), at)
        for delivery in outcome.dropped:
            rows.end(kept.unqueue(delivery.id), DeliveryEnd.DROPPED, "", at)

    def _add_events(self, outcome: Outcome, kept: Kept, rows: Rows) -> list[bytes]:
        """Gives the digest of each new row."""
        digests = []
        for position, event in enumerate(outcome.replies):
            self._last["event"] += 1
            place = (self._last["event"], outcome.conversation.version, position, event.request)
            columns: tuple[object, ...]
            if isinstance(event, Reply):
                columns = (*place, event.sender, event.root, event.message, int(event.error))
            else:
                columns = (*place, None, None, None, int(event.answered))
            digests.append(seal.event(kept.number, columns))
            rows.events.append((self._last["event"], kept.number, *columns[1:]))
        return digests


def _ending(outcome: Outcome) -> tuple[DeliveryEnd, str]:
    """The ending of the consumed delivery: a dead letter when its listener could not deal with it."""
    reason = given_up(outcome)
    return (DeliveryEnd.DONE, "") if reason is None else (DeliveryEnd.DEAD, reason)
