"""Read access to a journal and its verification, for the engine and for commands, also while a server runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final, TypeVar

from agentserver.core.encoding import codecs, decision_codec, parts, snapshot
from agentserver.core.encoding.decision_codec import Origin, StoredSettlement, read_cause
from agentserver.core.encoding.history import (
    EVERY_CONVERSATION,
    Charges,
    ChargeSum,
    ConversationFilter,
    ConversationPage,
    DeadLetter,
    DecidedApproval,
    DiscardedLetter,
    GrantedMessage,
    RecordedConversation,
    RecordedStep,
    Summary,
    read_decided_approval,
)
from agentserver.core.encoding.snapshot import Snapshot, UnreadableError, restore
from agentserver.core.messages import Moment
from agentserver.core.receipts import Receipt
from agentserver.core.records.audit import Event
from agentserver.core.state.approvals import ApprovalAnswer
from agentserver.core.state.ledger import EffectState
from agentserver.engines.journal import events, notes, records, seal, suspension
from agentserver.engines.journal.activity import Activity
from agentserver.engines.journal.events import EVENT, make_event
from agentserver.engines.journal.finding import SQLITE_WORDS, find_conversations, find_wrong_terms
from agentserver.engines.journal.retention import find_broken_link
from agentserver.engines.journal.rows import DeliveryEnd, read_discard
from agentserver.engines.journal.stored import COLUMNS, read_delivery, read_stored
from agentserver.engines.journal.walking import STEPS
from agentserver.ports import ConversationFound, SleepingConversation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from agentserver.completion import RecordedCompletion
    from agentserver.core.encoding.history import (
        ActivitySum,
        ChargeSum,
        DecidedApproval,
        SuspendedConversation,
    )
    from agentserver.core.guard import CoreGuard
    from agentserver.core.messages import Delivery, Done, EventPlace, Reply
    from agentserver.core.records.audit import AuditRecord
    from agentserver.core.state.approvals import Approval
    from agentserver.core.state.conversation import Conversation
    from agentserver.core.state.ledger import LedgerEffect
    from agentserver.core.state.principals import Rights
    from agentserver.engines.journal.connection import Connection
    from agentserver.ports.schedules import ScheduleOrder
    from agentserver.ports.servers import ServerState

MOST: Final = 1 << 62
"""A limit that no list reaches."""

SIZES: Final = (8, 64, 500)
"""Numbers by which one statement reads rows; few sizes, so that a database prepares few statements."""

MOST_ROWS: Final = 100_000
"""Rows of one step that are read; only a damaged step names more."""

_ADDED: Final = (
    f"select d.number, d.state, d.reason, d.ended, {COLUMNS} from delivery d"  # noqa: S608 - our own text
    " where d.conversation = ? and d.number in"
)
_LEFT: Final = f"select e.number, {EVENT} from event e where e.conversation = ? and e.number in"  # noqa: S608


class Reader:
    """Reads an open journal.

    Args:
        connection: to the journal.
        guards: guards whose memories are stored.
        words: the test for a word in this database: see ``finding.py``.
    """

    recorded = True

    def __init__(
        self, connection: Connection, guards: Sequence[CoreGuard] = (), words: str = SQLITE_WORDS
    ) -> None:
        self._connection = connection
        self._words = words
        self.adopt(guards)
        self._going = suspension.ACTIVE

    def adopt(self, guards: Sequence[CoreGuard]) -> None:
        """Replace the guards whose memories are read."""
        self._guards = tuple(guards)

    # For the engine

    def load(self, conversation: str) -> Conversation | None:
        """Load an open conversation. Raises UnreadableError."""
        stored = self.take_snapshot(conversation)
        return None if stored is None else restore(stored, self._guards)

    def load_suspended(self, conversation: str) -> Conversation | None:
        """Load a suspended conversation. Raises UnreadableError."""
        stored = self._find_snapshot(conversation)
        return None if stored is None else restore(stored, self._guards)

    def take_snapshot(self, conversation: str) -> Snapshot | None:
        """Take a snapshot of an open conversation. Raises UnreadableError when it fails its seal."""
        return (
            None
            if suspension.is_suspended(self._connection, conversation)
            else self._find_snapshot(conversation)
        )

    def _find_snapshot(self, conversation: str) -> Snapshot | None:
        found = read_stored(self._connection, conversation)
        if found is None or found.row.closed is not None:
            return None
        return found.assemble_snapshot()

    def find_damaged(self) -> list[UnreadableError]:
        """Find damaged open conversations, an error for each."""
        found = []
        for key in self._collect_ids(f"select id from conversation where {self._going} order by number"):  # noqa: S608 - our own text
            try:
                read_stored(self._connection, key)
            except UnreadableError as error:
                found.append(error)
        return found

    def active(self) -> list[str]:
        """List open conversations with queued deliveries, oldest first."""
        return self._collect_ids(
            f"select id from conversation where {self._going}"  # noqa: S608 - our own text
            " and number in (select conversation from queue where delayed = 0)"
        )

    def open_conversations(self) -> list[tuple[str, str]]:
        """List open conversations with their principals, oldest first."""
        rows = self._connection.execute(
            f"select id, principal from conversation where {self._going} order by number"  # noqa: S608 - our own text
        )
        return [(key, principal) for key, principal in rows]

    def idle(self, before: float, condition: str = "", *values: object) -> list[str]:
        """List open conversations ``c`` untouched since a time that do not sleep, for which a condition holds."""
        return self._collect_ids(
            f"select c.id from conversation c where c.touched < ?1 and c.due is null and {self._going} {condition}"  # noqa: S608 - our own text
            " order by c.touched",
            before,
            *values,
        )

    def list_sleeping(
        self, limit: int, condition: str = "", *values: object
    ) -> tuple[SleepingConversation, ...]:
        """List the sleeping conversations ``c`` that are due first, for which a condition holds."""
        rows = self._connection.execute(
            f"select c.due, c.id from conversation c where c.due is not null and {self._going} {condition}"  # noqa: S608 - our own text
            " order by c.due, c.number limit ?1",
            (limit, *values),
        )
        return tuple(SleepingConversation(*row) for row in rows)

    def conversations_of(self, principal: str) -> list[str]:
        """Return the principal's conversations that are open or have something in the outbox."""
        return self._collect_ids(
            f"select id from conversation where principal = ? and ({self._going} or number in"  # noqa: S608 - our own text
            " (select conversation from event where waiting = 1)) order by number",
            principal,
        )

    def outbox(self, conversation: str, earlier: Callable[[int], bool]) -> list[Reply | Done]:
        """Read the events without acknowledgement; those whose number an earlier server gave count as redelivered."""
        rows = self._connection.execute(
            f"select e.number, {EVENT} from event e join conversation c on c.number = e.conversation"  # noqa: S608
            " where c.id = ? and e.waiting = 1 order by e.version, e.position",
            (conversation,),
        )
        return [make_event(conversation, columns, again=earlier(number)) for number, *columns in rows]

    def find_conversation(self, conversation: str) -> ConversationFound | None:
        """Find the owner of a conversation, and whether it has ended."""
        row = self._connection.execute(
            f"select principal, not ({self._going}) from conversation where id = ?",  # noqa: S608 - our own text
            (conversation,),
        ).fetchone()
        return None if row is None else ConversationFound(conversation, row[0], over=bool(row[1]))

    def find_named(self, name: str) -> str | None:
        """Return the conversation that has a name. Raises EngineError for a row that was altered."""
        return records.find_named_conversation(self._connection, name)

    def read_events(self, conversation: str, after: EventPlace, limit: int) -> list[Reply | Done]:
        """Return the events after a place. Raises LookupError."""
        return events.read_events_after(self._connection, conversation, after, limit)

    def receipt(self, conversation: str, name: str) -> Receipt | None:
        """Return the receipt of a commit in a conversation under a key of this name."""
        row = self._connection.execute(
            "select r.request, r.content, c.number from receipt r join conversation c on c.number = r.conversation"
            " where c.id = ? and r.name = ?",
            (conversation, name),
        ).fetchone()
        if row is None:
            return None
        request, content, number = row
        return Receipt(request, content, events.find_refusal(self._connection, number, name, request))

    def read_request_events(
        self, conversation: str, request: str, earlier: Callable[[int], bool]
    ) -> list[Reply | Done]:
        """Read all events of a request; acknowledged ones, and those that ``outbox`` marks, count as redelivered."""
        rows = self._connection.execute(
            f"select e.number, e.waiting, {EVENT} from event e"  # noqa: S608
            " join conversation c on c.number = e.conversation"
            " where e.request = ? and c.id = ? order by e.version, e.position",
            (request, conversation),
        )
        return [
            make_event(conversation, columns, again=not queued or earlier(number))
            for number, queued, *columns in rows
        ]

    def last_event(self) -> int:
        """Return the number of the newest event."""
        (number,) = self._connection.execute("select max(number) from event").fetchone()
        return int(number or 0)

    # For people

    def find(self, prefix: str) -> list[str]:
        """Find conversations by a prefix of their ids, at most a few. A shell may pass invalid UTF-8."""
        if any("\ud800" <= each <= "\udfff" for each in prefix):
            return []
        return self._collect_ids(
            "select id from conversation where substr(id, 1, ?) = ? limit 8", len(prefix), prefix
        )

    def conversations(self) -> Iterator[Summary]:
        """Iterate over every conversation, the one that was touched last first."""
        rows = self._connection.execute(
            "select c.id, c.principal, c.opened, c.touched, c.closed, c.version,"
            " (select count(*) from queue q where q.conversation = c.number and q.delayed = 0),"
            " (select count(*) from event e where e.conversation = c.number and e.waiting = 1),"
            " c.due, (select data from value v where v.conversation = c.number and v.owner = ? and v.name = ?)"
            " from conversation c order by c.touched desc, c.number desc",
            (parts.SPENDING, parts.TOTAL),
        )
        return (
            Summary(*row, *parts.read_charged_total(charged))._replace(due=due) for *row, due, charged in rows
        )

    def list_conversations(
        self, chosen: ConversationFilter = EVERY_CONVERSATION, after: str = "", limit: int = 50
    ) -> ConversationPage:
        """List a page of the conversations that match, the last opened first. Raises ValueError."""
        return find_conversations(self._connection, chosen, after, limit, self._words)

    def approvals(self, conversation: str) -> tuple[Approval, ...]:
        """Return the messages of an open conversation that wait for a person. Raises UnreadableError."""
        stored = self.take_snapshot(conversation)
        return () if stored is None else snapshot.read_approvals(stored)

    def list_asking(self) -> list[str]:
        """Return the open conversations in which something waits for a person."""
        asking = f"select id from conversation where asks > 0 and {self._going} order by number"  # noqa: S608 - our own text
        return self._collect_ids(asking)

    def answers(self) -> list[tuple[ApprovalAnswer, float]]:
        """Return the answers that other processes have left."""
        return records.read_answers(self._connection)

    def list_effects(self) -> list[LedgerEffect]:
        """Return the external effects without an answer, oldest first. Raises UnreadableError."""
        rows = self._connection.execute("select data from value where owner = 'effects'").fetchall()
        try:
            found = [parts.load_effect(data) for (data,) in rows]
        except ValueError as error:
            raise UnreadableError(f"an external effect cannot be read: {error}") from error
        settled = records.list_settled(self._connection)
        unknown = (one for one in found if one.state is not EffectState.DONE and one.id not in settled)
        return sorted(unknown, key=lambda one: one.at)

    def list_schedule_orders(self) -> list[ScheduleOrder]:
        """Return the orders of operators about schedules, oldest first."""
        return records.read_orders(self._connection)

    def list_decisions(self, limit: int = 100, principal: str | None = None) -> list[DecidedApproval]:
        """Return the last answers of people, the latest first. Raises UnreadableError."""
        return read_decided_approvals(self._connection, limit, principal)

    def list_granted(self, principal: str, to: str, since: float) -> list[GrantedMessage]:
        """Return the approved messages of a principal to a listener since a time. Raises UnreadableError."""
        return read_granted_messages(self._connection, principal, to, since)

    def list_charges(self, since: float = 0.0) -> tuple[ChargeSum, ...]:
        """Return the charges since a time. Raises UnreadableError."""
        return read_charges(self._connection, since)

    def list_activity(
        self, since: float, until: float, parts: int, owner: str = ""
    ) -> tuple[ActivitySum, ...]:
        """Sum up the conversations that were opened in a time: see the port."""
        return Activity(self._connection, since, until, owner).sums(parts)

    def find_altered(self, recorded: RecordedConversation) -> int | None:
        """Return the first version whose step does not continue the chain."""
        return find_broken_link(recorded)

    def recorded_conversation(self, conversation: str) -> RecordedConversation:
        """Read everything that is recorded of a conversation. Raises LookupError."""
        row = self._connection.execute(
            "select number, principal, root, rights from conversation where id = ?", (conversation,)
        ).fetchone()
        if row is None:
            raise LookupError(conversation)
        number, principal, root, rights = row
        discarded: list[DiscardedLetter] = []
        step_rows = self._collect_step_rows(number)
        added = self._read_numbered(_ADDED, number, [row[8:10] for row in step_rows])
        left = self._read_numbered(_LEFT, number, [row[10:12] for row in step_rows])
        steps = tuple(
            self._read_step(conversation, number, row, (added, left), discarded) for row in step_rows
        )
        deliveries = {delivery.id: delivery for step in steps for delivery in step.added}
        origin = Origin(conversation, principal, root, _read_rights(conversation, rights))
        return RecordedConversation(origin, steps, deliveries, tuple(discarded))

    def dead(self, limit: int | None = None, prefix: str = "") -> list[DeadLetter]:
        """Return the dead letters, oldest first; of more than ``limit`` the latest."""
        rows = self._connection.execute(
            f"select {COLUMNS}, c.id, c.principal, d.reason, d.ended, c.closed is null from delivery d"  # noqa: S608
            " join conversation c on c.number = d.conversation where d.state = 3 and substr(d.id, 1, ?) = ?"
            " order by d.number desc limit ?",
            (len(prefix), prefix, MOST if limit is None else limit),
        ).fetchall()
        return [
            DeadLetter(read_delivery(conversation, row), principal, reason, at, bool(is_open))
            for *row, conversation, principal, reason, at, is_open in reversed(rows)
        ]

    def list_discarded(self, limit: int) -> list[DeadLetter]:
        """Return the latest dead letters that an operator discarded, oldest first."""
        rows = self._connection.execute(
            f"select {COLUMNS}, c.id, c.principal, d.reason, d.ended, c.closed is null from delivery d"  # noqa: S608
            " join conversation c on c.number = d.conversation where d.state = 4 order by d.number desc limit ?",
            (limit,),
        ).fetchall()
        return [
            DeadLetter(read_delivery(conversation, row), principal, reason, at, bool(is_open), by)
            for *row, conversation, principal, text, at, is_open in reversed(rows)
            for by, reason in [read_discard(text)]
        ]

    def list_servers(self) -> tuple[ServerState, ...]:
        """List no servers: a journal file has one at a time, which it does not record."""
        return ()

    def list_suspended(self) -> list[SuspendedConversation]:
        """List suspended conversations, oldest first."""
        return suspension.list_suspended(self._connection)

    def list_completions(self, conversation: str) -> list[RecordedCompletion]:
        """List the recorded completions of a conversation. Raises UnreadableError."""
        return records.read_completions(self._connection, conversation)

    def _collect_step_rows(self, number: int) -> list[tuple[object, ...]]:
        return self._connection.execute(
            "select s.number, s.version, s.at, s.seed, s.cause, s.records, s.chain, s.changes,"  # noqa: S608 - our own text
            " s.first_delivery, s.deliveries, s.first_event, s.events, s.previous"
            f" from {STEPS} order by s.version",
            (number, 0),
        ).fetchall()

    def _read_numbered(
        self, statement: str, within: int, ranges: Iterable[Sequence[Any]]
    ) -> dict[int, tuple[Any, ...]]:
        """Read the rows of a conversation in ranges of numbers, in few statements: a step has few rows.

        Args:
            statement: selects rows by their conversation and number, which is the first column.
            within: the conversation's number.
            ranges: each the first number and how many.
        """
        numbers = [at for first, count in ranges for at in range(first, first + min(count, MOST_ROWS))]
        found: dict[int, tuple[Any, ...]] = {}
        for start in range(0, len(numbers), SIZES[-1]):
            part = numbers[start : start + SIZES[-1]]
            size = next(each for each in SIZES if each >= len(part))
            text = f"{statement} ({', '.join('?' * size)})"
            filled = (within, *part, *[part[-1]] * (size - len(part)))
            rows = self._connection.execute(text, filled).fetchall()
            found.update((row[0], row) for row in rows)
        return found

    def _read_step(
        self,
        conversation: str,
        within: int,
        row: Sequence[object],
        numbered: tuple[Mapping[int, tuple[Any, ...]], Mapping[int, tuple[Any, ...]]],
        discarded: list[DiscardedLetter],
    ) -> RecordedStep:
        """Read a step from its row, and add the dead letters among its deliveries that were discarded."""
        number, version, at, seed, cause, records, chain, changes, *row_range, previous = row
        delivery, deliveries, event, events = row_range
        added = _pick(numbered[0], delivery, deliveries)
        event_rows = _pick(numbered[1], event, events)
        for _, state, text, ended, *columns in added:
            if state == DeliveryEnd.DISCARDED:
                letter = read_delivery(conversation, columns)
                discarded.append(DiscardedLetter(letter.id, read_discard(text)[0], ended))
        rows = (
            changes,
            seal.encode_places(number, version, previous, *row_range),  # type: ignore[arg-type]
            *[seal.digest_delivery(one, within, columns) for one, _, _, _, *columns in added],
            *[seal.digest_event(within, columns) for columns in event_rows],
        )
        return RecordedStep(
            version,  # type: ignore[arg-type]
            Moment(at, seed),  # type: ignore[arg-type]
            cause,  # type: ignore[arg-type]
            records,  # type: ignore[arg-type]
            tuple(read_delivery(conversation, columns) for _, _, _, _, *columns in added),
            tuple(make_event(conversation, columns) for _, *columns in event_rows),
            chain,  # type: ignore[arg-type]
            rows,  # type: ignore[arg-type]
        )

    def _collect_ids(self, statement: str, *values: object) -> list[str]:
        return [key for (key,) in self._connection.execute(statement, values)]


