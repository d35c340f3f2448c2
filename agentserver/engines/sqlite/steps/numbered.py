"""Steps as rows: numbered, linked and sealed.

Owns which versions are stored, the numbers that are given, and what each row is sealed with. The same steps in the same
order give the same rows. Refuses to know where a step comes from, and transactions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.core.encoding import snapshot
from agentserver.core.receipts import Receipt
from agentserver.engines.sqlite.care import aside
from agentserver.engines.sqlite.kept import Kept
from agentserver.engines.sqlite.proof import seal
from agentserver.engines.sqlite.proof.seal import GENESIS, Sealed
from agentserver.engines.sqlite.rows import DeliveryEnd
from agentserver.engines.sqlite.stored import stored
from agentserver.ports import ConflictError, RepeatedError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from agentserver.core.messages import Done, Reply
    from agentserver.engines.sqlite.rows import Rows
    from agentserver.engines.sqlite.steps.step import StepData
    from agentserver.ports import EngineError

_ID = 0
"""The index of the id among the columns of a delivery."""


class StepRows:
    """Makes rows of steps, and knows what is stored.

    Args:
        connection: to the journal; no other writes it.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.forget()

    def forget(self) -> None:
        """Know no more than the journal does: what was added to rows was not written."""
        self._kept: dict[str, Kept] = {}
        tables = ("conversation", "step", "delivery", "event")
        self._last = {table: self._highest(table) for table in tables}

    def _highest(self, table: str) -> int:
        (number,) = self._connection.execute(f"select max(number) from {table}").fetchone()  # noqa: S608 - our own names
        return int(number or 0)

    @property
    def events(self) -> int:
        """The number of the last event."""
        return self._last["event"]

    def set_aside(self, conversation: str, reason: str, at: float) -> tuple[Reply | Done, ...]:
        """Let a conversation go on no more; gives what is told of its requests."""
        self._kept.pop(conversation, None)
        events = aside.put(self._connection, conversation, reason, at)
        self._last["event"] += len(events)
        return events

    def objection(
        self, conversation: str, before: int, receipt: str | None, rows: Rows
    ) -> EngineError | None:
        """Say why a step cannot be kept; None when it can.

        Args:
            conversation: that it is of.
            before: the version that it was decided on.
            receipt: the name of the receipt that it gives.
            rows: that were made and not written yet.
        """
        kept = self._kept.get(conversation) or self._find(conversation)
        if (0 if kept is None else kept.version) != before:
            return ConflictError(conversation)
        return None if kept is None or receipt is None else self._repeated((kept.number, receipt), rows)

    def _repeated(self, place: tuple[int, str], rows: Rows) -> RepeatedError | None:
        """The error for a key of an outside message that is there already, stored or in the same transaction."""
        row = self._connection.execute(
            "select content, request from receipt where conversation = ? and name = ?", place
        ).fetchone() or next((row[2:] for row in rows.receipts if row[:2] == place), None)
        return None if row is None else RepeatedError(Receipt(str(row[1]), str(row[0])))

    def add(self, step: StepData, rows: Rows) -> None:
        """Add the rows of a step that nothing is to be said against."""
        kept = self._kept[step.conversation] if step.before else self._open(step, rows)
        self._keep_state(step, kept, rows)
        self._add(step, kept, rows)
        kept.version = step.version
        closed = step.touched if step.closed else None
        state = (step.touched, step.version, closed, kept.chain, kept.state)
        row = (kept.number, step.conversation, step.principal, step.root, kept.opened)
        whole = Sealed(*row, *state, kept.rights)
        rows.states[kept.number] = (*state, whole.seal(kept.belongings), kept.number)
        if step.closed:
            del self._kept[step.conversation]

    def _keep_state(self, step: StepData, kept: Kept, rows: Rows) -> None:
        """Add the state of the conversation, unless the step itself has what changes, and its values."""
        if step.replacing:
            rows.values.update(kept.replace(step.values))
        else:
            for owner, values in step.values.items():
                rows.values.update(kept.store(owner, values))
            for owner, entries in step.entries.items():
                rows.values.update(kept.amend(owner, entries))
        if step.closed:
            kept.state = b""
            rows.wholes[kept.number] = None
        elif step.changes:
            kept.state = seal.changed(kept.state, step.changes)
        else:
            kept.state = seal.state(step.state)
            rows.wholes[kept.number] = (step.version, step.state)

    def _add(self, step: StepData, kept: Kept, rows: Rows) -> None:
        """Add what a step makes for ever: the step with its changes, its deliveries, what it let go."""
        delivery, event = self._last["delivery"] + 1, self._last["event"] + 1
        added = self._add_deliveries(step, kept, rows)
        self._end_deliveries(step, kept, rows)
        left = self._add_events(step, kept, rows)
        if step.receipt is not None:
            rows.receipts.append((kept.number, *step.receipt))
        rows_made = (delivery, len(added), event, len(left))
        parts = (step.cause, step.records)
        self._last["step"] += 1
        places = seal.places(self._last["step"], step.version, *rows_made)
        kept.chain = seal.chained(kept.chain, *step.moment, *parts, step.changes, places, *added, *left)
        rows.steps.append(
            (
                self._last["step"],
                kept.number,
                step.version,
                *step.moment,
                *parts,
                step.changes,
                *rows_made,
                kept.chain,
            )
        )

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
        kept = Kept(row.number, row.opened, row.version, row.chain, *held, row.state, row.rights)
        self._kept[conversation] = kept
        return kept

    def _open(self, step: StepData, rows: Rows) -> Kept:
        self._last["conversation"] += 1
        kept = self._kept[step.conversation] = Kept(
            self._last["conversation"],
            step.touched,
            0,
            GENESIS,
            state=seal.state(b""),  # of nothing, to which the first changes are
            rights=step.rights,
        )
        key = (kept.number, step.conversation, step.principal, step.root, kept.rights)
        rows.opened.append((*key, kept.opened, kept.opened, 0, None, GENESIS, b""))
        return kept

    def _add_deliveries(self, step: StepData, kept: Kept, rows: Rows) -> list[bytes]:
        """Gives the digest of each new row."""
        if step.revived is not None:
            self._revive(step.conversation, step.revived, kept, rows)
            return []
        if step.redriven is not None:
            told = f"redriven in conversation {step.conversation}"
            rows.end(self._dead(*step.redriven), DeliveryEnd.REDRIVEN, told, step.touched)
        digests = []
        for columns in step.added:
            self._last["delivery"] += 1
            number = self._last["delivery"]
            digests.append(seal.delivery(number, kept.number, columns))
            kept.queue(columns[_ID], number, digests[-1])  # type: ignore[arg-type]
            mark = seal.mark(number, DeliveryEnd.QUEUED, "", None)
            rows.deliveries.append((number, kept.number, *columns, mark))
        return digests

    def _revive(self, conversation: str, columns: Sequence[object], kept: Kept, rows: Rows) -> None:
        key = str(columns[_ID])
        number = self._dead(conversation, key)
        kept.queue(key, number, seal.delivery(number, kept.number, columns))
        rows.end(number, DeliveryEnd.QUEUED)

    def _dead(self, conversation: str, delivery: str) -> int:
        """The number of a dead letter. Raises ValueError when it is none, or none any more."""
        row = self._connection.execute(
            "select d.number from delivery d join conversation c on c.number = d.conversation"
            " where c.id = ? and d.id = ? and d.state = ?",
            (conversation, delivery, DeliveryEnd.DEAD),
        ).fetchone()
        if row is None:
            raise ValueError("what is no dead letter cannot be queued again")
        return int(row[0])

    def _end_deliveries(self, step: StepData, kept: Kept, rows: Rows) -> None:
        if step.done is not None:
            ending = DeliveryEnd.DONE if step.reason is None else DeliveryEnd.DEAD
            rows.end(kept.unqueue(step.done), ending, step.reason or "", step.touched)
        for delivery in step.dropped:
            rows.end(kept.unqueue(delivery), DeliveryEnd.DROPPED, "", step.touched)

    def _add_events(self, step: StepData, kept: Kept, rows: Rows) -> list[bytes]:
        """Gives the digest of each new row."""
        digests = []
        for position, event in enumerate(step.events):
            self._last["event"] += 1
            columns = (self._last["event"], step.version, position, *event)
            digests.append(seal.event(kept.number, columns))
            rows.events.append((self._last["event"], kept.number, *columns[1:]))
        return digests
