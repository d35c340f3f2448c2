"""Numbers, chains and seals the rows of steps. The same steps in the same order give the same rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from agentserver.core.encoding.search import find_words
from agentserver.core.receipts import Receipt
from agentserver.engines.journal import seal
from agentserver.engines.journal.finding import LAST_INDEXED, MESSAGES
from agentserver.engines.journal.rows import DeliveryEnd, DeliveryRow
from agentserver.engines.journal.seal import GENESIS, SealedColumns
from agentserver.engines.journal.stored import RowCache
from agentserver.ports import ConflictError, RepeatedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentserver.engines.journal.rows import Rows
    from agentserver.engines.journal.step_data import StepData
    from agentserver.ports import EngineError

_new = tuple.__new__

_ID = 0
"""The index of the id among the columns of a delivery."""


class StoredRows(Protocol):
    """Lookup of stored rows that a step builds on."""

    def find(self, conversation: str) -> RowCache | None:
        """Find the stored rows of a conversation; None if unknown. A closed one has a version that fits no step."""

    def dead(self, conversation: str, delivery: str) -> DeliveryRow | None:
        """Find the row of a dead letter, or None."""

    def receipt(self, number: int, name: str) -> Receipt | None:
        """Find the receipt with a name in a conversation, by number."""

    def number_conversation(self) -> int:
        """Reserve the number of a new conversation's row."""

    def number_step(self, deliveries: int, events: int) -> tuple[int, int, int]:
        """Reserve the numbers of a step's rows. Returns its own, and the first of its deliveries and of its events."""