_DECIDED = "substr(s.cause, 1, 11) = x'5b312c5b22646563696465'"
_PRICED = "substr(s.cause, 1, 11) in (x'5b312c5b22726573657276', x'5b312c5b22736574746c65')"


def read_decided_approvals(
    connection: Connection, limit: int, principal: str | None
) -> list[DecidedApproval]:
    """Read the last approvals and denials, the latest first."""
    rows = connection.execute(
        "select c.number, c.id, c.principal, s.at, s.cause, s.records from step s"  # noqa: S608 - our own text
        f" join conversation c on c.number = s.conversation where {_DECIDED}"
        " and (cast(?1 as text) is null or c.principal = ?1) order by s.number desc limit ?2",
        (principal, limit),
    ).fetchall()
    found = []
    for number, key, owner, at, cause, record_bytes in rows:
        answer = read_cause(cause)
        assert isinstance(answer, ApprovalAnswer)
        record = _find_record(connection, (number, key, at), record_bytes, {Event.APPROVED, Event.WITHDRAWN})
        found.append(read_decided_approval(key, owner, answer.approval, record))
    return found


def read_granted_messages(
    connection: Connection, principal: str, to: str, since: float
) -> list[GrantedMessage]:
    """Read the approved messages of a principal to a listener since a time."""
    rows = connection.execute(
        "select c.number, c.id, s.at, s.records from step s"  # noqa: S608 - our own text
        f" join conversation c on c.number = s.conversation where {_DECIDED} and s.at >= ? and c.principal = ?",
        (since, principal),
    ).fetchall()
    found = []
    for number, key, at, record_bytes in rows:
        record = _find_record(connection, (number, key, at), record_bytes, {Event.APPROVED, Event.WITHDRAWN})
        if record.event is Event.APPROVED and record.to == to:
            delivery = _find_delivery(connection, number, key, record.delivery)
            found.append(GrantedMessage(at, delivery.root, delivery.message))
    return found


