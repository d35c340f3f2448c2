"""Protocols of the engines that store conversations, of their readers and marks, and their errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, Self, TypeVar

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType

    from agentserver.completion import RecordedCompletion
    from agentserver.core.encoding.history import (
        ActivitySum,
        ChargeSum,
        ConversationFilter,
        ConversationPage,
        DeadLetter,
        DecidedApproval,
        GrantedMessage,
        RecordedConversation,
        Summary,
        SuspendedConversation,
    )
    from agentserver.core.messages import Done, EventPlace, Reply
    from agentserver.core.receipts import Receipt
    from agentserver.core.records.outcome import Outcome
    from agentserver.core.state.approvals import Approval, ApprovalAnswer
    from agentserver.core.state.conversation import Conversation
    from agentserver.core.state.elapsed_time import Calendar
    from agentserver.core.state.ledger import LedgerEffect
    from agentserver.notes import NoteStore
    from agentserver.ports.claims import Arrival, ArrivalOutcome, Claim, GainedClaims, LostClaims, RemoteStep
    from agentserver.ports.ingress import Answers, ConversationFound, RejectReason
    from agentserver.ports.schedules import ScheduleOrder
    from agentserver.ports.servers import ServerState


class EngineReader(Protocol):
    """Read-only, synchronous view of an engine for operators' tools.

    Each method raises UnreadableError (core/encoding/snapshot.py) for a damaged conversation.
    """

    @property
    def recorded(self) -> bool:
        """True when steps are kept.

        Without them there is no replay, no dead letter, no decision, no charge and nothing that is closed.
        """

    def find(self, prefix: str) -> Sequence[str]:
        """Find up to 8 conversations by a prefix of their ids."""

    def conversations(self) -> Iterable[Summary]:
        """List the conversations, the last touched first."""

    def list_conversations(
        self, chosen: ConversationFilter = ..., after: str = "", limit: int = 50
    ) -> ConversationPage:
        """List a page of the conversations that match, the last opened first.

        Args:
            chosen: the filter; without one every conversation is listed.
            after: the cursor of the previous page, which stays valid when conversations are opened or deleted.
            limit: greatest number of rows.

        Raises ValueError for a malformed cursor.
        """

    def active(self) -> Sequence[str]:
        """List the open conversations with queued, held or running deliveries, in the order of opening."""

    def load(self, conversation: str) -> Conversation | None:
        """Load an open conversation as last committed; None when it is unknown, closed or suspended."""

    def approvals(self, conversation: str) -> Sequence[Approval]:
        """List the messages of an open conversation that wait for a person."""

    def list_asking(self) -> Sequence[str]:
        """List the open conversations with messages that wait for a person."""

    def answers(self) -> Sequence[tuple[ApprovalAnswer, float]]:
        """List the answers that no server has taken, each with its time in seconds since the epoch."""

    def list_effects(self) -> Sequence[LedgerEffect]:
        """List the external effects that are claimed or unknown, oldest first, also of closed conversations.

        Closed conversations are those that are still stored.
        """

    def list_schedule_orders(self) -> Sequence[ScheduleOrder]:
        """List the orders of operators about schedules, oldest first."""

    def list_decisions(self, limit: int = 100, principal: str | None = None) -> Sequence[DecidedApproval]:
        """List the latest decisions on messages that waited for a person, newest first.

        Args:
            limit: greatest number.
            principal: owner of the conversations; None for all.
        """

    def list_granted(self, principal: str, to: str, since: float) -> Sequence[GrantedMessage]:
        """List the approved messages to a listener in all conversations of a principal, since a time."""

    def list_charges(self, since: float = 0.0) -> Sequence[ChargeSum]:
        """List the charges since a time by listener, model and principal, the largest first."""

    def list_activity(self, since: float, until: float, parts: int, owner: str = "") -> Sequence[ActivitySum]:
        """Sum up the conversations that were opened in a time: by interval, by principal and by listener.

        Args:
            since: seconds since the epoch.
            until: the same; later conversations are not counted.
            parts: intervals of equal length, each with a sum, oldest first.
            owner: only conversations of this principal or tenant; empty for all.

        Of principals and of listeners, the MOST_NAMES with the most conversations follow.
        """

    def recorded_conversation(self, conversation: str) -> RecordedConversation:
        """Read the steps of a conversation. Raises LookupError for an unknown one, UnrecordedError without steps."""

    def find_altered(self, recorded: RecordedConversation) -> int | None:
        """Find the first version whose step was altered; None if intact or if steps are not sealed."""

    def dead(self, limit: int | None = None, prefix: str = "") -> Sequence[DeadLetter]:
        """List the dead letters, oldest first, without those that were queued again or discarded.

        Args:
            limit: number of the latest ones; None for all.
            prefix: of their delivery ids; other messages are not read.
        """

    def list_discarded(self, limit: int) -> Sequence[DeadLetter]:
        """List the latest dead letters that an operator discarded, oldest first."""

    def list_servers(self) -> Sequence[ServerState]:
        """List the servers that share the storage, also those that ended lately; none if servers cannot share it."""

    def list_suspended(self) -> Sequence[SuspendedConversation]:
        """List the suspended conversations that can be resumed, oldest first."""

    def list_completions(self, conversation: str) -> Sequence[RecordedCompletion]:
        """List the recorded completions of a conversation, in the order in which they began."""


class PreviousRun(NamedTuple):
    """Known facts about the end of the previous server.

    Args:
        running: ids of the running deliveries; empty after an end that was not caused by a delivery.
        blocking_delivery: the delivery that blocked the event loop until the process was ended, or empty.
        ends: the suspects, and how often the process ended while each ran alone.
    """

    running: frozenset[str]
    blocking_delivery: str
    ends: Mapping[str, int]


NO_PREVIOUS_RUN = PreviousRun(frozenset(), "", {})


class SleepingConversation(NamedTuple):
    """Conversation that only waits for a time.

    Args:
        due_at: the time, in seconds since the epoch.
        id: of the conversation.
    """

    due_at: float
    id: str


class Marks(Protocol):
    """Store of the running deliveries for the next server, here or in another process.

    Only the documented errors are raised; only ``previous_run``, ``begin`` and ``wait_until_marked`` wait.
    """

    @property
    def at_once(self) -> bool:
        """True when a mark is stored as soon as it is entered, without ``wait_until_marked``."""

    async def previous_run(self, previous: int) -> PreviousRun:
        """Return how the process with an earlier lease ended; NO_PREVIOUS_RUN if unreadable or ended in order.

        Raises FencedError when this process has lost the gained claims and may not continue them.

        ``running`` has all deliveries of that process: one that ran together with others is not a suspect.
        """

    async def begin(self, suspects: Mapping[str, int], calls: int) -> None:
        """Store suspects with their counts, and make room for ``calls`` concurrent calls.

        Called at the start and for each ``GainedClaims`` with suspects. Earlier suspects stay. Raises FencedError.
        """

    def enter(self, delivery: str, conversation: str) -> int:
        """Mark a delivery of a conversation; returns the slot for ``leave``."""

    async def wait_until_marked(self, slot: int) -> None:
        """Wait until a mark is stored or cleared."""

    def leave(self, slot: int) -> None:
        """Clear a mark."""

    def acquit(self, delivery: str) -> None:
        """Remove a suspect."""

    def hold(self, delivery: str) -> None:
        """Note that this delivery blocked the event loop too long and the process will be ended."""

    def end(self) -> None:
        """Note that no delivery caused the coming end. May be called from any thread."""


class EngineError(Exception):
    """The engine could not commit and stored no part of the outcome."""


class QuotaError(RuntimeError):
    """The principal has reached a quota of its own."""


class ConflictError(EngineError):
    """The conversation has changed since the decision: load it and decide again."""


class FencedError(EngineError):
    """Another process has the conversation now: drop it, without retrying or waiting."""


class NoOutcomeError(EngineError):
    """No outcome arrived in time: the request is stored for the owner of the conversation and may still take effect."""

    def __init__(self) -> None:
        super().__init__("no outcome arrived in time: the request is stored and may still take effect")


class UnstorableError(EngineError):
    """The outcome itself cannot be stored, now or later."""


class DamagedError(EngineError):
    """A conversation cannot be read. The others can."""


class RepeatedError(EngineError):
    """The same message was committed before under its sender's id; this one was not stored."""

    def __init__(self, receipt: Receipt) -> None:
        super().__init__("a message is there already under this id of its sender's")
        self.receipt = receipt


