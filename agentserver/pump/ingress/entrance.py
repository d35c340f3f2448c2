"""The entrance of gateways: conversations opened, found and ended, and the messages that come in.

Owns who may name a conversation, and what a gateway is told of a message. Refuses to decide anything about messages:
every decision is a call of the boundary.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from agentserver.core import receipts
from agentserver.core.messages import Cancelling
from agentserver.core.state.conversation import Conversation
from agentserver.ports import ConversationFound, EngineError, Submitted, Unkept, UnkeptError
from agentserver.pump.ingress.letters import DeadLetters
from agentserver.pump.ingress.records import RecordReaders
from agentserver.pump.ingress.watching import Watches
from agentserver.wire import envelope

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping

    from agentserver.core.messages import Done, EventPlace, Outside, Progress, Reply
    from agentserver.core.records.audit import AuditRecord
    from agentserver.core.state.principals import Principal
    from agentserver.ports import Clock, Ended, Engine, Lagged
    from agentserver.pump.boundary import Boundary
    from agentserver.pump.ingress.handle import ServerHandle
    from agentserver.pump.ingress.handles import Handles
    from agentserver.pump.turns.accounts import Accounts
    from agentserver.pump.turns.editions import Editions
    from agentserver.pump.turns.schedule import Door

logger = logging.getLogger("agentserver.pump")

OPERATOR = "an operator"
"""The one who has ended something, where the record is told no name."""


class Conversations(NamedTuple):
    """The conversations of a server.

    Args:
        live: those at work, as last committed.
        find: gives one from the engine, if it goes on.
        engine: where they are kept.
        accounts: the quotas of their principals.
    """

    live: MutableMapping[str, Conversation]
    find: Callable[[str], Awaitable[Conversation | None]]
    engine: Engine
    accounts: Accounts


class Entrance:
    """Lets gateways in.

    Args:
        editions: tells which principals there can be.
        conversations: those of the server.
        clock: time and randomness.
        boundary: decides and commits.
        door: where what comes in waits for its turn.
        handles: the conversations that gateways have.
    """

    def __init__(
        self,
        editions: Editions,
        conversations: Conversations,
        clock: Clock,
        boundary: Boundary,
        door: Door,
        handles: Handles,
    ) -> None:
        self._editions = editions
        self._live, self._find, self._engine, self._accounts = conversations
        self._clock, self._boundary = clock, boundary
        self._door, self._handles = door, handles
        self.watches = Watches(self._engine)
        self.readers = RecordReaders()
        self.letters = DeadLetters(self._engine, editions, clock, boundary, self._begin)

    # Conversations

    async def open(self, principal: Principal | str, key: str | None, most: int | None) -> ServerHandle:
        """Open a conversation, in which the principal keeps the rights that it has now, or find the one of this key.

        Raises ValueError when no principal can bear the name (core/state/principals.py), no envelope can carry it,
        one of those whom it may address is no listener, or the key is none; QuotaError when it has as many
        conversations open as it may, UnkeptError when the engine cannot keep the key.
        """
        conversation = Conversation.opened(principal, self._clock.moment())
        name, may = conversation.principal, conversation.rights.may
        self._editions.check(name, may)
        envelope.write(name, None, None, "")
        named = None if key is None else receipts.opening(name, key)
        await self._door.enter(name, conversation.id)
        if named is None:
            return self._begin(conversation, most)
        try:
            return await self._named(conversation, named, most)
        except EngineError as error:
            raise UnkeptError(Unkept.UNKEPT) from error

    def _begin(self, conversation: Conversation, most: int | None) -> ServerHandle:
        self._accounts.begin(conversation.id, conversation.principal, most)
        self._live[conversation.id] = conversation
        return self._handles.open(conversation.principal, conversation.id)

    async def _named(self, fresh: Conversation, name: str, most: int | None) -> ServerHandle:
        """The conversation that has a name. One that never began, before an earlier server ended, begins now."""
        known = await self._engine.claimed(name)
        if known is None:
            self._accounts.check(fresh.principal, most)
            known = await self._engine.claim(name, fresh.id, fresh.touched)
        begun = await self._find(known) is not None or await self._engine.standing(known) is not None
        if not begun and known not in self._live:
            return self._begin(fresh._replace(id=known), most)
        return await self._handles.take(fresh.principal, known)

    async def standing(self, principal: str | None, conversation: str) -> ConversationFound:
        """Whose a conversation is, and whether it is over.

        Raises LookupError when there is none, or it is another principal's; EngineError.
        """
        live = self._live.get(conversation)
        if live is not None and principal in {None, live.principal}:
            return ConversationFound(conversation, live.principal, over=False)
        found = await self._engine.standing(conversation)
        if found is None or principal not in {None, found.principal}:
            raise LookupError("no such conversation")
        return found

    async def end(self, principal: str | None, conversation: str, by: str) -> None:
        """End a conversation. Raises LookupError and EngineError."""
        standing = await self.standing(principal, conversation)
        if not standing.over:
            who = "its gateway" if principal is not None else by or OPERATOR
            await self._boundary.close(conversation, f"closed by {who}", patient=False)
        if principal is not None:
            self._handles.abandon(conversation)

    async def cancel(self, principal: str | None, conversation: str, request: str, by: str) -> bool:
        """End one request; False when it is at rest or unknown. Raises LookupError and EngineError."""
        await self.standing(principal, conversation)
        who = "" if principal is not None else by or OPERATOR
        return await self._boundary.cancel(conversation, Cancelling(request, who))

    async def confirm(self, principal: str, conversation: str, place: EventPlace) -> None:
        """Count everything up to a place as taken. Raises LookupError and EngineError."""
        await self.standing(principal, conversation)
        self._engine.confirm(conversation, place)

    def watch(
        self, principal: str | None, conversation: str, after: EventPlace
    ) -> AsyncIterator[Reply | Done | Progress | Ended]:
        """Everything after a place, as it leaves. Raises LookupError, and EngineError, at the first item."""
        return self.watches.events(conversation, after, partial(self.standing, principal, conversation))

    def records(self, principal: str | None) -> AsyncIterator[tuple[AuditRecord, ...] | Lagged]:
        """The records of each step from now on."""
        return self.readers.records(principal)

    # Messages

    async def submit(
        self, principal: str, conversation: str, data: bytes, to: str | None, own: str | None
    ) -> Submitted:
        """Hand in a message. Raises LookupError, OtherMessageError, and ValueError when ``own`` is no id."""
        outside = self._handles.outside(principal, conversation, data, to, own)
        try:
            await self.standing(principal, conversation)
            return await self._handles.submit(principal, conversation, outside)
        except EngineError as error:
            return unkept(outside, error)

    def stop(self) -> None:
        """The server stops: let everybody go who waits."""
        self._handles.stop()
        self.watches.stop()
        self.readers.stop()


def unkept(outside: Outside, error: EngineError) -> Submitted:
    """The fate of a message that the engine cannot keep at present. The log has the reason."""
    logger.error("a message from outside cannot be kept at present: %s", error)
    return Submitted(outside.request, Unkept.UNKEPT)