def _read_rights(conversation: str, text: str) -> Rights:
    """Read the rights of a conversation's principal. Raises UnreadableError."""
    try:
        return parts.read_rights_in(text)
    except (TypeError, ValueError) as error:
        raise UnreadableError(f"conversation {conversation}: its rights cannot be read") from error


def read_charges(connection: Connection, since: float) -> tuple[ChargeSum, ...]:
    """Sum the charges of the steps since a time."""
    rows = connection.execute(
        "select c.number, c.id, c.principal, c.rights, s.at, s.seed, s.cause, s.records from step s"  # noqa: S608 - our own text
        f" join conversation c on c.number = s.conversation where {_PRICED} and s.at >= ?"
        " order by s.at, s.number",
        (since,),
    )
    charges = Charges()
    for number, key, principal, rights, at, seed, cause, record_bytes in rows:
        priced = read_cause(cause)
        payers = _read_rights(key, rights).payers
        if isinstance(priced, StoredSettlement):
            charges.settle(principal, payers, priced.reservation, priced.cost)
        else:
            record = _find_record(connection, (number, key, at), record_bytes, {Event.RESERVED})
            charges.reserve(principal, payers, Moment(at, seed), record)
    return charges.list_sums()


def _find_record(
    connection: Connection, place: tuple[int, str, float], records: bytes, events: Collection[str]
) -> AuditRecord:
    """Find the step's record of one of these events. Raises UnreadableError."""
    number, key, at = place
    found = next((one for one in codecs.read_stored_records(records) if one.event in events), None)
    if found is None:
        raise UnreadableError(f"conversation {key}: a step lacks the record of its decision")
    deliveries: dict[str, Delivery] = {}
    if found.about is None:  # the delivery completes the record
        deliveries = {found.delivery: _find_delivery(connection, number, key, found.delivery)}
    return codecs.complete_record(found, key, at, deliveries)


