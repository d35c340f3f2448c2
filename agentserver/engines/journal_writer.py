"""Outcomes as rows, many of them in one transaction.

Owns what a commit writes and which versions are stored. An outcome is there whole or not at all, and one that
cannot be kept does not touch the others. Synchronous: its engine calls it from a thread of its own. Refuses to know
event loops and who waits for a commit.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from agentserver.core import recording, snapshot
from agentserver.core.audit import Event
from agentserver.core.messages import Reply, Requeued
from agentserver.core.receipts import Receipt, given
from agentserver.engines import journal_head
from agentserver.engines.journal_file import FATAL, told
from agentserver.engines.journal_lock import Files
from agentserver.engines.journal_reader import Ending, row_delivery
from agentserver.engines.journal_rows import LEFT, Left, Rows
from agentserver.ports import ConflictError, EngineError, RepeatedError, UnfitError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from agentserver.core.conversation import Conversation
    from agentserver.core.guard import Guard
    from agentserver.core.messages import Delivery, Moment
    from agentserver.core.outcome import Outcome
    from agentserver.core.snapshot import Snapshot
    from agentserver.engines.journal_lock import Lock

GENESIS = bytes(32)
"""What the chain of a conversation begins with."""

_FULL = 2
"""What SQLite calls a commit that waits for the disk."""


class Encoded(NamedTuple):
    """An outcome with all that is kept of it as bytes.

    Args:
        moment: in which it was decided.
        cause: what it was decided about.
        records: of what happened.
        gone_out: the messages that went out with it.
        parts: of the conversation after it.
    """

    outcome: Outcome
    moment: Moment
    cause: bytes
    records: bytes
    gone_out: list[bytes]
    parts: Snapshot


@dataclass(slots=True)
class _Kept:
    """What is stored of an open conversation, so that it need not be read before it is written."""

    number: int
    version: int
    chain: bytes
    values: Mapping[tuple[str, str], bytes]
    queued: dict[str, int]


class Writer:
    """Commits outcomes to an open journal.

    Args:
        connection: to the journal; nobody else writes it.
        path: for messages.
        guards: those whose memories are kept.

    ``owed`` are the events that have left and are not marked so yet: they go with the next commit that succeeds.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path, guards: Sequence[Guard] = ()) -> None:
        self._connection = connection
        self._path = path
        self._guards = tuple(guards)
        self._kept: dict[str, _Kept] = {}
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
        """An outcome as bytes, or why it has none. Touches nothing, so that any thread may call it."""
        if outcome.moment is None:
            return UnfitError("an outcome that no step has decided cannot be kept")
        try:
            cause, records = recording.dump(outcome), recording.dump_records(outcome)
            parts = snapshot.take(outcome.conversation, self._guards)
        except (TypeError, ValueError) as error:
            return UnfitError(f"an outcome that cannot be written: {error}")
        return Encoded(outcome, outcome.moment, cause, records, recording.gone_out(outcome), parts)

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
        if isinstance(found, sqlite3.Error) and _about_the_file(found):
            return [self._refused(found)] * len(group)
        if len(group) <= 1:
            kind = UnfitError if _about_a_row(found) else EngineError
            return [kind(f"{self._path}: {found}")] * len(group)
        # One of them cannot be written: each for itself, so that the others do not suffer.
        return [self.write([one])[0] for one in group]

    def _attempt(self, group: Sequence[Encoded | EngineError]) -> list[EngineError | None] | Exception:
        rows = Rows()
        try:
            self._connection.execute("begin immediate")
            found = [one if isinstance(one, EngineError) else self._prepare(one, rows) for one in group]
            rows.write(self._connection)
            if self.owed:
                self._connection.executemany(LEFT, self.owed)
            head = self._head.after(rows.links()) if rows.steps else self._head
            if rows.steps:
                journal_head.keep(self._connection, head)
            self._connection.execute("commit")
            self.owed.clear()
        except (sqlite3.Error, ValueError, LookupError, OverflowError) as error:
            self._undo()
            return error
        self._head = head
        self._beside.note(head)
        return found

    def leave(self, lock: Lock) -> None:
        """Spare the files of whatever was put in this journal's place. To be called before the connection closes."""
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
        if kept is None:
            kept = self._open(after, rows)
        self._add(encoded, kept, rows)
        self._keep_values(kept, {} if after.closed else encoded.parts.values, rows)
        kept.version = after.version
        closed = after.touched if after.closed else None
        state = (after.touched, after.version, closed, kept.chain, encoded.parts.state, kept.number)
        rows.states[kept.number] = state
        if after.closed:
            del self._kept[after.id]
        return None

    def _repeated(self, kept: _Kept, outcome: Outcome, rows: Rows) -> RepeatedError | None:
        """What is there already under the key of an outside message, stored or in the same transaction."""
        found = given(outcome)
        if found is None:
            return None
        place = (kept.number, found[0])
        row = self._connection.execute(
            "select content, request from receipt where conversation = ? and name = ?", place
        ).fetchone() or next((row[2:] for row in rows.receipts if row[:2] == place), None)
        return None if row is None else RepeatedError(Receipt(str(row[1]), str(row[0])))

    def _add(self, encoded: Encoded, kept: _Kept, rows: Rows) -> None:
        """Add what an outcome makes for ever: the step, its deliveries, what it let go."""
        outcome, moment = encoded.outcome, encoded.moment
        delivery, event = self._last["delivery"] + 1, self._last["event"] + 1
        added = self._add_deliveries(outcome, kept, rows)
        self._end_deliveries(outcome, kept, rows)
        self._add_events(outcome, kept, rows)
        receipt = given(outcome)
        if receipt is not None:
            name, (request, content) = receipt
            rows.receipts.append((kept.number, name, content, request))
        kept.chain = chained(kept.chain, *moment, encoded.cause, encoded.records, *encoded.gone_out)
        self._last["step"] += 1
        step = (self._last["step"], kept.number, outcome.conversation.version, *moment)
        recorded = (encoded.cause, encoded.records, delivery, added, event, len(outcome.replies), kept.chain)
        rows.steps.append(step + recorded)

    def _find(self, conversation: str) -> _Kept | None:
        """What is stored of an open conversation. A closed one is not to be written again: its version never fits."""
        row = self._connection.execute(
            "select number, version, chain, closed from conversation where id = ?", (conversation,)
        ).fetchone()
        if row is None:
            return None
        number, version, chain, closed = row
        if closed is not None:
            return _Kept(number, -1, chain, {}, {})
        values = self._connection.execute(
            "select owner, name, data from value where conversation = ?", (number,)
        )
        queued = self._connection.execute(
            "select id, number from delivery where conversation = ? and state = 0", (number,)
        )
        stored = {(owner, name): data for owner, name, data in values}
        kept = self._kept[conversation] = _Kept(number, version, chain, stored, dict(queued.fetchall()))
        return kept

    def _open(self, after: Conversation, rows: Rows) -> _Kept:
        self._last["conversation"] += 1
        kept = self._kept[after.id] = _Kept(self._last["conversation"], 0, GENESIS, {}, {})
        rows.opened.append(
            (
                kept.number,
                after.id,
                after.principal,
                after.tree.root,
                after.touched,
                after.touched,
                0,
                None,
                GENESIS,
                b"",
            )
        )
        return kept

    def _add_deliveries(self, outcome: Outcome, kept: _Kept, rows: Rows) -> int:
        if isinstance(outcome.cause, Requeued):
            return self._revive(outcome.cause.delivery, kept, rows)
        for delivery in outcome.added:
            self._last["delivery"] += 1
            kept.queued[delivery.id] = self._last["delivery"]
            rows.deliveries.append((self._last["delivery"], kept.number, *row_delivery(delivery)))
        return len(outcome.added)

    def _revive(self, delivery: Delivery, kept: _Kept, rows: Rows) -> int:
        row = self._connection.execute(
            "select number from delivery where conversation = ? and id = ? and state = ?",
            (kept.number, delivery.id, Ending.DEAD),
        ).fetchone()
        if row is None:
            raise ValueError("what is no dead letter cannot be queued again")
        kept.queued[delivery.id] = row[0]
        rows.ended.append((Ending.QUEUED, "", None, row[0]))
        return 0

    def _end_deliveries(self, outcome: Outcome, kept: _Kept, rows: Rows) -> None:
        if outcome.done is not None:
            ending, reason = _ending(outcome)
            rows.ended.append((ending, reason, outcome.conversation.touched, kept.queued.pop(outcome.done)))
        for delivery in outcome.dropped:
            rows.ended.append(
                (Ending.DROPPED, "", outcome.conversation.touched, kept.queued.pop(delivery.id))
            )

    def _add_events(self, outcome: Outcome, kept: _Kept, rows: Rows) -> None:
        for position, event in enumerate(outcome.replies):
            self._last["event"] += 1
            place = (self._last["event"], kept.number, outcome.conversation.version, position, event.request)
            if isinstance(event, Reply):
                rows.events.append((*place, event.sender, event.root, event.message, event.error))
            else:
                rows.events.append((*place, None, None, None, event.answered))

    def _keep_values(self, kept: _Kept, values: Mapping[tuple[str, str], bytes], rows: Rows) -> None:
        if not values and not kept.values:
            return
        for key in kept.values:
            if key not in values:
                rows.values[kept.number, *key] = None
        for key, value in values.items():
            if kept.values.get(key) != value:
                rows.values[kept.number, *key] = value
        kept.values = values


