"""The seam to where conversations are kept.

Owns the needs that the pump has of an engine. Refuses to hold any implementation.
"""

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
"""Bytes of messages that ``Engine.left`` gives at once."""


class Engine(Protocol):
    """Keeps conversations and their deliveries. What it promises is written in ``engines/conformance/suite.py``."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None: ...

    @property
    def marks(self) -> Marks | None:
        """The marks of what is worked on; None when nothing outlives the process."""
        ...

    @property
    def prompt(self) -> bool:
        """True when a commit is usually done without waiting. One that waits opens no cancel scope before it does."""
        ...

    @property
    def durable(self) -> bool:
        """True when what was committed outlives the process."""
        ...

    @property
    def answers(self) -> Answers | None:
        """The place where other processes leave the answers of people; None when there is none."""
        ...

    async def read(self, work: Callable[[EngineReader], T]) -> T:
        """Do some reading for operators, where it does not hold up the event loop for a file.

        Args:
            work: is given a reader for as long as it runs; what it returns must not need the reader.

        Raises EngineError, and what ``work`` raises.
        """
        ...

    # Claims

    @property
    def shared(self) -> bool:
        """True where other processes work on the same storage. An engine that is not shared has every conversation."""
        ...

    def current_claim(self, conversation: str) -> Claim | None:
        """The claim that this process has on a conversation, from memory; None when it has none.

        It has none after the commit that closes the conversation, nor after one that was fenced. An engine that is not
        shared gives its one claim for every id.
        """
        ...

    async def claim(self, conversation: str) -> Claim | None:
        """Claim a conversation that belongs to nobody, has rested long enough, or is this process's already.

        Returns: None while another process has it, and while deliveries of an earlier owner are queued in it or wait
        for a person: such a conversation is gained later (``changes``), by this process or another. Raises EngineError.
        """
        ...

    def begin_claim(self, conversation: str) -> Claim:
        """Claim a conversation that begins here: its first commit keeps the claim, or raises FencedError.

        One that never begins is forgotten with ``release``.
        """
        ...

    def changes(self) -> AsyncIterator[GainedClaims | LostClaims]:
        """The claims that come and go other than by ``claim`` and ``release``: asked for once.

        The first is a ``GainedClaims``, perhaps empty, of what is to be taken up at the start. ``held`` is newer: a
        change that it contradicts is out of date. Raises EngineError when this process has lost the right to work.
        """
        ...

    async def release(self, conversations: Collection[str]) -> None:
        """Give back conversations in which nothing waits; those with unread arrivals stay held, and these come.

        Not held any more from the moment of the call on, except for those that stay. Raises EngineError.
        """
        ...

    async def give_up(self) -> None:
        """Give back everything, on purpose: other processes take it without waiting. Nothing is claimed after it.

        Commits that wait come to their end, in seconds, whether or not they are kept. Raises EngineError.
        """
        ...

    # Work

    def commit(self, claim: Claim, outcome: Outcome) -> Awaitable[None]:
        """Make an outcome permanent, whole or not at all. Commits of one conversation come one after the other.

        A coroutine, or a future of the loop: then the commit goes on by itself, and no worker waits for it.

        The key of an outside message is kept with it, and nothing is committed under a key of that name again.

        Args:
            claim: the one under which the outcome was decided.
            outcome: of one step.

        Raises FencedError when the claim is lost, ConflictError when the stored conversation is not of version
        ``outcome.before``, RepeatedError when the key is there, UnfitError when this outcome cannot be kept,
        EngineError when nothing can be kept at present.
        """
        ...

    async def load(self, conversation: str) -> Conversation | None:
        """The conversation as last committed; None when it is unknown, closed or set aside.

        Raises DamagedError when it cannot be read.
        """
        ...

    async def suspend(self, conversation: str, reason: str, at: float) -> tuple[Reply | Done, ...]:
        """Let an open conversation, which may be illegible, go on no more; gives what is told of its requests.

        It is kept as it is and counts as closed, in every other way, until an operator puts it back.

        Args:
            conversation: its id.
            reason: why it cannot go on.
            at: in seconds since the epoch.
        """
        ...

    def open_conversations(self) -> AsyncIterator[tuple[str, str]]:
        """The open conversations that the pump counts at its start, each with its principal.

        All of an engine that is not shared, none of a shared one (``open_count``).
        """
        ...

    async def open_count(self, principal: str) -> int | None:
        """Open conversations of a principal, over all processes; None where the pump's own count is whole.

        Raises EngineError.
        """
        ...

    def idle(self, before: float) -> AsyncIterator[str]:
        """Open conversations that have not changed since, in seconds since the epoch, and that no other process has."""
        ...

    async def expire(self, now: float, calendar: Calendar = ...) -> int:
        """Forget conversations that were closed longer ago than this engine keeps them; gives how many.

        Args:
            now: what the clock says, in seconds since the epoch.
            calendar: what is known of the clock.
        """
        ...

    async def calendar(self) -> Calendar:
        """The calendar that an earlier server has kept, as far as it is known."""
        ...

    async def keep_calendar(self, calendar: Calendar) -> None:
        """Keep the calendar for the servers to come. Raises EngineError."""
        ...

    def conversations_of(self, principal: str) -> AsyncIterator[str]:
        """The principal's conversations that are open or of which something was not acknowledged, oldest first."""
        ...

    def outbox(self, conversation: str) -> AsyncIterator[Reply | Done]:
        """The events that left the conversation and were not acknowledged, in order.

        What may have been passed on by a server that is gone is marked ``redelivered``.
        """
        ...

    async def find_conversation(self, conversation: str) -> ConversationFound | None:
        """The owner of a conversation that is open, set aside, or closed and kept; None for any other."""
        ...

    async def discard(self, delivery: str) -> bool:
        """Take a dead letter off the list; what is recorded of it stays. False when there is none of that id.

        Raises EngineError.
        """
        ...

    async def find_named(self, name: str) -> str | None:
        """The conversation that has a name of its principal's own; None when none has it. Raises EngineError."""
        ...

    async def give_name(self, name: str, conversation: str, at: float) -> str:
        """Give a conversation that is about to begin the name of its principal's own id, or find the one that has it.

        A name goes with its conversation; one whose conversation never began may go with time.

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
        """The events that left a conversation after a place, acknowledged or not, in order; the first of them.

        Of a conversation that is kept each event is, or this says that it is not. What is given costs as much as there
        is after the place, however much there is before it.

        Args:
            conversation: its id, of one that ``standing`` knows.
            after: the place; UNDECIDED begins with the earliest that is kept.
            most: how many events at most; and no more bytes of messages than PAGE, but one event at least. An empty
                result says that there is no more.
            gaps: give what is kept though something before it is not, in place of the ForgottenError. What was not
                acknowledged is then among it.

        Raises ForgottenError when something that left after the place is not kept any more, LookupError when the
        conversation is not.
        """
        ...

    async def receipt(self, conversation: str, name: str) -> Receipt | None:
        """The receipt of a commit in a conversation, open or closed, under a key of this name; None without one."""
        ...

    def read_request_events(self, conversation: str, request: str) -> AsyncIterator[Reply | Done]:
        """Everything that left for a request with a key, in order, whether or not it was acknowledged.

        What was acknowledged, and what the outbox would mark, is marked ``redelivered``.
        """
        ...

    def acknowledge(self, conversation: str, place: EventPlace) -> None:
        """A gateway has passed on the event at this place.

        Not waited for: after a crash it may be redelivered all the same.
        """
        ...

    def confirm(self, conversation: str, place: EventPlace) -> None:
        """Its principal has taken everything up to a place. Not waited for either."""
        ...

    def abandon(self, conversation: str) -> None:
        """A gateway wants nothing of what has left so far. Not waited for either."""
        ...

    # Conversations that another process has

    async def hand_in(self, arrival: Arrival) -> asyncio.Future[Fate]:
        """Keep an arrival for the process that has its conversation, or will have it; returns once it is kept.

        What is handed in under one id is one arrival, however often it is.

        Returns: the future of its fate, which is cancelled when the engine closes before. Raises EngineError.
        """
        ...

    def arrivals(self) -> AsyncIterator[Arrival]:
        """Everything handed in for conversations of this process, in order for each; ends when the engine closes.

        An arrival that was not settled may be given again, and is when its conversation was lost and is claimed again.
        A conversation of nobody for which something is handed in is claimed for it; what is handed in for one that is
        over is given to any process, which says so.
        """
        ...

    def settle(self, arrival: Arrival, fate: Fate) -> None:
        """Keep what became of an arrival, whose step is committed. Not waited for.

        Where this is not kept the arrival is given again, to the process that has the conversation then.
        """
        ...

    def news(self, wanted: Callable[[], Collection[str]]) -> AsyncIterator[News]:
        """News of conversations that this process does not have, in order for each: ``left`` gives what has left them.

        Those of ``wanted``, which is asked again and again, and each that begins or ceases to wait for a person. One
        that was not wanted before is named at once, and any may be named more often than necessary. Ends at once where
        there is no other process.
        """
        ...

    def exclusive(self, name: str) -> AbstractAsyncContextManager[None]:
        """Be the only one, among all processes, that is inside under a name; waits for that. Raises EngineError.

        A process that is taken for dead is inside no more, and is not informed: it is for order, not for safety.
        """
        ...
