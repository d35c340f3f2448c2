"""Methods of a server that gateways call. A server that is not running accepts nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.core.messages import UNDECIDED
from agentserver.ports import NotStoredError, RejectReason, SubmitResult
from agentserver.pump.watches import ignore_catch_up

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from agentserver.core.messages import Delta, Done, EventPlace, Progress, Reply
    from agentserver.core.records.audit import AuditRecord
    from agentserver.core.state.principals import Principal
    from agentserver.ports import ConversationFound, RecordGap, WatchStop
    from agentserver.pump.handle import ServerHandle
    from agentserver.pump.pump import Pump


class ServerIngress:
    """Methods of a server for gateways. Each looks up the conversation that it is given: no state is required."""

    _pump: Pump | None

    async def open(
        self,
        principal: Principal | str,
        key: str | None = None,
        *,
        maximum: int | None = None,
        committed: bool = False,
        door: str = "",
    ) -> ServerHandle:
        """Open a conversation for a principal that the gateway has authenticated.

        Its trust and its addressees stay as they are now while the conversation lasts. A bare name is a principal whose
        messages are orders, to every listener.

        Args:
            principal: whose it is.
            key: an idempotency key of the principal, 1 to 512 characters. The same key returns the same conversation
                while that is kept, also when it is closed. A gateway that held it before is detached.
            maximum: conversations that this principal may have open, this one included; None for the limit of all
                principals.
            committed: whether the opening is committed before this returns, for a gateway that passes its id on.
                Otherwise the first message commits it. On a shared engine it always is.
            door: name of a gateway that resumes only its own conversations (``left_over``); no ``key`` then.

        Raises ValueError if the name is unfit for a principal, an addressee is no listener, or the key is invalid;
        QuotaError if the principal has as many open as it may; NotStoredError, a RuntimeError, if the server is not
        running, or the key or the opening cannot be kept.
        """
        return await self._running.open(principal, key, maximum, committed=committed, door=door)

    async def find_conversation(self, principal: str | None, conversation: str) -> ConversationFound:
        """Return the owner of a conversation and whether it is closed. Cheap; a gateway asks before an answer begins.

        Raises LookupError if it is unknown or another principal's; None, an operator, may see all. The methods below do
        the same. EngineError if the engine cannot answer at present.
        """
        return await self._running.entrance.find_conversation(principal, conversation)

    async def find_opened(self, principal: str, key: str) -> ConversationFound | None:
        """Return the conversation that a principal opened with a key, also a closed one; None without one.

        Raises ValueError for an invalid key, and EngineError.
        """
        return await self._running.entrance.find_opened(principal, key)

    async def move_key(self, principal: str, conversation: str, key: str) -> str | None:
        """Let a further key find an open conversation. Returns the one that it found before.

        Raises LookupError if it is unknown or another principal's, ValueError for an invalid key, and EngineError.
        """
        return await self._running.entrance.move_key(principal, conversation, key)

    async def submit(
        self,
        principal: str,
        conversation: str,
        data: bytes,
        to: str | None = None,
        *,
        request: str | None = None,
    ) -> SubmitResult:
        """Submit a message for a conversation that the gateway need not hold. Takes what ``send`` of a handle does.

        Raises LookupError, MessageConflictError, and ValueError if ``request`` is no id.
        """
        if self._pump is None:
            return SubmitResult("", RejectReason.STOPPING)
        return await self._pump.entrance.submit(principal, conversation, data, to, request)

    async def find_events(self, principal: str, conversation: str, request: str) -> tuple[Reply | Done, ...]:
        """Return all stored events of a request that had a key, in order.

        ``request`` is the server's id, as ``submit`` returns it. Raises LookupError and EngineError.
        """
        return await self._running.entrance.find_events(principal, conversation, request)

    def watch(
        self,
        principal: str | None,
        conversation: str,
        after: EventPlace = UNDECIDED,
        caught_up: Callable[[], None] = ignore_catch_up,
        *,
        deltas: bool = False,
    ) -> AsyncIterator[Reply | Done | Progress | Delta | WatchStop]:
        """Yield every event of a conversation after a place, then new ones as they occur; an Ended at the end.

        Any number may watch at once. It acknowledges nothing: see ``confirm``. Without a place it begins with the
        earliest event that is kept. ``caught_up`` is called when all earlier events were yielded, possibly more than
        once. Close the iterator (``contextlib.aclosing``) to stop before the end.

        With ``deltas``, pieces of answers that are not yet committed come too, while this process owns the
        conversation. A slow watcher loses pieces, never events.

        Raises LookupError, at the first item.
        """
        return self._running.entrance.watch(principal, conversation, after, caught_up, deltas=deltas)

    async def first_event(
        self, principal: str, conversation: str, request: str, after: EventPlace
    ) -> Reply | Done | WatchStop:
        """Wait for the first reply of a request after a place, or its end; a WatchStop if the watch ends before.

        ``request`` is the server's id. Acknowledges nothing. Raises LookupError and EngineError.
        """
        return await self._running.entrance.first_event(principal, conversation, request, after)

    @property
    def answer_differences(self) -> int:
        """Streamed answers that differed from the committed ones."""
        return 0 if self._pump is None else self._pump.answers.differences

    async def confirm(self, principal: str, conversation: str, place: EventPlace) -> None:
        """Acknowledge everything up to a place for the principal. Raises LookupError."""
        await self._running.entrance.confirm(principal, conversation, place)

    async def cancel(self, principal: str | None, conversation: str, request: str, *, by: str = "") -> bool:
        """Cancel one request and everything that runs for it. Returns False if it is settled or unknown.

        Args:
            principal: whose it is, which is informed that it has settled; None for an operator, after whose
                cancellation the principal gets ``denied``.
            conversation: its id.
            request: the server's id of the request.
            by: the operator, for the record.

        Raises LookupError.
        """
        return await self._running.entrance.cancel(principal, conversation, request, by)

    async def end(self, principal: str | None, conversation: str, *, by: str = "") -> None:
        """Close a conversation, cancelling everything that runs in it. A closed one stays so. Raises LookupError.

        If its principal closes it, its events are discarded; if an operator does, they are kept for the principal.
        """
        await self._running.entrance.end(principal, conversation, by)

    def records(self, principal: str | None = None) -> AsyncIterator[tuple[AuditRecord, ...] | RecordGap]:
        """Yield the records of each later step, of one principal's conversations or of all, until the server stops.

        A RecordGap counts, in place, the steps for which a reader was too slow.
        """
        return self._running.entrance.stream.read(principal)

    async def requeue(self, delivery: str, by: str) -> str:
        """Queue a dead letter again. Returns its conversation.

        If its thread is still open it is queued there. Otherwise it becomes a request of the same principal in a new
        conversation, and its text is no order.

        Args:
            delivery: its id.
            by: the operator, for the record.

        Raises LookupError if there is no such dead letter or it may not be requeued, EngineError.
        """
        return await self._running.entrance.letters.requeue(delivery, by)

    async def discard(self, delivery: str, by: str) -> None:
        """Remove a dead letter from the list, in the name of an operator; its records stay.

        Raises LookupError and EngineError.
        """
        await self._running.entrance.letters.discard(delivery, by)

    @property
    def _running(self) -> Pump:
        if self._pump is None:
            raise NotStoredError(RejectReason.STOPPING)
        return self._pump

    async def left_over(self, principal: str, door: str = "") -> tuple[str, ...]:
        """Return the principal's conversations of an earlier server that can be resumed, oldest first.

        With ``door`` only those that were opened with it.
        """
        return () if self._pump is None else await self._pump.conversations_of(principal, door)

    async def resume(self, principal: str, conversation: str) -> ServerHandle:
        """Resume a conversation: its unacknowledged events come first.

        Raises LookupError if the principal has no such conversation.
        """
        return await self._running.resume(principal, conversation)
