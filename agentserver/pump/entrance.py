"""Entrance of gateways: opens, finds and ends conversations, submits messages, requeues dead letters."""

from __future__ import annotations

import logging
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from agentserver.core import receipts
from agentserver.core.decide.requeue import redrive
from agentserver.core.messages import Cancellation, ConversationClosing, RedrivenLetter, RequeuedLetter
from agentserver.core.state.conversation import Conversation
from agentserver.core.state.principals import is_operator, owns
from agentserver.ports import (
    ConversationFound,
    EngineError,
    FencedError,
    NotStoredError,
    RejectReason,
    SubmitResult,
)
from agentserver.pump.boundary import CLOSED, staying_open
from agentserver.pump.handles import Handles, Views
from agentserver.pump.owners import Arrivals, Owners
from agentserver.pump.watches import Watches, ignore_catch_up
from agentserver.wire import envelope

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping

    from agentserver.core.encoding.history import DeadLetter
    from agentserver.core.messages import (
        Delta,
        Done,
        EffectVerdict,
        EventPlace,
        OutsideMessage,
        Progress,
        Reply,
    )
    from agentserver.core.state.approvals import ApprovalAnswer
    from agentserver.core.state.principals import Principal
    from agentserver.ports import Claim, Clock, Engine, EngineReader, WatchStop
    from agentserver.pump.accounts import Accounts
    from agentserver.pump.boundary import Boundary
    from agentserver.pump.editions import Editions
    from agentserver.pump.handle import ServerHandle
    from agentserver.pump.owners import RemoteConversations
    from agentserver.pump.records import RecordStream
    from agentserver.pump.schedule import ArrivalQueue


logger = logging.getLogger("agentserver.pump")

OPERATOR = "an operator"
"""Name in the record for an operator who gave none."""


class Conversations(NamedTuple):
    """Conversations of a server.

    Args:
        live: those at work, as last committed.
        claims: of those at work.
        find: claims one and reads it, if it is open.
        engine: where they are kept.
        accounts: quotas of their principals.
        remote: those that another process owned a moment ago.
        stream: of the records of their committed steps.
    """

    live: MutableMapping[str, Conversation]
    claims: MutableMapping[str, Claim]
    find: Callable[[str], Awaitable[Conversation | None]]
    engine: Engine
    accounts: Accounts
    remote: RemoteConversations
    stream: RecordStream