def _find_delivery(connection: Connection, number: int, key: str, delivery: str) -> Delivery:
    row = connection.execute(
        f"select {COLUMNS} from {STEPS} join delivery d"  # noqa: S608 - our own text
        " on d.number >= s.first_delivery and d.number < s.first_delivery + s.deliveries"
        " and d.conversation = s.conversation"
        " where d.id = ?3",
        (number, 0, delivery),
    ).fetchone()
    if row is None:
        raise UnreadableError(f"conversation {key}: the delivery of a decision is missing")
    return read_delivery(key, row)


def _pick(rows: Mapping[int, tuple[Any, ...]], first: Any, count: Any) -> list[tuple[Any, ...]]:
    """Pick the rows of a range, in order."""
    return [rows[at] for at in range(first, first + min(count, MOST_ROWS)) if at in rows]


T = TypeVar("T")


class JournalReads(ABC):
    """Asynchronous reads that all journals share."""

    @abstractmethod
    async def _ask(self, work: Callable[[Reader], T]) -> T:
        """Run a function with a reader in its thread. Raises EngineError for errors of the driver."""

    @abstractmethod
    def _numbered_before(self, number: int) -> bool:
        """Check whether an earlier server may have delivered the event with this number."""

    @abstractmethod
    def _make_gone_test(self, conversation: str) -> Callable[[EventPlace], bool]:
        """Make a test for places whose acknowledgements are not written yet."""

    async def load(self, conversation: str) -> Conversation | None:
        """Return the conversation as last committed."""
        return await self._ask(lambda reader: reader.load(conversation))

    async def find_conversation(self, conversation: str) -> ConversationFound | None:
        """Return the owner of a conversation that the journal has."""
        return await self._ask(lambda reader: reader.find_conversation(conversation))

    async def conversations_of(self, principal: str) -> AsyncIterator[str]:
        """Return the principal's conversations that are open or have something in the outbox."""
        for key in await self._ask(lambda reader: reader.conversations_of(principal)):
            yield key

    async def find_named(self, name: str) -> str | None:
        """Return the conversation that has a name."""
        return await self._ask(lambda reader: reader.find_named(name))

    async def read_events(
        self,
        conversation: str,
        after: EventPlace,
        limit: int,
        *,
        gaps: bool = False,  # noqa: ARG002 - there are none
    ) -> list[Reply | Done]:
        """Return the events after a place. All of a conversation are kept for as long as it is."""
        return await self._ask(lambda reader: reader.read_events(conversation, after, limit))

    async def receipt(self, conversation: str, name: str) -> Receipt | None:
        """Return the receipt of a commit under a key, also in a conversation that is closed."""
        return await self._ask(lambda reader: reader.receipt(conversation, name))

    async def outbox(self, conversation: str) -> AsyncIterator[Reply | Done]:
        """Return the events that were not acknowledged; those that an earlier server may have passed on are marked."""
        is_gone = self._make_gone_test(conversation)
        for event in await self._ask(lambda reader: reader.outbox(conversation, self._numbered_before)):
            if not is_gone(event.place):
                yield event

    async def read_request_events(self, conversation: str, request: str) -> AsyncIterator[Reply | Done]:
        """Read everything that left for a request."""
        is_gone = self._make_gone_test(conversation)
        for event in await self._ask(
            lambda reader: reader.read_request_events(conversation, request, self._numbered_before)
        ):
            yield event._replace(redelivered=event.redelivered or is_gone(event.place))