class StepRows:
    """Converts steps to rows, and caches stored rows of open conversations.

    Args:
        stored: rows of the journal; only this process writes those of its conversations.
    """

    def __init__(self, stored: StoredRows) -> None:
        self._stored = stored
        self._caches: dict[str, RowCache] = {}

    def forget(self, conversation: str | None = None) -> None:
        """Forget the stored rows of a conversation, or of all."""
        if conversation is None:
            self._caches.clear()
        else:
            self._caches.pop(conversation, None)

    def find_objection(
        self, conversation: str, before: int, receipt: str | None, rows: Rows
    ) -> EngineError | None:
        """Find the error for a step that cannot be committed; None if it can.

        Args:
            conversation: id of its conversation.
            before: the version that it was decided on.
            receipt: the name of its receipt.
            rows: unwritten rows.
        """
        cache = self._caches.get(conversation)
        if cache is None:
            cache = self._stored.find(conversation)
            if cache is not None and cache.version >= 0:
                self._caches[conversation] = cache
        if (0 if cache is None else cache.version) != before:
            return ConflictError(conversation)
        return (
            None if cache is None or receipt is None else self._find_repeated((cache.number, receipt), rows)
        )

    def _find_repeated(self, place: tuple[int, str], rows: Rows) -> RepeatedError | None:
        """Make the error for an idempotency key that was used before, also in the same transaction."""
        known = self._stored.receipt(*place)
        if known is None:
            added = next((row[2:] for row in rows.receipts if row[:2] == place), None)
            known = None if added is None else Receipt(str(added[1]), str(added[0]))
        return None if known is None else RepeatedError(known)

    def add(self, step: StepData, rows: Rows) -> None:
        """Add the rows of a step that passed ``find_objection``."""
        cache = self._caches[step.conversation] if step.before else self._open(step, rows)
        self._keep_state(step, cache, rows)
        self._add(step, cache, rows)
        cache.version = step.version
        cache.asks = 0 if step.closed else cache.asks + step.asking
        closed = step.touched if step.closed else None
        number, spent = cache.number, step.total_spent
        row = (number, step.conversation, step.principal, step.root, cache.opened)
        state = (step.touched, step.version, cache.last, closed, cache.chain, cache.state)
        now = (cache.asks, step.sleeps_until, spent.tokens, spent.money)
        sealed = _new(SealedColumns, (*row, *state, cache.rights, *now)).compute_seal(cache.belongings)
        rows.states[number] = (*state, *now, sealed, number)
        _add_search_terms(step, cache, rows)
        if step.closed:
            del self._caches[step.conversation]

    def _keep_state(self, step: StepData, cache: RowCache, rows: Rows) -> None:
        """Add changed values, and the whole state unless the step holds its changes."""
        if step.replacing:
            rows.values.update(cache.replace(step.values))
        else:
            for owner, values in step.values.items():
                rows.values.update(cache.store(owner, values))
            for owner, entries in step.entries.items():
                rows.values.update(cache.amend(owner, entries))
        if step.closed:
            cache.state = b""
            rows.wholes[cache.number] = None
        elif step.changes:
            cache.state = seal.digest_changes(cache.state, step.changes)
        else:
            cache.state = seal.digest_state(step.state)
            rows.wholes[cache.number] = (step.version, step.state)

    def _add(self, step: StepData, cache: RowCache, rows: Rows) -> None:
        """Add the immutable rows: the step, its deliveries and its events."""
        number, delivery, event = self._stored.number_step(
            0 if step.revived else len(step.added), len(step.events)
        )
        added = self._add_deliveries(step, delivery, cache, rows)
        self._end_deliveries(step, cache, rows)
        events = self._add_events(step, event, cache, rows) if step.events else []
        if step.receipt is not None:
            rows.receipts.append((cache.number, *step.receipt))
        rows_made = (delivery, len(added), event, len(events))
        parts = (step.cause, step.records)
        places = seal.encode_places(number, step.version, cache.last, *rows_made)
        cache.chain = seal.extend_chain(
            cache.chain, *step.moment, *parts, step.changes, places, *added, *events
        )
        rows.steps.append(
            (
                number,
                cache.number,
                step.version,
                cache.last,
                *step.moment,
                *parts,
                step.changes,
                *rows_made,
                cache.chain,
            )
        )
        cache.last = number

    def _open(self, step: StepData, rows: Rows) -> RowCache:
        cache = self._caches[step.conversation] = RowCache(
            self._stored.number_conversation(),
            step.touched,
            0,
            0,
            GENESIS,
            state=seal.digest_state(b""),  # the first changes apply to an empty state
            rights=step.rights,
        )
        key = (cache.number, step.conversation, step.principal, step.root, cache.rights)
        rows.opened[cache.number] = (*key, cache.opened)
        return cache

    def _add_deliveries(self, step: StepData, first: int, cache: RowCache, rows: Rows) -> list[bytes]:
        """Add rows. Returns the digest of each."""
        if step.revived is not None:
            self._revive(step.conversation, step.revived, cache, rows)
            return []
        if step.redriven is not None:
            text = f"redriven in conversation {step.conversation}"
            rows.end(self._find_dead(*step.redriven), cache.number, DeliveryEnd.REDRIVEN, text, step.touched)
        digests = []
        for number, columns in enumerate(step.added, first):
            digests.append(seal.digest_delivery(number, cache.number, columns))
            cache.queue(columns[_ID], number, digests[-1])  # type: ignore[arg-type]
            mark = seal.mark(number, DeliveryEnd.DONE, "", None)
            rows.deliveries.append((number, cache.number, *columns, mark))
            rows.queue[DeliveryRow(number, cache.number)] = columns[_ID] in step.delayed
        return digests

    def _revive(self, conversation: str, columns: Sequence[object], cache: RowCache, rows: Rows) -> None:
        key = str(columns[_ID])
        row = self._find_dead(conversation, key)
        cache.queue(key, row.number, seal.digest_delivery(row.number, cache.number, columns))
        rows.end(row, cache.number, DeliveryEnd.DONE)
        rows.queue[row] = False

    def _find_dead(self, conversation: str, delivery: str) -> DeliveryRow:
        """Find the row of a dead letter. Raises ValueError if it is missing."""
        row = self._stored.dead(conversation, delivery)
        if row is None:
            raise ValueError("only a dead letter can be queued again")
        return row

    def _end_deliveries(self, step: StepData, cache: RowCache, rows: Rows) -> None:
        if step.woken is not None:
            number, _ = cache.queued[step.woken]
            rows.queue[DeliveryRow(number, cache.number)] = False
        if step.done is not None:
            row = cache.unqueue(step.done)
            rows.queue[row] = None
            if step.reason is not None:
                rows.end(row, cache.number, DeliveryEnd.DEAD, step.reason, step.touched)
        for delivery in step.dropped:
            row = cache.unqueue(delivery)
            rows.queue[row] = None
            rows.end(row, cache.number, DeliveryEnd.DROPPED, "", step.touched)

    def _add_events(self, step: StepData, first: int, cache: RowCache, rows: Rows) -> list[bytes]:
        """Add rows. Returns the digest of each."""
        digests = []
        for position, event in enumerate(step.events):
            columns = (first + position, step.version, position, *event)
            digests.append(seal.digest_event(cache.number, columns))
            rows.events.append((first + position, cache.number, *columns[1:]))
        return digests


def _add_search_terms(step: StepData, cache: RowCache, rows: Rows) -> None:
    """Add new facets, and the words of messages when the conversation comes to rest."""
    added = step.facets - cache.facets
    if added:
        cache.facets |= added
        rows.facets += [(cache.number, *facet, cache.opened) for facet in sorted(added)]
    cache.unindexed += step.messages
    resting = not step.added or step.closed or step.asking or step.delayed
    if cache.unindexed and (resting or len(cache.unindexed) >= MESSAGES) and step.version < LAST_INDEXED:
        words = find_words(cache.unindexed)
        rows.words.append((cache.number, step.version, " ".join(sorted(words))))
        cache.unindexed.clear()