class MessageConflictError(ValueError):
    """Another message was committed before under this sender's id; this one was not stored.

    Args:
        request: the server's id of the other message's request.
    """

    def __init__(self, request: str) -> None:
        super().__init__("another message was sent under this id; this one is not kept")
        self.request = request


class NotStoredError(RuntimeError):
    """A message was not stored and has no effect. ``reason`` is the reason."""

    def __init__(self, why: RejectReason) -> None:
        super().__init__(_UNKEPT[str(why)])
        self.reason = why


_UNKEPT = {
    "stopping": "the server is stopping or not running",
    "over": "the conversation has ended",
    "unkept": "the server cannot keep messages at present",
}


class EventsExpiredError(LookupError):
    """Some events after a place are no longer stored; all after ``since`` are."""

    def __init__(self, since: EventPlace) -> None:
        super().__init__("some events after this place are no longer stored")
        self.since = since


T = TypeVar("T")

PAGE = 262_144
"""Bytes of messages that ``Engine.read_events`` returns at once."""


class Engine(Protocol):
    """Store of conversations and their deliveries. ``engines/conformance/suite.py`` defines its promises."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None: ...

    @property
    def marks(self) -> Marks | None:
        """The marks of running deliveries; None for an engine that is not durable."""

    @property
    def prompt(self) -> bool:
        """True when a commit usually completes without waiting. One that waits opens no cancel scope first."""

    @property
    def durable(self) -> bool:
        """True when commits outlive the process."""

    @property
    def answers(self) -> Answers | None:
        """Answers of people from other processes; None if not supported."""

    @property
    def notes(self) -> NoteStore | None:
        """The notes that outlive conversations; None for an engine that is not durable."""

    async def read(self, work: Callable[[EngineReader], T]) -> T:
        """Run a read for operators without blocking the event loop on a file.

        Args:
            work: gets a reader that is valid until it returns; its result must not use the reader.

        Raises EngineError, and what ``work`` raises.
        """

    # Claims

    @property
    def shared(self) -> bool:
        """True when other processes work on the same storage. An engine that is not shared has every conversation."""

    def current_claim(self, conversation: str) -> Claim | None:
        """Return this process's claim on a conversation, from memory, or None.

        A closing commit and a fenced commit end the claim. An engine that is not shared has one claim for every id.
        """

    async def claim(self, conversation: str) -> Claim | None:
        """Claim a conversation that is unclaimed, idle for long enough, or already this process's.

        Returns: None while another process has it or it has waiting deliveries of an earlier owner; such a conversation
        is gained later (``changes``), by this process or another. Raises EngineError.
        """

    def begin_claim(self, conversation: str) -> Claim:
        """Claim a new conversation; its first commit stores the claim or raises FencedError.

        ``release`` drops one that never begins.
        """

    def changes(self) -> AsyncIterator[GainedClaims | LostClaims]:
        """Iterate over claims gained and lost other than by ``claim`` and ``release``. Called once.

        The first item is a ``GainedClaims``, perhaps empty, with the conversations to continue at the start. A change
        that contradicts ``current_claim`` is out of date. Raises EngineError when this process may no longer work.
        """

    async def release(self, conversations: Collection[str]) -> None:
        """Release conversations without waiting deliveries; those with unread arrivals stay claimed.

        The others are unclaimed from the call on. Raises EngineError.
        """

    async def give_up(self) -> None:
        """Release every claim, so that other processes need not wait for its expiry. No claim is made afterwards.

        Pending commits end within seconds, stored or not. Raises EngineError.
        """

    # Work

    def commit(self, claim: Claim, outcome: Outcome) -> Awaitable[None]:
        """Store an outcome whole or not at all. The caller serialises the commits of one conversation.

        Returns a coroutine, or a future of the loop for a commit that proceeds without a waiting worker. The key of an
        outside message is stored too, and no later commit may have the same key.

        Args:
            claim: in force when the outcome was decided.
            outcome: of one step.

        Raises FencedError when the claim is lost, ConflictError when the stored conversation is not of version
        ``outcome.before``, RepeatedError when the key is there, UnstorableError when this outcome cannot be kept,
        EngineError when nothing can be kept at present.
        """

    async def load(self, conversation: str) -> Conversation | None:
        """Load a conversation as last committed; None when it is unknown, closed or suspended.

        Raises DamagedError when it cannot be read.
        """

    async def suspend(self, conversation: str, reason: str, at: float) -> tuple[Reply | Done, ...]:
        """Suspend an open conversation, which may be unreadable; returns the final events of its requests.

        It stays stored and counts as closed until an operator resumes it.

        Args:
            conversation: its id.
            reason: why it cannot continue.
            at: in seconds since the epoch.
        """

    def open_conversations(self) -> AsyncIterator[tuple[str, str]]:
        """Iterate over the open conversations that the pump counts at its start, with their principals.

        A shared engine yields nothing (see ``open_count``).
        """

    async def open_count(self, principal: str) -> int | None:
        """Count a principal's open conversations over all processes; None if the pump's own count is complete.

        Raises EngineError.
        """

    def idle(self, before: float) -> AsyncIterator[str]:
        """Iterate over open conversations unchanged since a time that no other process has, without sleeping ones."""

    async def list_sleeping(self, limit: int) -> Sequence[SleepingConversation]:
        """List the conversations that only wait for a time and that no other process has, the earliest first.

        Args:
            limit: greatest number.

        Raises EngineError.
        """

    async def expire(self, now: float, calendar: Calendar = ...) -> int:
        """Delete closed conversations past their retention, and completions past theirs.

        Returns the number of conversations.

        Args:
            now: the clock time, in seconds since the epoch.
            calendar: known jumps of the clock.
        """

    async def calendar(self) -> Calendar:
        """Load the calendar of an earlier server, or an empty one."""

    async def keep_calendar(self, calendar: Calendar) -> None:
        """Store the calendar for later servers. Raises EngineError."""

    def conversations_of(self, principal: str) -> AsyncIterator[str]:
        """Iterate over a principal's conversations that are open or have unacknowledged events, oldest first."""

    def outbox(self, conversation: str) -> AsyncIterator[Reply | Done]:
        """Iterate over the unacknowledged events of a conversation, in order.

        Events that an earlier server may have passed on are marked ``redelivered``.
        """

    async def find_conversation(self, conversation: str) -> ConversationFound | None:
        """Find the owner of an open, suspended or retained conversation; None for any other."""

    async def discard(self, delivery: str, by: str, at: float) -> bool:
        """Remove a dead letter from the list; its records stay. False for an unknown id.

        Raises EngineError.
        """

    async def find_named(self, name: str) -> str | None:
        """Find the conversation with a name of its principal's, or None. Raises EngineError."""

    async def record_completion(self, done: RecordedCompletion, until: float) -> None:
        """Store a completion with its conversation, which ``expire`` deletes after a time. Raises EngineError.

        An engine that records no steps stores none, and an unknown conversation is ignored.

        Args:
            done: the completion.
            until: the time, in seconds since the epoch; it is deleted earlier with its conversation.
        """

    async def give_name(self, name: str, conversation: str, at: float, *, move: bool = False) -> str:
        """Name a conversation by its principal's own id, or find the one that has the name.

        A conversation may have several names. They are deleted with it, or after a while if it never began.

        Args:
            name: a digest, of principal and id.
            conversation: its id; a new conversation would have it.
            at: in seconds since the epoch.
            move: take the name from the conversation that has it.

        Returns: the id of the conversation that has the name from now on. Raises EngineError.
        """

    async def read_events(
        self, conversation: str, after: EventPlace, limit: int, *, gaps: bool = False
    ) -> Sequence[Reply | Done]:
        """Read a page of a conversation's events after a place, acknowledged or not, in order.

        The cost depends only on the events after the place.

        Args:
            conversation: its id, known to ``find_conversation``.
            after: the place; UNDECIDED begins with the earliest stored event.
            limit: greatest number of events. Their messages have at most PAGE bytes, except for a single larger one. An
                empty result is the end.
            gaps: return the stored events, which include every unacknowledged one, despite missing events before them.

        Raises EventsExpiredError when events after the place are no longer stored, LookupError for an unknown
        conversation.
        """

    async def receipt(self, conversation: str, name: str) -> Receipt | None:
        """Find the receipt for a key in an open or closed conversation, or None."""

    def read_request_events(self, conversation: str, request: str) -> AsyncIterator[Reply | Done]:
        """Iterate over all events of a request with a key, acknowledged or not, in order.

        Acknowledged ones, and those that the outbox marks, are marked ``redelivered``.
        """

    def acknowledge(self, conversation: str, place: EventPlace) -> None:
        """Note that a gateway has passed on the event at a place.

        Not awaited: after a crash the event may be redelivered.
        """

    def confirm(self, conversation: str, place: EventPlace) -> None:
        """Note that its principal has every event up to a place. Not awaited."""

    def abandon(self, conversation: str) -> None:
        """Note that a gateway needs no event emitted so far. Not awaited."""

    # Conversations that another process has

    async def hand_in(self, arrival: Arrival) -> asyncio.Future[ArrivalOutcome]:
        """Submit an arrival to the present or next owner of its conversation; returns once it is stored or decided.

        Arrivals with the same id count once.

        Returns: the future of its fate, cancelled if the engine closes first. Raises EngineError.
        """

    def arrivals(self) -> AsyncIterator[Arrival]:
        """Iterate over arrivals for conversations of this process, in order for each, until the engine closes.

        An unsettled arrival may come again, and does when its conversation is lost and claimed again. An unclaimed
        conversation is claimed for its arrival; an arrival for an ended one comes to any process, which rejects it.
        """

    def settle(self, arrival: Arrival, fate: ArrivalOutcome) -> None:
        """Store the fate of an arrival after its step is committed. Not awaited.

        If this is lost, the arrival comes again to the owner of the conversation.
        """

    def news(self, list_keys: Callable[[], Collection[str]]) -> AsyncIterator[RemoteStep]:
        """Iterate over news of conversations of other processes, in order for each; see ``read_events``.

        Covers ``list_keys()``, called repeatedly, and conversations that begin or cease to wait for a person. A
        newly wanted one is reported at once, and any may be reported too often. Ends at once without other processes.
        """

    def exclusive(self, name: str) -> AbstractAsyncContextManager[None]:
        """Hold a lock shared by all processes. Raises EngineError.

        A process presumed dead loses it without notice, so it gives order, not safety.
        """