_TABLES = ("step", "delivery", "queue", "event", "value", "receipt", "state", "facet", "wordlist")
"""Tables whose rows all belong to a conversation."""


def find_faults(
    connection: Connection, driver: tuple[type[Exception], ...], condition: str = "true"
) -> Iterator[str]:
    """Find damaged rows, a line each.

    Args:
        connection: within a snapshot.
        driver: errors of its driver, which count as findings.
        condition: the condition for rows whose conversation has not expired.
    """
    yield from _iter_conversations(connection, (*driver, TypeError, ValueError, OverflowError), condition)
    yield from _marks(connection)
    yield from _iter_answers(connection)
    if not records.is_calendar_intact(connection):
        yield "the calendar fails its seal"
    yield from suspension.find_damaged_suspensions(connection)
    yield from records.find_damaged_names(connection)
    yield from records.find_damaged_completions(connection)
    yield from notes.find_damaged_notes(connection)


def _iter_conversations(
    connection: Connection, illegible: tuple[type[Exception], ...], condition: str
) -> Iterator[str]:
    reader = Reader(connection)
    claimed = dict.fromkeys(_TABLES, 0)
    for number, key in connection.execute("select number, id from conversation order by number").fetchall():
        try:
            lines = _iter_conversation(reader, connection, key, claimed)
            yield from (f"conversation {key}: {line}" for line in lines)
        except UnreadableError as error:
            yield str(error)
        except illegible as error:
            yield f"conversation {key}: its record cannot be read: {type(error).__name__}"
        for table in ("queue", "value", "receipt", "state", "facet", "wordlist"):
            rows = f"select count(*) from {table} where conversation = ?"  # noqa: S608 - our own names
            claimed[table] += connection.execute(rows, (number,)).fetchone()[0]
    claimed["event"] += suspension.count_suspension_events(connection)
    for table, count in claimed.items():
        (rows,) = connection.execute(f"select count(*) from {table} where {condition}").fetchone()  # noqa: S608 - our own names
        if rows != count:
            yield f"the file: {rows} rows of {table}, but {count} belong to a conversation"


