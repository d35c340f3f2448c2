"""Protocol of the engines that store conversations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self, TypeVar

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType

    from agentserver.core.messages import Done, EventPlace, Reply
    from agentserver.core.receipts import Receipt
    from agentserver.core.records.outcome import Outcome
    from agentserver.core.state.conversation import Conversation
    from agentserver.core.state.elapsed import Calendar
    from agentserver.ports.claims import Arrival, Claim, Fate, GainedClaims, LostClaims, News
    from agentserver.ports.ingress import ConversationFound
    from agentserver.ports.marks import Marks
    from agentserver.ports.people import Answers
    from agentserver.ports.reading import EngineReader

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
        ...

    @property
    def prompt(self) -> bool:
        """True when a commit usually completes without waiting. One that waits opens no cancel scope first."""
        ...

    @property
    def durable(self) -> bool:
        """True when commits outlive the process."""
        ...

    @property
    def answers(self) -> Answers | None:
        """Answers of people from other processes; None if not supported."""
        ...

    async def read(self, work: Callable[[EngineReader], T]) -> T:
        """Run a read for operators without blocking the event loop on a file.

        Args:
            work: gets a reader that is valid until it returns; its result must not use the reader.

        Raises EngineError, and what ``work`` raises.
        """
        ...

    # Claims

    @property
    def shared(self) -> bool:
        """True when other processes work on the same storage. An engine that is not shared has every conversation."""
        ...

    def current_claim(self, conversation: str) -> Claim | None:
        """Return this process's claim on a conversation, from memory, or None.

        A closing commit and a fenced commit end the claim. An engine that is not shared has one claim for every id.
        """
        ...

    async def claim(self, conversation: str) -> Claim | None:
        """Claim a conversation that is unclaimed, idle for long enough, or already this process's.

        Returns: None while another process has it or it has waiting deliveries of an earlier owner; such a conversation
        is gained later (``changes``), by this process or another. Raises EngineError.
        """
        ...

    def begin_claim(self, conversation: str) -> Claim:
        """Claim a new conversation; its first commit stores the claim or raises FencedError.

        ``release`` drops one that never begins.
        """
        ...

    def changes(self) -> AsyncIterator[GainedClaims | LostClaims]:
        """Iterate over claims gained and lost other than by ``claim`` and ``release``. Called once.

        The first item is a ``GainedClaims``, perhaps empty, with the conversations to continue at the start. A change
        that contradicts ``current_claim`` is out of date. Raises EngineError when this process may no longer work.
        """
        ...

    async def release(self, conversations: Collection[str]) -> None:
        """Release conversations without waiting deliveries; those with unread arrivals stay claimed.

        The others are unclaimed from the call on. Raises EngineError.
        """
        ...

    async def give_up(self) -> None:
        """Release every claim, so that other processes need not wait for its expiry. No claim is made afterwards.

        Pending commits end within seconds, stored or not. Raises EngineError.
        """
        ...

    # Work

    def commit(self, claim: Claim, outcome: Outcome) -> Awaitable[None]:
        """Store an outcome whole or not at all. The caller serialises the commits of one conversation.

        Returns a coroutine, or a future of the loop for a commit that proceeds without a waiting worker. The key of an
        outside message is stored too, and no later commit may have the same key.

        Args:
            claim: in force when the outcome was decided.
            outcome: of one step.

        Raises FencedError when the claim is lost, ConflictError when the stored conversation is not of version
        ``outcome.before``, RepeatedError when the key is there, UnfitError when this outcome cannot be kept,
        EngineError when nothing can be kept at present.
        """
        ...

    async def load(self, conversation: str) -> Conversation | None:
        """Load a conversation as last committed; None when it is unknown, closed or suspended.

        Raises DamagedError when it cannot be read.
        """
        ...

    async def suspend(self, conversation: str, reason: str, at: float) -> tuple[Reply | Done, ...]:
        """Suspend an open conversation, which may be unreadable; returns the final events of its requests.

        It stays stored and counts as closed until an operator resumes it.

        Args:
            conversation: its id.
            reason: why it cannot continue.
            at: in seconds since the epoch.
        """
        ...

    def open_conversations(self) -> AsyncIterator[tuple[str, str]]:
        """Iterate over the open conversations that the pump counts at its start, with their principals.

        A shared engine yields nothing (see ``open_count``).
        """
        ...

    async def open_count(self, principal: str) -> int | None:
        """Count a principal's open conversations over all processes; None if the pump's own count is complete.

        Raises EngineError.
        """
        ...

    def idle(self, before: float) -> AsyncIterator[str]:
        """Iterate over open conversations unchanged since a time that no other process has."""
        ...

    async def expire(self, now: float, calendar: Calendar = ...) -> int:
        """Delete closed conversations past their retention; returns how many.

        Args:
            now: the clock time, in seconds since the epoch.
            calendar: known jumps of the clock.
        """
        ...

    async def calendar(self) -> Calendar:
        """Load the calendar of an earlier server, or an empty one."""
        ...

    async def keep_calendar(self, calendar: Calendar) -> None:
        """Store the calendar for later servers. Raises EngineError."""
        ...

    def conversations_of(self, principal: str) -> AsyncIterator[str]:
        """Iterate over a principal's conversations that are open or have unacknowledged events, oldest first."""
        ...

    def outbox(self, conversation: str) -> AsyncIterator[Reply | Done]:
        """Iterate over the unacknowledged events of a conversation, in order.

        Events that an earlier server may have passed on are marked ``redelivered``.
        """
        ...

    async def find_conversation(self, conversation: str) -> ConversationFound | None:
        """Find the owner of an open, suspended or retained conversation; None for any other."""
        ...

    async def discard(self, delivery: str) -> bool:
        """Remove a dead letter from the list; its records stay. False for an unknown id.

        Raises EngineError.
        """
        ...

    async def find_named(self, name: str) -> str | None:
        """Find the conversation with a name of its principal's, or None. Raises EngineError."""
        ...

    async def give_name(self, name: str, conversation: str, at: float) -> str:
        """Name a new conversation by its principal's own id, or find the one that has the name.

        A name is deleted with its conversation, or after a while if that never began.

        Args:
            name: a digest, of principal and id.
            conversation: the id that a new conversation would have.
            at: in seconds since the epoch.

        Returns: the id of the conversation that has the name from now on. Raises EngineError.
        """
        ...

    async def read_events(
        self, conversation: str, after: EventPlace, most: int, *, gaps: bool = False
    ) -> Sequence[Reply | Done]:
        """Read a page of a conversation's events after a place, acknowledged or not, in order.

        The cost depends only on the events after the place.

        Args:
            conversation: its id, known to ``find_conversation``.
            after: the place; UNDECIDED begins with the earliest stored event.
            most: greatest number of events. Their messages have at most PAGE bytes, except for a single larger one. An
                empty result is the end.
            gaps: return the stored events, which include every unacknowledged one, despite missing events before them.

        Raises ForgottenError when events after the place are no longer stored, LookupError for an unknown conversation.
        """
        ...

    async def receipt(self, conversation: str, name: str) -> Receipt | None:
        """Find the receipt for a key in an open or closed conversation, or None."""
        ...

    def read_request_events(self, conversation: str, request: str) -> AsyncIterator[Reply | Done]:
        """Iterate over all events of a request with a key, acknowledged or not, in order.

        Acknowledged ones, and those that the outbox marks, are marked ``redelivered``.
        """
        ...

    def acknowledge(self, conversation: str, place: EventPlace) -> None:
        """Note that a gateway has passed on the event at a place.

        Not awaited: after a crash the event may be redelivered.
        """
        ...

    def confirm(self, conversation: str, place: EventPlace) -> None:
        """Note that its principal has every event up to a place. Not awaited."""
        ...

    def abandon(self, conversation: str) -> None:
        """Note that a gateway needs no event emitted so far. Not awaited."""
        ...

    # Conversations that another process has

    async def hand_in(self, arrival: Arrival) -> asyncio.Future[Fate]:
        """Store an arrival for the present or next owner of its conversation; returns once it is stored.

        Arrivals with the same id count once.

        Returns: the future of its fate, cancelled if the engine closes first. Raises EngineError.
        """
        ...

    def arrivals(self) -> AsyncIterator[Arrival]:
        """Iterate over arrivals for conversations of this process, in order for each, until the engine closes.

        An unsettled arrival may come again, and does when its conversation is lost and claimed again. An unclaimed
        conversation is claimed for its arrival; an arrival for an ended one comes to any process, which rejects it.
        """
        ...

    def settle(self, arrival: Arrival, fate: Fate) -> None:
        """Store the fate of an arrival after its step is committed. Not awaited.

        If this is lost, the arrival comes again to the owner of the conversation.
        """
        ...

    def news(self, wanted: Callable[[], Collection[str]]) -> AsyncIterator[News]:
        """Iterate over news of conversations of other processes, in order for each; see ``read_events``.

        Covers ``wanted``, which is called repeatedly, and conversations that begin or cease to wait for a person. A
        newly wanted one is reported at once, and any may be reported too often. Ends at once without other processes.
        """
        ...

    def exclusive(self, name: str) -> AbstractAsyncContextManager[None]:
        """Hold a lock shared by all processes. Raises EngineError.

        A process presumed dead loses it without notice, so it gives order, not safety.
        """
        ...