class Entrance:
    """Entrance of gateways into the server.

    Args:
        editions: know the names that principals may have.
        conversations: of the server.
        clock: time and randomness.
        boundary: decides and commits.
        arrival_queue: where messages from outside wait for their turn.
        receive: commits a message that has passed the queue; takes the arguments of ``Receiver.receive``.
    """

    def __init__(
        self,
        editions: Editions,
        conversations: Conversations,
        clock: Clock,
        boundary: Boundary,
        arrival_queue: ArrivalQueue,
        receive: Callable[[str, str, OutsideMessage], Awaitable[SubmitResult]],
    ) -> None:
        self._editions = editions
        self._live, self._claims, self._find, self._engine, self._accounts, self._remote, self.stream = (
            conversations
        )
        self._clock, self._boundary = clock, boundary
        self._arrival_queue = arrival_queue
        self.receive = receive
        self._owners = Owners(self._engine, clock, self._remote)
        self.handles = handles = Handles(self._engine, clock, self, self._owners)
        self.watches = Watches(self._engine, self._live, self._claims)
        self.views = Views(self._engine, handles, self.watches, self.stream.miss)
        self.arrivals = Arrivals(self._engine, self)
        self.letters = DeadLetters(self._engine, editions, clock, (boundary, handles.owners), self._begin)

    # Conversations

    async def open(
        self, principal: Principal | str, key: str | None, maximum: int | None, *, committed: bool, door: str
    ) -> ServerHandle:
        """Open a conversation with the principal's current rights, or find the one of this key.

        With ``committed``, or on a shared engine, the opening is committed before this returns, so that every
        process finds the conversation. ``door`` is recorded with it (``left_over``).

        Raises ValueError if the name is unfit for a principal (core/state/principals.py) or for an envelope, an
        addressee is no listener, or the key is invalid; QuotaError if it has as many conversations open as it may;
        NotStoredError if the engine cannot keep the key or the opening.
        """
        conversation = Conversation.begin(principal, self._clock.moment())
        name, may = conversation.principal, conversation.rights.may
        self._editions.check(name, may)
        envelope.write(name, None, None, "")
        named = None if key is None else receipts.name_conversation(name, key)
        named = receipts.opened_by(name, door, conversation.id) if door else named
        await self._arrival_queue.enter(name, conversation.id)
        try:
            if named is None:
                handle = await self._begin(conversation, maximum)
            else:
                handle = await self._open_named(conversation, named, maximum)
            if committed or self._engine.shared:
                await self._keep(handle)
        except EngineError as error:
            raise NotStoredError(RejectReason.UNKEPT) from error
        return handle

    async def _keep(self, handle: ServerHandle) -> None:
        """Commit the opening of a conversation, unless a step of it is committed. Raises EngineError."""
        live = self._live.get(handle.id)
        if live is None or live.version:
            return
        with ExitStack() as undo:
            undo.callback(handle.detach)
            try:
                await self._boundary.open(handle.id)
            except FencedError:  # another process began the conversation of this name a moment ago
                await self._drop(handle.id)
                if await self._engine.find_conversation(handle.id) is None:
                    raise
            except EngineError:
                await self._drop(handle.id)
                raise
            else:
                if handle.id not in self._live:  # another task has tried the same, and could not
                    raise EngineError(handle.id)
            undo.pop_all()

    async def _drop(self, conversation: str) -> None:
        """Drop a conversation whose opening could not be kept."""
        self._live.pop(conversation, None)
        self._claims.pop(conversation, None)
        self._accounts.close(conversation)
        with suppress(EngineError):
            await self._engine.release([conversation])

    async def _begin(self, conversation: Conversation, maximum: int | None) -> ServerHandle:
        """Begin a conversation. Raises QuotaError, and EngineError."""
        principal = conversation.principal
        count = await self._engine.open_count(principal)
        if conversation.id in self._live:  # another task has begun the one of this name meanwhile
            return await self.handles.take(principal, conversation.id)
        if count is not None:  # those that are not committed yet are known here alone
            count += sum(not one.version for one in self._live.values() if one.principal == principal)
        self._accounts.check(principal, maximum, count)
        self._claims[conversation.id] = self._engine.begin_claim(conversation.id)
        self._live[conversation.id] = conversation
        self._accounts.open(conversation.id, principal)
        return self.handles.open(principal, conversation.id)

    async def _open_named(self, fresh: Conversation, name: str, maximum: int | None) -> ServerHandle:
        """Return the conversation with a name. One that an earlier server named and never opened is opened now."""
        known = await self._engine.find_named(name)
        if known is None:
            self._accounts.check(fresh.principal, maximum, await self._engine.open_count(fresh.principal))
            known = await self._engine.give_name(name, fresh.id, fresh.touched)
        if await self._engine.find_conversation(known) is None and known not in self._live:
            return await self._begin(fresh._replace(id=known), maximum)
        return await self.handles.take(fresh.principal, known)

    async def find_conversation(self, principal: str | None, conversation: str) -> ConversationFound:
        """Return the owner of a conversation and whether it is closed.

        Raises LookupError if it does not exist or is another principal's; EngineError.
        """
        live = self._live.get(conversation)
        owned = owns(principal, "" if live is None else live.principal)  # asked in any case: equal work
        if live is not None and owned:
            return ConversationFound(conversation, live.principal, over=False)
        found = await self._engine.find_conversation(conversation)
        if found is None or found.over:
            self._remote.forget(conversation)
        owned = owns(principal, "" if found is None else found.principal)
        if found is None or not owned:
            raise LookupError("no such conversation")
        return found

    async def find_opened(self, principal: str, key: str) -> ConversationFound | None:
        """Return the conversation that a principal opened with a key; None without one. Raises EngineError."""
        known = await self._engine.find_named(receipts.name_conversation(principal, key))
        with suppress(LookupError):
            return None if known is None else await self.find_conversation(principal, known)
        return None

    async def move_key(self, principal: str, conversation: str, key: str) -> str | None:
        """Let a further key find a conversation. Returns the one that it found before.

        Raises LookupError, EngineError, and ValueError for an invalid key.
        """
        name = receipts.name_conversation(principal, key)
        await self.find_conversation(principal, conversation)
        before = await self._engine.find_named(name)
        await self._engine.give_name(name, conversation, self._clock.moment().now, move=True)
        return before

    async def _find_last_seen(self, principal: str | None, conversation: str) -> ConversationFound:
        """Find a conversation as last seen here; it may miss that another process closed it a moment ago.

        One that was not seen here is found as ``find_conversation`` does.
        """
        found = self._remote.find(conversation)
        if found is None or conversation in self._live or not owns(principal, found.principal):
            return await self.find_conversation(principal, conversation)
        return found

    async def end(self, principal: str | None, conversation: str, by: str) -> None:
        """End a conversation. Raises LookupError and EngineError."""
        found = await self.find_conversation(principal, conversation)
        if not found.over:
            closing = ConversationClosing(f"closed by {by or OPERATOR}" if is_operator(principal) else CLOSED)
            try:
                await self.close_here(principal, conversation, closing)
            except FencedError:
                await self._owners.close(principal, conversation, closing)
        elif not is_operator(principal):
            self.handles.abandon(conversation)

    async def cancel(self, principal: str | None, conversation: str, request: str, by: str) -> bool:
        """Cancel one request. Returns False if it is settled or unknown. Raises LookupError and EngineError."""
        await self.find_conversation(principal, conversation)
        cancelling = Cancellation(request, by or OPERATOR if is_operator(principal) else "")
        try:
            return await self._boundary.cancel(conversation, cancelling)
        except FencedError:
            return await self._owners.cancel(principal, conversation, cancelling)

    async def close(self, conversation: str) -> None:
        """End a conversation for the gateway that holds it. One that cannot be ended at present stays open."""
        try:
            await self._boundary.end(conversation)
        except FencedError:
            with suppress(LookupError), staying_open():
                await self._owners.close(None, conversation, ConversationClosing(CLOSED))

    async def answer(self, conversation: str, answered: ApprovalAnswer) -> bool:
        """Commit a person's answer. False when nothing waits for it, or another message than the one shown does."""
        try:
            return await self._boundary.answer(conversation, answered)
        except FencedError:
            return await self._owners.answer(conversation, answered)

    async def settle(self, conversation: str, verdict: EffectVerdict) -> bool:
        """Commit an operator's verdict on an external effect. False unless its outcome is unknown."""
        try:
            return await self._boundary.settle(conversation, verdict)
        except FencedError:
            return await self._owners.settle(conversation, verdict)

    async def version(self, conversation: str) -> int | None:
        """Return the version of an open conversation, wherever it is owned. Raises EngineError."""
        live = self._live.get(conversation)
        if live is None:
            live = await (self.views.look if self._engine.shared else self._find)(conversation)
        return None if live is None else live.version

    async def confirm(self, principal: str, conversation: str, place: EventPlace) -> None:
        """Acknowledge everything up to a place. Raises LookupError and EngineError."""
        await self.find_conversation(principal, conversation)
        self._engine.confirm(conversation, place)

    def watch(
        self,
        principal: str | None,
        conversation: str,
        after: EventPlace,
        caught_up: Callable[[], None] = ignore_catch_up,
        *,
        deltas: bool = False,
    ) -> AsyncIterator[Reply | Done | Progress | Delta | WatchStop]:
        """Yield everything after a place as it occurs. Raises LookupError, and EngineError, at the first item."""
        find = partial(self._find_last_seen, principal, conversation)
        return self.watches.events(conversation, after, find, caught_up, deltas=deltas)

    async def first_event(
        self, principal: str, conversation: str, request: str, after: EventPlace
    ) -> Reply | Done | WatchStop:
        """Wait for the first event of a request after a place. Raises LookupError and EngineError."""
        find = partial(self._find_last_seen, principal, conversation)
        return await self.watches.first_event(conversation, request, after, find)

    # Messages

    async def submit(
        self, principal: str, conversation: str, data: bytes, to: str | None, own: str | None
    ) -> SubmitResult:
        """Submit a message. Raises LookupError, MessageConflictError, and ValueError if ``own`` is no id."""
        outside = self.handles.make_outside(principal, conversation, data, to, own)
        try:
            await self._find_last_seen(principal, conversation)
            return await self.handles.submit(principal, conversation, outside)
        except EngineError as error:
            return make_unkept(outside, error)

    async def find_events(self, principal: str, conversation: str, request: str) -> tuple[Reply | Done, ...]:
        """Return all events of a request with a key. Raises LookupError, EngineError."""
        await self.find_conversation(principal, conversation)
        return tuple(await self.handles.events_of(conversation, request))

    # What other processes hand in

    async def receive_here(self, principal: str, conversation: str, outside: OutsideMessage) -> SubmitResult:
        """Commit a message here. Raises MessageConflictError and EngineError."""
        return await self.handles.keep(principal, conversation, outside)

    async def cancel_here(self, conversation: str, cancelling: Cancellation) -> bool:
        """End one request here. Raises EngineError."""
        return await self._boundary.cancel(conversation, cancelling)

    async def close_here(
        self, principal: str | None, conversation: str, closing: ConversationClosing
    ) -> None:
        """Close a conversation here and discard its events for its principal. Raises EngineError."""
        await self._boundary.close(conversation, closing.reason, patient=False)
        if not is_operator(principal):
            self.handles.abandon(conversation)

    async def answer_here(self, conversation: str, answered: ApprovalAnswer) -> bool:
        """Commit an answer here. Raises EngineError."""
        return await self._boundary.answer(conversation, answered)

    async def settle_here(self, conversation: str, verdict: EffectVerdict) -> bool:
        """Commit a verdict on an external effect here. Raises EngineError."""
        return await self._boundary.settle(conversation, verdict)

    async def requeue_here(self, requeued: RequeuedLetter) -> bool:
        """Queue a dead letter again here. Raises LookupError and EngineError."""
        return await self._boundary.requeue(requeued)

    def stop(self) -> None:
        """Release every waiting caller: the server stops."""
        self._owners.stop()
        self.handles.stop()
        self.watches.stop()
        self.stream.stop()


