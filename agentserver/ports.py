"""The pump's needs of the world, as Protocols only.

Owns the seams: Engine, EngineReader, Clock, Ingress, Approver, Answers, Completer. Refuses to hold any implementation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, Self, TypeVar

from agentserver.completion import Completer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
    from types import TracebackType

    from agentserver.core.encoding.recorded import Aside, DeadLetter, RecordedConversation, Summary
    from agentserver.core.messages import Done, EventPlace, Moment, Progress, Reply
    from agentserver.core.receipts import Receipt
    from agentserver.core.records.outcome import Outcome
    from agentserver.core.state.approvals import Approval, ApprovalAnswer
    from agentserver.core.state.conversation import Conversation
    from agentserver.core.state.elapsed import Calendar
    from agentserver.core.state.principals import Principal

__all__ = [
    "NO_PAST", "Answers", "Approver", "Clock", "Completer", "ConflictError", "ConversationHandle",
    "DamagedError", "Engine", "EngineError", "EngineReader", "Ingress", "Marks", "OtherMessageError",
    "Past", "QuotaError", "RepeatedError", "UnfitError",
]  # fmt: skip

T = TypeVar("T")


class EngineError(Exception):
    """The engine could not commit, and kept nothing of the outcome."""


class QuotaError(RuntimeError):
    """The principal has as much of something as it may have. Others are not concerned."""


class ConflictError(EngineError):
    """The conversation has moved on since the outcome was decided: load it and decide again."""


class UnfitError(EngineError):
    """The outcome itself cannot be kept: the engine's answer to it stays the same."""


class DamagedError(EngineError):
    """A conversation cannot be read. The others can."""


class RepeatedError(EngineError):
    """A message is there already under the id that its sender gave this one: nothing of this one is kept."""

    def __init__(self, receipt: Receipt) -> None:
        super().__init__("a message is there already under this id of its sender's")
        self.receipt = receipt


class OtherMessageError(ValueError):
    """Another message is there already under this id of the sender's: nothing of this one is kept."""


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


class EngineReader(Protocol):
    """Gives operators what an engine has kept, as values. Synchronous; changes nothing.

    The tools of operators need no more of an engine: traces, replay, what-if, approvals, dead letters, lists.
    Each method raises UnreadableError (core/encoding/snapshot.py) for a conversation that is not what was written.
    """

    @property
    def recorded(self) -> bool:
        """True when steps are kept. Without them there is no replay, no dead letter and nothing that is closed."""
        ...

    def find(self, prefix: str) -> Sequence[str]:
        """The conversations whose ids begin so: at most 8 of them."""
        ...

    def conversations(self) -> Iterable[Summary]:
        """The conversations, the one that was touched last first."""
        ...

    def active(self) -> Sequence[str]:
        """The open conversations in which a delivery is queued, held or running, in the order of their opening."""
        ...

    def load(self, conversation: str) -> Conversation | None:
        """An open conversation as last committed; None when it is unknown, closed or set aside."""
        ...

    def approvals(self, conversation: str) -> Sequence[Approval]:
        """The messages of an open conversation that wait for a person."""
        ...

    def answers(self) -> Sequence[tuple[ApprovalAnswer, float]]:
        """The answers of people that no server has taken, each with its time in seconds since the epoch."""
        ...

    def recorded_conversation(self, conversation: str) -> RecordedConversation:
        """The steps of a conversation. Raises LookupError when it is unknown, UnrecordedError without steps."""
        ...

    def altered(self, recorded: RecordedConversation) -> int | None:
        """The first version whose step is not what was written; None when all are, or when nothing seals steps."""
        ...

    def dead(self) -> Sequence[DeadLetter]:
        """The dead letters, oldest first; those that were queued again or discarded are none."""
        ...

    def aside(self) -> Sequence[Aside]:
        """The conversations that are set aside and can be put back, oldest first."""
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

    def abandon(self, conversation: str) -> None:
        """A gateway wants nothing of what has left so far. Not waited for either."""
        ...


class Clock(Protocol):
    """The entrance of time and randomness."""

    def moment(self) -> Moment:
        """The present time with a fresh seed."""
        ...

    def steady(self) -> float:
        """Seconds, since some time or other, by a clock that cannot be set."""
        ...


class ConversationHandle(Protocol):
    """One conversation, as the gateway that opened it sees it."""

    @property
    def id(self) -> str:
        """The conversation's id."""
        ...

    async def send(self, data: bytes, to: str | None = None, *, request: str | None = None) -> str:
        """Hand in an envelope or a bare payload; gives its request's id once it is committed or refused.

        Args:
            data: the envelope or the payload.
            to: the listener it is for; None leaves it to the envelope or to the payload's root.
            request: an id of the sender's own, which counts in this conversation alone. The same message under the same
                id is the same request, however often it is sent.

        Raises OtherMessageError when another message was sent under ``request``, ValueError when it is no id.
        """
        ...

    def replies(
        self, data: bytes, to: str | None = None, *, request: str | None = None
    ) -> AsyncIterator[Reply]:
        """Hand in a message and give its replies as they come, until nothing more can. As ``send`` otherwise.

        Of a request that was made before, what it was answered comes again, marked ``redelivered``.
        """
        ...

    def events(self) -> AsyncIterator[Reply | Done]:
        """Everything that ``replies`` does not take, in order, until the conversation is closed.

        What it gives counts as taken when the task that took it comes back to the handle, or leaves.
        """
        ...

    def progress(self) -> AsyncIterator[Progress]:
        """Words of listeners on how far they are, from now on: shown or lost, and of many the latest wait."""
        ...

    def detach(self) -> None:
        """Go without ending the conversation: what still comes is kept until its principal resumes it."""
        ...

    async def close(self) -> None:
        """End the conversation, cancelling all that runs in it."""
        ...


class Ingress(Protocol):
    """The door for gateways, which have authenticated the principal."""

    async def open(self, principal: Principal | str) -> ConversationHandle:
        """Open a conversation, with which the principal's rights are kept. A bare name gives orders, to every listener.

        Raises ValueError for a name or a target that is not to be had, QuotaError when it has as many open as it may.
        """
        ...

    def conversation(self, conversation: str) -> Conversation | None:
        """A conversation as it stands, for operators; None when it is unknown or over."""
        ...


class Approver(Protocol):
    """Shows a person the messages that wait for an approval. Absent, the answer is no.

    The answer comes back through ``answer`` of the server that runs the conversations, at any time.
    """

    def show(self, approval: Approval) -> None:
        """A message waits. Must not block or raise."""
        ...


class Answers(Protocol):
    """The place where people leave answers without being shown the question by this process."""

    async def left(self) -> Sequence[tuple[ApprovalAnswer, float]]:
        """The answers that were left, each with its time in seconds since the epoch. Raises EngineError."""
        ...

    async def drop(self, approvals: Sequence[str]) -> None:
        """Forget the answers to these approvals: they were decided about. Raises EngineError."""
        ...