def _iter_conversation(
    reader: Reader, connection: Connection, key: str, claimed: dict[str, int]
) -> Iterator[str]:
    recorded = reader.recorded_conversation(key)
    claimed["step"] += len(recorded.steps)
    claimed["delivery"] += sum(len(step.added) for step in recorded.steps)
    claimed["event"] += sum(len(step.events) for step in recorded.steps)
    found = read_stored(connection, key)
    broken = find_broken_link(recorded)
    if broken is not None:
        yield f"step {broken} breaks the chain"
    elif found is not None and (found.row.version, found.row.chain) != _end(recorded.steps):
        yield "its last step does not match its row"
    else:
        yield from _compare_receipts(connection, recorded)
        if found is not None:
            yield from find_wrong_terms(connection, found.row.number, recorded)


def _compare_receipts(connection: Connection, recorded: RecordedConversation) -> Iterator[str]:
    """Compare receipts with the idempotency keys in the causes of steps."""
    rows = connection.execute(
        "select r.name, r.request, r.content from receipt r join conversation c on c.number = r.conversation"
        " where c.id = ? order by r.name",
        (recorded.beginning.id,),
    )
    receipts = (decision_codec.read_receipt(step.cause) for step in recorded.steps)
    if sorted((name, *receipt[:2]) for name, receipt in filter(None, receipts)) != rows.fetchall():
        yield "its receipts do not match the steps that issued them"


def _end(steps: tuple[RecordedStep, ...]) -> tuple[int, bytes]:
    return (steps[-1].version, steps[-1].chain) if steps else (0, seal.GENESIS)


def _marks(connection: Connection) -> Iterator[str]:
    """Check the marks of mutable columns."""
    for *columns, mark in connection.execute("select number, state, reason, ended, mark from delivery"):
        if mark != seal.mark(*columns):
            yield f"the state of delivery {columns[0]} fails its mark"
    for number, delayed, mark in connection.execute("select delivery, delayed, mark from queue"):
        if mark != seal.mark_queued(number, delayed=delayed):
            yield f"the place of delivery {number} in the queue fails its mark"
    for number, queued, mark in connection.execute("select number, waiting, mark from event"):
        if mark != (seal.WAITS if queued else seal.GONE):
            yield f"the state of event {number} fails its mark"


def _iter_answers(connection: Connection) -> Iterator[str]:
    for *row, sealed in connection.execute("select approval, digest, said, author, at, seal from answer"):
        if sealed != seal.digest(row):
            yield "an answer fails its seal"
