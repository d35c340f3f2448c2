"""Protocol through which gateways use conversations, and its values."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from agentserver.core.messages import UNDECIDED

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from agentserver.contract import Code
    from agentserver.core.messages import Delta, Done, EffectVerdict, EventPlace, Progress, Reply
    from agentserver.core.records.audit import AuditRecord
    from agentserver.core.state.approvals import Approval, ApprovalAnswer
    from agentserver.core.state.conversation import Conversation
    from agentserver.core.state.principals import Principal
    from agentserver.ports.schedules import ScheduleOrder


class Approver(Protocol):
    """Display of the messages that wait for an approval. Without one they are denied.

    The answer comes back through the server's ``answer``, at any time.
    """

    def show(self, approval: Approval) -> None:
        """Show a waiting message. Must not block or raise."""


class Answers(Protocol):
    """Store of answers from people that another process has asked."""

    async def list_pending(self) -> Sequence[tuple[ApprovalAnswer, float]]:
        """List the answers, each with its time in seconds since the epoch. Raises EngineError."""

    async def list_verdicts(self) -> Sequence[EffectVerdict]:
        """List the verdicts of operators on external effects. Raises EngineError."""

    async def list_orders(self) -> Sequence[ScheduleOrder]:
        """List the orders of operators about schedules. Raises EngineError."""

    async def mark_ran(self, order: ScheduleOrder) -> None:
        """Note that the message of an order was sent, and forget earlier ones of its schedule. Raises EngineError."""

    async def drop(self, approvals: Sequence[str]) -> None:
        """Remove the answers to approvals, and the verdicts on effects, of these ids. Raises EngineError."""


class RejectReason(StrEnum):
    """Reasons why a message was not stored."""

    STOPPING = "stopping"  # the server is: another one, or a later one, may take it
    OVER = "over"  # the conversation is
    UNKEPT = "unkept"  # the engine cannot store it now, or does not know its id's fate


class SubmitResult(NamedTuple):
    """Result of submitting a message.

    Args:
        request: the server's id of the request.
        code: None if accepted; the Code of the SystemError that refuses it; or why it was not stored.
        again: whether the same message was submitted before under the sender's own id; all fields are then of the
            first one.
        after: a place before every event of this request.
    """

    request: str
    code: Code | RejectReason | None
    again: bool = False
    after: EventPlace = UNDECIDED


class WatchEnd(StrEnum):
    """Reasons why a watch ends."""

    CLOSED = "closed"  # the conversation has ended, and all its events were delivered
    LAGGED = "lagged"  # the watcher is too slow; resume with ``after``
    GONE = "gone"  # events after the given place are no longer stored; all after this one are
    STOPPING = "stopping"  # the server is


class WatchStop(NamedTuple):
    """Last item of a watch.

    Args:
        reason: why it ends.
        after: the place to resume from.
    """

    reason: WatchEnd
    after: EventPlace


class RecordGap(NamedTuple):
    """Gap in a stream of records: the reader was too slow for ``missed`` steps."""

    missed: int


class ConversationFound(NamedTuple):
    """Summary of a conversation for its gateway.

    Args:
        conversation: its id.
        principal: its owner.
        over: whether it has ended.
    """

    conversation: str
    principal: str
    over: bool


class ConversationHandle(Protocol):
    """Handle of one conversation for the gateway that opened it."""

    @property
    def id(self) -> str:
        """The conversation's id."""

    @property
    def over(self) -> bool:
        """True when the conversation has ended or the server stops."""

    async def send(self, data: bytes, to: str | None = None, *, request: str | None = None) -> SubmitResult:
        """Submit an envelope or a bare payload; returns once it is committed or refused.

        Args:
            data: the envelope or the payload.
            to: the listener it is for; None leaves it to the envelope or to the payload's root.
            request: an id of the sender's own, which counts in this conversation alone. The same message under the same
                id is the same request, however often it is sent.

        Raises MessageConflictError when another message was sent under ``request``, ValueError when it is no id.
        """

    def replies(
        self, data: bytes, to: str | None = None, *, request: str | None = None
    ) -> AsyncIterator[Reply]:
        """Submit a message as ``send`` does, and iterate over its replies until its request ends.

        Replies to an earlier submission of the same request come again, marked ``redelivered``.

        Raises NotStoredError when the message was not stored.
        """

    def events(self) -> AsyncIterator[Reply | Done]:
        """Iterate over the events that ``replies`` does not take, until the conversation closes.

        An event is acknowledged when its task asks for the next one or leaves.
        """

    def progress(self) -> AsyncIterator[Progress]:
        """Iterate over later progress reports; a slow reader loses the older ones."""

    def detach(self) -> None:
        """Leave without ending the conversation; later events are stored until its principal resumes it."""

    async def close(self) -> None:
        """End the conversation and cancel its invocations."""