def make_unkept(outside: OutsideMessage, error: EngineError) -> SubmitResult:
    """Return the result of a message that the engine cannot keep at present. The log has the reason."""
    logger.error("a message from outside cannot be kept at present: %s", error)
    return SubmitResult(outside.request, RejectReason.UNKEPT)


class DeadLetters:
    """Dead letters of a server.

    Args:
        engine: where they are kept.
        editions: rules by which one may be requeued.
        clock: time and randomness.
        ways: the boundary for conversations of this process, and the owners of all others.
        begin: begins a conversation, within the limit of open ones of its principal.
    """

    def __init__(
        self,
        engine: Engine,
        editions: Editions,
        clock: Clock,
        ways: tuple[Boundary, Owners],
        begin: Callable[[Conversation, int | None], Awaitable[ServerHandle]],
    ) -> None:
        self._engine, self._editions, self._clock = engine, editions, clock
        (self._boundary, self._owners), self._begin = ways, begin

    async def requeue(self, delivery: str, by: str) -> str:
        """Queue one again. Returns its conversation. Raises LookupError and EngineError."""
        letter, opener = await self._engine.read(lambda reader: _find_letter(reader, delivery))
        if letter.open and await self._requeue(RequeuedLetter(letter.delivery, by)):
            return letter.delivery.conversation
        opened = Conversation.begin(opener, self._clock.moment())
        redriven = RedrivenLetter(letter.delivery, self._clock.moment().id(0), by)
        # Decided here first, so that no conversation begins for a refused one.
        redrive(opened, redriven, self._editions.rules, self._clock.moment())
        (await self._begin(opened, None)).detach()  # what it is answered waits for its principal
        await self._boundary.redrive(opened.id, redriven)
        return opened.id

    async def _requeue(self, requeued: RequeuedLetter) -> bool:
        try:
            return await self._boundary.requeue(requeued)
        except FencedError:
            return await self._owners.requeue(requeued)

    async def discard(self, delivery: str, by: str) -> None:
        """Remove one from the list, in the name of an operator. Its records stay.

        Raises LookupError and EngineError.
        """
        if not await self._engine.discard(delivery, by, self._clock.moment().now):
            raise LookupError("no such dead letter")


def _find_letter(reader: EngineReader, delivery: str) -> tuple[DeadLetter, Principal]:
    """Return a dead letter and the principal of its conversation."""
    for letter in reader.dead(prefix=delivery):
        if letter.delivery.id == delivery:
            return letter, reader.recorded_conversation(letter.delivery.conversation).beginning.opener
    raise LookupError("no such dead letter")