def chained(chain: bytes, now: float, seed: bytes, *parts: bytes) -> bytes:
    """The next link of a conversation's chain: a digest of the link before it and of everything the step kept."""
    framed = [chain]
    for part in (now.hex().encode(), seed, *parts):
        framed += len(part).to_bytes(8, "big"), part
    return blake2b(b"".join(framed), digest_size=32).digest()


def _ending(outcome: Outcome) -> tuple[Ending, str]:
    """How the consumed delivery ended: a dead letter when its listener could not deal with it."""
    for record in outcome.records:
        if record.event is Event.FAILED and record.delivery == outcome.done:
            return Ending.DEAD, f"{record.code}: {record.detail}"
    return Ending.DONE, ""


def _about_a_row(error: Exception) -> bool:
    """Whether an error is about what was to be written: it would come again."""
    name = getattr(error, "sqlite_errorname", None)
    return name is None or name.startswith(("SQLITE_CONSTRAINT", "SQLITE_MISMATCH", "SQLITE_TOOBIG"))


def _about_the_file(error: sqlite3.Error) -> bool:
    """Whether an error is about the disk or the file rather than about a row."""
    name = getattr(error, "sqlite_errorname", None) or ""
    return name.startswith((*FATAL, "SQLITE_FULL", "SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_BUSY"))