class Ingress(Protocol):
    """Entrance for gateways, which have authenticated the principal.

    A conversation of another principal is indistinguishable from an unknown one: both raise LookupError after the same
    work. A principal of None is an operator, who may use every conversation; the scope of a tenant
    (core/state/principals.py) is an operator of the tenant's conversations.
    """

    async def open(
        self,
        principal: Principal | str,
        key: str | None = None,
        *,
        maximum: int | None = None,
        committed: bool = False,
        door: str = "",
    ) -> ConversationHandle:
        """Open a conversation and store the principal's rights with it. A bare name has full rights.

        Args:
            principal: its owner.
            key: an id of the principal's own. The same id returns the same conversation while that is stored, even
                after its end. A gateway that had it before is detached.
            maximum: greatest number of open conversations of this principal, including this one; None for the default.
            committed: commit the opening before returning, for a gateway that shares the id; else the first
                message does.
            door: the name of a gateway that resumes only its own conversations; excludes ``key``.

        Raises ValueError for an invalid name, target or key, QuotaError when the principal has too many open, and
        NotStoredError when none can be opened now.
        """

    def conversation(self, conversation: str) -> Conversation | None:
        """Return the present state of a conversation, for operators; None when it is unknown or has ended."""

    async def find_conversation(self, principal: str | None, conversation: str) -> ConversationFound:
        """Find the owner of a conversation and whether it has ended. Raises LookupError."""

    async def find_opened(self, principal: str, key: str) -> ConversationFound | None:
        """Find the conversation that a principal opened with a key, also an ended one; None without one.

        Raises ValueError for an invalid key, and EngineError.
        """

    async def move_key(self, principal: str, conversation: str, key: str) -> str | None:
        """Let a further key find an open conversation. Returns the one that it found before; None without one.

        Raises LookupError, ValueError for an invalid key, and EngineError.
        """

    async def submit(
        self,
        principal: str,
        conversation: str,
        data: bytes,
        to: str | None = None,
        *,
        request: str | None = None,
    ) -> SubmitResult:
        """Submit a message to a conversation without a handle. The arguments are those of ``ConversationHandle.send``.

        Raises LookupError, MessageConflictError, and ValueError when ``request`` is no id.
        """

    async def find_events(self, principal: str, conversation: str, request: str) -> tuple[Reply | Done, ...]:
        """Find all stored events of a request so far, in order. ``request`` is the server's id of it.

        Raises LookupError and EngineError.
        """

    def watch(
        self,
        principal: str | None,
        conversation: str,
        after: EventPlace = UNDECIDED,
        caught_up: Callable[[], None] = ...,
        *,
        deltas: bool = False,
    ) -> AsyncIterator[Reply | Done | Progress | Delta | WatchStop]:
        """Iterate over the events after a place, past and future; the last item is a WatchStop.

        Many may watch at once, each with a bounded queue. Watching acknowledges nothing: see ``confirm``. By default it
        begins with the earliest stored event. ``caught_up`` is called after the past events, and may be called again.

        With ``deltas``, pieces of answers that are not yet committed come too, while this process owns the
        conversation. A slow watcher loses pieces, never events.

        Raises LookupError, at the first item.
        """

    async def first_event(
        self, principal: str, conversation: str, request: str, after: EventPlace
    ) -> Reply | Done | WatchStop:
        """Wait for the first reply of a request after a place, or its end; a WatchStop if the watch ends before.

        ``request`` is the server's id. Acknowledges nothing. Raises LookupError and EngineError.
        """

    async def confirm(self, principal: str, conversation: str, place: EventPlace) -> None:
        """Acknowledge every event up to a place for the principal. Raises LookupError."""

    async def cancel(self, principal: str | None, conversation: str, request: str, *, by: str = "") -> bool:
        """Cancel one request and its invocations. False when it has ended or is unknown.

        Args:
            principal: its owner; None for an operator.
            conversation: its id.
            request: the server's id of the request.
            by: the operator, for the record.

        Raises LookupError, EngineError, and its subclass NoOutcomeError when the end may still come.
        """

    async def end(self, principal: str | None, conversation: str, *, by: str = "") -> None:
        """End a conversation and cancel its invocations; no effect if it has ended.

        This discards its events if the principal ends it, and keeps them for the principal if an operator does.

        Raises LookupError, EngineError, and its subclass NoOutcomeError when the end may still come.
        """

    def records(self, principal: str | None = None) -> AsyncIterator[tuple[AuditRecord, ...] | RecordGap]:
        """Iterate over the records of later steps, of one principal's conversations or of all, until the server stops.

        A RecordGap counts the steps that a slow reader missed.
        """
