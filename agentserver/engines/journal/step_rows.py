"""Steps as rows: numbered, linked and sealed.

Owns which versions are stored, the numbers that are given, and what each row is sealed with. The same steps in the same
order give the same rows. Refuses to know where a step comes from, and transactions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from agentserver.core.receipts import Receipt
from agentserver.engines.journal import seal
from agentserver.engines.journal.rows import DeliveryEnd
from agentserver.engines.journal.seal import GENESIS, Sealed
from agentserver.engines.journal.stored import RowCache
from agentserver.ports import ConflictError, RepeatedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentserver.engines.journal.rows import DeliveryRow, Rows
    from agentserver.engines.journal.step_data import StepData
    from agentserver.ports import EngineError

_ID = 0
"""The index of the id among the columns of a delivery."""


class StoredRows(Protocol):
    """The stored rows on which those of a step build."""

    def find(self, conversation: str) -> RowCache | None:
        """The stored rows of a conversation; None when it is unknown. The version of one that is over fits no step."""
        ...

    def dead(self, conversation: str, delivery: str) -> DeliveryRow | None:
        """Find the row of a dead letter of a conversation; None when there is none."""
        ...

    def receipt(self, number: int, name: str) -> Receipt | None:
        """The receipt in a conversation, by its number, under a name."""
        ...

    def take(self, table: str, count: int) -> int:
        """Take numbers for rows of a table, which follow each other; returns the first."""
        ...


class StepRows:
    """Makes rows of steps, and remembers the stored rows of open conversations.

    Args:
        stored: rows of the journal; nobody else writes those of a conversation meanwhile.
    """

    def __init__(self, stored: StoredRows) -> None:
        self._stored = stored
        self._kept: dict[str, RowCache] = {}

    def forget(self, conversation: str | None = None) -> None:
        """Forget the stored rows of a conversation; of every one without it."""
        if conversation is None:
            self._kept.clear()
        else:
            self._kept.pop(conversation, None)

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
        kept = self._kept.get(conversation)
        if kept is None:
            kept = self._stored.find(conversation)
            if kept is not None and kept.version >= 0:
                self._kept[conversation] = kept
        if (0 if kept is None else kept.version) != before:
            return ConflictError(conversation)
        return None if kept is None or receipt is None else self._repeated((kept.number, receipt), rows)

    def _repeated(self, place: tuple[int, str], rows: Rows) -> RepeatedError | None:
        """The error for a key of an outside message that is there already, stored or in the same transaction."""
        known = self._stored.receipt(*place)
        if known is None:
            added = next((row[2:] for row in rows.receipts if row[:2] == place), None)
            known = None if added is None else Receipt(str(added[1]), str(added[0]))
        return None if known is None else RepeatedError(known)

    def add(self, step: StepData, rows: Rows) -> None:
        """Add the rows of a step that nothing is to be said against."""
        kept = self._kept[step.conversation] if step.before else self._open(step, rows)
        self._keep_state(step, kept, rows)
        self._add(step, kept, rows)
        kept.version = step.version
        kept.asks = 0 if step.closed else kept.asks + step.asking
        closed = step.touched if step.closed else None
        state = (step.touched, step.version, closed, kept.chain, kept.state)
        row = (kept.number, step.conversation, step.principal, step.root, kept.opened)
        whole = Sealed(*row, *state, kept.rights, kept.asks)
        rows.states[kept.number] = (*state, kept.asks, whole.seal(kept.belongings), kept.number)
        if step.closed:
            del self._kept[step.conversation]

    def _keep_state(self, step: StepData, kept: RowCache, rows: Rows) -> None:
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

    def _add(self, step: StepData, kept: RowCache, rows: Rows) -> None:
        """Add what a step makes for ever: the step with its changes, its deliveries, what it let go."""
        delivery = self._stored.take("delivery", 0 if step.revived else len(step.added))
        event = self._stored.take("event", len(step.events))
        added = self._add_deliveries(step, delivery, kept, rows)
        self._end_deliveries(step, kept, rows)
        left = self._add_events(step, event, kept, rows)
        if step.receipt is not None:
            rows.receipts.append((kept.number, *step.receipt))
        rows_made = (delivery, len(added), event, len(left))
        parts = (step.cause, step.records)
        number = self._stored.take("step", 1)
        places = seal.places(number, step.version, *rows_made)
        kept.chain = seal.chained(kept.chain, *step.moment, *parts, step.changes, places, *added, *left)
        rows.steps.append(
            (
                number,
                kept.number,
                step.version,
                *step.moment,
                *parts,
                step.changes,
                *rows_made,
                kept.chain,
            )
        )

    def _open(self, step: StepData, rows: Rows) -> RowCache:
        kept = self._kept[step.conversation] = RowCache(
            self._stored.take("conversation", 1),
            step.touched,
            0,
            GENESIS,
            state=seal.state(b""),  # of nothing, to which the first changes are
            rights=step.rights,
        )
        key = (kept.number, step.conversation, step.principal, step.root, kept.rights)
        rows.opened[kept.number] = (*key, kept.opened)
        return kept

    def _add_deliveries(self, step: StepData, first: int, kept: RowCache, rows: Rows) -> list[bytes]:
        """Gives the digest of each new row."""
        if step.revived is not None:
            self._revive(step.conversation, step.revived, kept, rows)
            return []
        if step.redriven is not None:
            told = f"redriven in conversation {step.conversation}"
            rows.end(self._dead(*step.redriven), kept.number, DeliveryEnd.REDRIVEN, told, step.touched)
        digests = []
        for number, columns in enumerate(step.added, first):
            digests.append(seal.delivery(number, kept.number, columns))
            kept.queue(columns[_ID], number, digests[-1])  # type: ignore[arg-type]
            mark = seal.mark(number, DeliveryEnd.QUEUED, "", None)
            rows.deliveries.append((number, kept.number, *columns, mark))
        return digests

    def _revive(self, conversation: str, columns: Sequence[object], kept: RowCache, rows: Rows) -> None:
        key = str(columns[_ID])
        row = self._dead(conversation, key)
        kept.queue(key, row.number, seal.delivery(row.number, kept.number, columns))
        rows.end(row, kept.number, DeliveryEnd.QUEUED)

    def _dead(self, conversation: str, delivery: str) -> DeliveryRow:
        """Find the row of a dead letter. Raises ValueError where there is none."""
        row = self._stored.dead(conversation, delivery)
        if row is None:
            raise ValueError("only a dead letter can be queued again")
        return row

    def _end_deliveries(self, step: StepData, kept: RowCache, rows: Rows) -> None:
        if step.done is not None:
            ending = DeliveryEnd.DONE if step.reason is None else DeliveryEnd.DEAD
            rows.end(kept.unqueue(step.done), kept.number, ending, step.reason or "", step.touched)
        for delivery in step.dropped:
            rows.end(kept.unqueue(delivery), kept.number, DeliveryEnd.DROPPED, "", step.touched)

    def _add_events(self, step: StepData, first: int, kept: RowCache, rows: Rows) -> list[bytes]:
        """Gives the digest of each new row."""
        digests = []
        for position, event in enumerate(step.events):
            columns = (first + position, step.version, position, *event)
            digests.append(seal.event(kept.number, columns))
            rows.events.append((first + position, kept.number, *columns[1:]))
        return digests
