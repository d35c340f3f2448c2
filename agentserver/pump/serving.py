"""Methods of a server that gateways call. A server that is not running accepts nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.core.messages import UNDECIDED
from agentserver.ports import Submitted, Unkept, UnkeptError
from agentserver.pump.watches import nobody

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from agentserver.core.messages import Done, EventPlace, Progress, Reply
    from agentserver.core.records.audit import AuditRecord
    from agentserver.core.state.principals import Principal
    from agentserver.ports import ConversationFound, Ended, Lagged
    from agentserver.pump.handle import ServerHandle
    from agentserver.pump.pump import Pump


class Serving:
    """A server's methods for gateways. What a gateway may name is looked up anew by each: none has to hold anything."""

    _pump: Pump | None

    async def open(
        self,
        principal: Principal | str,
        key: str | None = None,
        *,
        most: int | None = None,
        kept: bool = False,
        door: str = "",
    ) -> ServerHandle:
        """Open a conversation for a principal whom the gateway has authenticated.

        Its trust, and whom it may address, stay as they are now for as long as the conversation lasts. A bare name is
        that of one who gives orders, to every listener.

        Args:
            principal: whose it is.
            key: an id of the principal's own, of 1 to 512 characters. The same id gives the same conversation for as
                long as that is kept, also when it is over. A gateway that had it before is detached.
            most: conversations that this principal may have open, this one too; None for as many as everybody.
            kept: whether the opening is committed before this returns, for a gateway that tells its id to others.
                Otherwise the first message commits it. Where several servers share a storage it always is.
            door: the name of a gateway that comes back to its own conversations alone (``left_over``); no ``key`` then.

        Raises ValueError when the name is not a principal's to bear, one of those whom it may address is no listener,
        or the key is none; QuotaError when the principal has as many open as it may; UnkeptError, a RuntimeError, when
        the server is not running, or the key or the opening cannot be kept.
        """
        return await self._running.open(principal, key, most, kept=kept, door=door)

    async def standing(self, principal: str | None, conversation: str) -> ConversationFound:
        """The owner of a conversation, and whether it is over. Cheap; a gateway asks before it begins an answer.

        Raises LookupError alike when it is unknown and when it is another principal's, whose are all for None, an
        operator. So do the methods below. EngineError when the engine cannot tell at present.
        """
        return await self._running.entrance.standing(principal, conversation)

    async def submit(
        self,
        principal: str,
        conversation: str,
        data: bytes,
        to: str | None = None,
        *,
        request: str | None = None,
    ) -> Submitted:
        """Hand in a message for a conversation that the gateway need not hold. Takes what ``send`` of a handle does.

        Raises LookupError, OtherMessageError, and ValueError when ``request`` is no id.
        """
        if self._pump is None:
            return Submitted("", Unkept.STOPPING)
        return await self._pump.entrance.submit(principal, conversation, data, to, request)

    async def find_answer(self, principal: str, conversation: str, request: str) -> Reply | Done | None:
        """Find the first reply to a message sent under an id of its sender's, or its end; None while it has none.

        Raises LookupError and EngineError.
        """
        return await self._running.entrance.find_answer(principal, conversation, request)

    def watch(
        self,
        principal: str | None,
        conversation: str,
        after: EventPlace = UNDECIDED,
        caught_up: Callable[[], None] = nobody,
    ) -> AsyncIterator[Reply | Done | Progress | Ended]:
        """Everything that has left a conversation after a place, and what leaves it from now on; an Ended at the end.

        Any number may watch at once. Nothing counts as taken by it: see ``confirm``. Without a place it begins with the
        earliest event that is kept. ``caught_up`` is called when all that had left by then was given, and may be called
        again. Close the iterator (``contextlib.aclosing``) to stop before the end.

        Raises LookupError, at the first item.
        """
        return self._running.entrance.watch(principal, conversation, after, caught_up)

    async def confirm(self, principal: str, conversation: str, place: EventPlace) -> None:
        """Count everything up to a place as taken by the principal. Raises LookupError."""
        await self._running.entrance.confirm(principal, conversation, place)

    async def cancel(self, principal: str | None, conversation: str, request: str, *, by: str = "") -> bool:
        """End one request, with all that runs for it. False when it is at rest, or unknown. Raises LookupError.

        Args:
            principal: whose it is, who is told that it has come to rest; None for an operator, of whom the principal is
                told ``denied``.
            conversation: its id.
            request: the server's id of the request.
            by: the operator, for the record.
        """
        return await self._running.entrance.cancel(principal, conversation, request, by)

    async def end(self, principal: str | None, conversation: str, *, by: str = "") -> None:
        """End a conversation, cancelling all that runs in it. One that is over stays so. Raises LookupError.

        A principal that ends it wants nothing more of what has left; what an operator ends is kept for its principal.
        """
        await self._running.entrance.end(principal, conversation, by)

    def records(self, principal: str | None = None) -> AsyncIterator[tuple[AuditRecord, ...] | Lagged]:
        """The records of each step from now on, of one principal's conversations or of all, until the server stops.

        Steps that a reader was too slow for are counted in place by a Lagged.
        """
        return self._running.entrance.stream.read(principal)

    async def requeue(self, delivery: str, by: str) -> str:
        """Queue a dead letter again; gives the conversation in which it then is.

        While its thread lives it is queued there. Otherwise it becomes a request of the same principal in a
        conversation of its own, and its words are no orders.

        Args:
            delivery: its id.
            by: the operator, for the record.

        Raises LookupError when there is no such dead letter or it may not go again, EngineError.
        """
        return await self._running.entrance.letters.requeue(delivery, by)

    async def discard(self, delivery: str) -> None:
        """Take a dead letter off the list; what is recorded of it stays. Raises LookupError and EngineError."""
        await self._running.entrance.letters.discard(delivery)

    @property
    def _running(self) -> Pump:
        if self._pump is None:
            raise UnkeptError(Unkept.STOPPING)
        return self._pump

    async def left_over(self, principal: str, door: str = "") -> tuple[str, ...]:
        """The principal's conversations that an earlier server left and that can be resumed, oldest first.

        With ``door`` only those that were opened with it.
        """
        return () if self._pump is None else await self._pump.conversations_of(principal, door)

    async def resume(self, principal: str, conversation: str) -> ServerHandle:
        """Come back to a conversation: what left it and was not taken comes first in its events.

        Raises LookupError when the principal has no such conversation to resume.
        """
        return await self._running.resume(principal, conversation)
