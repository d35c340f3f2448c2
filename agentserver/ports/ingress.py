"""The seam to gateways, and the values that cross it.

Owns what a gateway may do with conversations. Refuses to hold any implementation.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from agentserver.core.messages import UNDECIDED

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from agentserver.contract import Code
    from agentserver.core.messages import Done, EventPlace, Progress, Reply
    from agentserver.core.records.audit import AuditRecord
    from agentserver.core.state.conversation import Conversation
    from agentserver.core.state.principals import Principal


class RejectReason(StrEnum):
    """The reasons why nothing of a message was kept."""

    STOPPING = "stopping"  # the server is: another one, or a later one, may take it
    OVER = "over"  # the conversation is
    UNKEPT = "unkept"  # the engine cannot keep it at present, or does not say what became of its id


class SubmitResult(NamedTuple):
    """The fate of a message that was handed in.

    Args:
        request: the server's id of the request that it is; of one that was not kept nothing will come.
        code: None for an accepted one; the Code of the SystemError that answers it for one that was refused; or why it
            was not kept.
        again: whether the same message was there already, under the sender's own id: then all of this is the first's.
        after: a place in the conversation that everything which leaves for this request comes after.
    """

    request: str
    code: Code | RejectReason | None
    again: bool = False
    after: EventPlace = UNDECIDED


class WatchEnd(StrEnum):
    """The reasons why a watch ends."""

    CLOSED = "closed"  # the conversation is over, and all that left it was given
    LAGGED = "lagged"  # more has left than waits for a watcher; come back with ``after``
    GONE = (
        "gone"  # what left after the place that was given is not kept any more; after this one everything is
    )
    STOPPING = "stopping"  # the server is


class WatchStop(NamedTuple):
    """The last item of a watch.

    Args:
        reason: why it ends.
        after: the place to come back with.
    """

    reason: WatchEnd
    after: EventPlace


class RecordGap(NamedTuple):
    """Steps that a reader of records was too slow for. ``missed``: how many."""

    missed: int


class ConversationFound(NamedTuple):
    """A conversation as far as its gateway has to know it.

    Args:
        conversation: its id.
        principal: whose it is.
        over: whether it takes no message any more.
    """

    conversation: str
    principal: str
    over: bool


class ConversationHandle(Protocol):
    """One conversation, as the gateway that opened it sees it."""

    @property
    def id(self) -> str:
        """The conversation's id."""
        ...

    @property
    def over(self) -> bool:
        """True when nothing more comes of the conversation: it is over, or the server ends."""
        ...

    async def send(self, data: bytes, to: str | None = None, *, request: str | None = None) -> SubmitResult:
        """Hand in an envelope or a bare payload; gives what became of it, once it is committed or refused.

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

        Raises UnkeptError when nothing of the message was kept.
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
    """The door for gateways, which have authenticated the principal.

    A conversation is named by its id. Where a principal is named beside it, one of another principal's is no other than
    one that is unknown: LookupError is raised for both, after the same work. None names an operator, whose are all.
    """

    async def open(
        self,
        principal: Principal | str,
        key: str | None = None,
        *,
        most: int | None = None,
        kept: bool = False,
        door: str = "",
    ) -> ConversationHandle:
        """Open a conversation, with which the principal's rights are kept. A bare name gives orders, to every listener.

        Args:
            principal: whose it is.
            key: an id of the principal's own. The same id gives the same conversation for as long as that is kept, also
                when it is over. A gateway that had it before is detached.
            most: conversations that this principal may have open, this one too; None for as many as everybody.
            kept: whether the opening is committed before this returns, for a gateway that tells its id to others.
                Otherwise the first message commits it.
            door: the name of a gateway that comes back to its own conversations alone; no ``key`` then.

        Raises ValueError for a name, a target or a key that is not to be had, QuotaError when it has as many open as it
        may, UnkeptError when none can be opened now.
        """
        ...

    def conversation(self, conversation: str) -> Conversation | None:
        """A conversation as it stands, for operators; None when it is unknown or over."""
        ...

    async def find_conversation(self, principal: str | None, conversation: str) -> ConversationFound:
        """The owner of a conversation, and whether it is over. Raises LookupError."""
        ...

    async def submit(
        self,
        principal: str,
        conversation: str,
        data: bytes,
        to: str | None = None,
        *,
        request: str | None = None,
    ) -> SubmitResult:
        """Hand in a message for a conversation that this gateway need not hold. Takes what ``send`` of a handle does.

        Raises LookupError, OtherMessageError, and ValueError when ``request`` is no id.
        """
        ...

    async def find_answer(self, principal: str, conversation: str, request: str) -> Reply | Done | None:
        """Find the first reply to a message sent under an id of its sender's, or its end; None while it has none.

        Raises LookupError and EngineError.
        """
        ...

    def watch(
        self,
        principal: str | None,
        conversation: str,
        after: EventPlace = UNDECIDED,
        caught_up: Callable[[], None] = ...,
    ) -> AsyncIterator[Reply | Done | Progress | WatchStop]:
        """Everything that has left a conversation after a place, and what leaves it from now on; an Ended at the end.

        Any number may watch at once; for each a bounded number of events and bytes waits. Nothing counts as taken by
        it: see ``confirm``. Without a place it begins with the earliest event that is kept. ``caught_up`` is called
        when all that had left by then was given, and may be called again.

        Raises LookupError, at the first item.
        """
        ...

    async def confirm(self, principal: str, conversation: str, place: EventPlace) -> None:
        """Count everything up to a place as taken by the principal. Raises LookupError."""
        ...

    async def cancel(self, principal: str | None, conversation: str, request: str, *, by: str = "") -> bool:
        """End one request, with all that runs for it. False when it is at rest, or unknown.

        Args:
            principal: whose it is; None for an operator.
            conversation: its id.
            request: the server's id of the request.
            by: the operator, for the record.

        Raises LookupError, EngineError, and UnheardError of it where the end may come yet.
        """
        ...

    async def end(self, principal: str | None, conversation: str, *, by: str = "") -> None:
        """End a conversation, cancelling all that runs in it. One that is over stays so.

        A principal that ends it wants nothing more of what has left; what an operator ends is kept for its principal.

        Raises LookupError, EngineError, and UnheardError of it where the end may come yet.
        """
        ...

    def records(self, principal: str | None = None) -> AsyncIterator[tuple[AuditRecord, ...] | RecordGap]:
        """The records of each step from now on, of one principal's conversations or of all, until the server stops.

        Steps that a reader was too slow for are counted in place.
        """
        ...
