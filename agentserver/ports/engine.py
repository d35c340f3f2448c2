"""The seam to where conversations are kept.

Owns the needs that the pump has of an engine. Refuses to hold any implementation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
    from types import TracebackType

    from agentserver.core.messages import Done, EventPlace, Reply
    from agentserver.core.receipts import Receipt
    from agentserver.core.records.outcome import Outcome
    from agentserver.core.state.conversation import Conversation
    from agentserver.core.state.elapsed import Calendar
    from agentserver.ports.ingress import ConversationFound
    from agentserver.ports.people import Answers
    from agentserver.ports.reading import EngineReader

T = TypeVar("T")

PAGE = 262_144
"""Bytes of messages that ``Engine.left`` gives at once."""


class Past(NamedTuple):
    """The end of the server before, as far as it is known.

    Args:
        running: ids of the deliveries that were worked on; none after an end that was no delivery's fault.
        held: the one that held the event loop until the process was ended for it; empty for none.
        ends: suspects that are not acquitted, and how often the process ended while each ran alone.
    """

    running: frozenset[str]
    held: str
    ends: Mapping[str, int]


NO_PAST = Past(frozenset(), "", {})


class Marks(Protocol):
    """Keeps for the next server what is being worked on. Nothing here raises; only ``past`` and ``begin`` wait."""

    async def past(self) -> Past:
        """The end of the server before; NO_PAST when that cannot be read."""
        ...

    async def begin(self, suspects: Mapping[str, int], calls: int) -> None:
        """Keep the suspects with their ends for good, and make room for so many calls at once."""
        ...

    def enter(self, delivery: str) -> int:
        """Mark a delivery; gives the slot to ``leave``."""
        ...

    def leave(self, slot: int) -> None:
        """Clear a mark."""
        ...

    def acquit(self, delivery: str) -> None:
        """Forget a suspect."""
        ...

    def hold(self, delivery: str) -> None:
        """The process is about to be ended, because this one has held the event loop for too long."""
        ...

    def end(self) -> None:
        """The end that comes now is no delivery's fault. May be called from any thread."""
        ...


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

    def commit(self, outcome: Outcome) -> Awaitable[None]:
        """Make an outcome permanent, whole or not at all. Commits of one conversation come one after the other.

        A coroutine, or a future of the loop: then the commit goes on by itself, and no worker waits for it.

        The key of an outside message is kept with it, and nothing is committed under a key of that name again.

        Raises ConflictError when the stored conversation is not of version ``outcome.before``, RepeatedError when the
        key is there, UnfitError when this outcome cannot be kept, EngineError when nothing can be kept at present.
        """
        ...

    async def load(self, conversation: str) -> Conversation | None:
        """The conversation as last committed; None when it is unknown, closed or set aside.

        Raises DamagedError when it cannot be read.
        """
        ...

    async def set_aside(self, conversation: str, reason: str, at: float) -> tuple[Reply | Done, ...]:
        """Let an open conversation, which may be illegible, go on no more; gives what is told of its requests.

        It is kept as it is and counts as closed, in every other way, until an operator puts it back.

        Args:
            conversation: its id.
            reason: why it cannot go on.
            at: in seconds since the epoch.
        """
        ...

    def active(self) -> AsyncIterator[str]:
        """Open conversations of which a delivery was committed and not consumed: what a restart takes up again."""
        ...

    def open_conversations(self) -> AsyncIterator[tuple[str, str]]:
        """Each open conversation with its principal."""
        ...

    def idle(self, before: float) -> AsyncIterator[str]:
        """Open conversations in which nothing has happened since, in seconds since the epoch."""
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

    async def standing(self, conversation: str) -> ConversationFound | None:
        """Whose a conversation is that is open, set aside, or closed and kept; None for any other."""
        ...

    async def discard(self, delivery: str) -> bool:
        """Take a dead letter off the list; what is recorded of it stays. False when there is none of that id.

        Raises EngineError.
        """
        ...

    async def claimed(self, name: str) -> str | None:
        """The conversation that has a name of its principal's own; None when none has it. Raises EngineError."""
        ...

    async def claim(self, name: str, conversation: str, at: float) -> str:
        """Give a conversation that is about to begin the name of its principal's own id, or find the one that has it.

        A name goes with its conversation; one whose conversation never began may go with time.

        Args:
            name: a digest, of principal and id.
            conversation: the id that a new conversation would have.
            at: in seconds since the epoch.

        Returns: the id of the conversation that has the name from now on. Raises EngineError.
        """
        ...

    async def left(
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

    def told(self, conversation: str, request: str) -> AsyncIterator[Reply | Done]:
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
