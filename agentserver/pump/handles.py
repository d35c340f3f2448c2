"""Handles of the conversations that gateways hold, one gateway each."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Protocol

from agentserver.contract import Code
from agentserver.core import receipts
from agentserver.core.messages import LAST, UNDECIDED, EventPlace, OutsideMessage
from agentserver.ports import (
    EngineError,
    FencedError,
    OtherMessageError,
    RejectReason,
    RepeatedError,
    SubmitResult,
)
from agentserver.pump.handle import Returns, ServerHandle
from agentserver.pump.watches import AT_ONCE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from agentserver.core.messages import Done, Progress, Reply
    from agentserver.core.receipts import Receipt
    from agentserver.ports import Clock, Engine
    from agentserver.pump.owners import Owners


class Receiver(Protocol):
    """Entrance of messages into the server."""

    @property
    def receive(self) -> Callable[[str, str, OutsideMessage], Awaitable[SubmitResult]]:
        """Commits an outside message of a principal in a conversation, or returns why it is not kept.

        Raises RepeatedError and FencedError.
        """
        ...

    async def close(self, conversation: str) -> None:
        """End a conversation."""
        ...

    async def version(self, conversation: str) -> int | None:
        """Return the version of an open conversation, wherever it is owned. Raises EngineError."""
        ...


class Handles:
    """Handles of all gateways.

    Args:
        engine: where conversations are kept.
        clock: time and randomness.
        receiver: admits messages.
        owners: submits messages for conversations of other processes.
    """

    def __init__(self, engine: Engine, clock: Clock, receiver: Receiver, owners: Owners) -> None:
        self._engine, self._clock = engine, clock
        self._receiver = receiver
        self.owners = owners
        self._told: dict[str, set[EventPlace]] = {}
        self._stopped = False
        self._returns = Returns()
        self.known: dict[str, ServerHandle] = {}

    def open(self, principal: str, conversation: str) -> ServerHandle:
        """Return a handle for a conversation that no gateway holds."""
        told = self._told.pop(conversation, set())
        handle = self.known[conversation] = ServerHandle(self, principal, conversation, told)
        return handle

    async def conversations_of(self, principal: str, door: str = "") -> tuple[str, ...]:
        """Return the principal's conversations that no gateway holds and that can be resumed, oldest first.

        With ``door`` only those that this door has opened.
        """
        found = [key async for key in self._engine.conversations_of(principal) if key not in self.known]
        return tuple([key for key in found if not door or await self._opened_by(principal, door, key)])

    async def _opened_by(self, principal: str, door: str, conversation: str) -> bool:
        name = receipts.opened_by(principal, door, conversation)
        return await self._engine.find_named(name) == conversation

    async def resume(self, principal: str, conversation: str) -> ServerHandle:
        """Return a handle with its earlier events. Raises LookupError if the principal has no such conversation."""
        found = await self.conversations_of(principal)
        taken = conversation in self.known  # another gateway may have been quicker meanwhile
        if taken or conversation not in found:
            raise LookupError("no such conversation")
        return await self._attach(principal, conversation)

    async def take(self, principal: str, conversation: str) -> ServerHandle:
        """Return a handle with its earlier events. A gateway that holds the conversation is detached."""
        known = self.known.get(conversation)
        if known is not None:
            known.detach()
        return await self._attach(principal, conversation)

    async def _attach(self, principal: str, conversation: str) -> ServerHandle:
        with ExitStack() as undo:
            undo.callback(self.detach, conversation)  # or it could not be resumed any more
            handle = self.open(principal, conversation)
            handle.listen()
            version = await self._receiver.version(conversation)
            left = await self.outbox(conversation)
            if version is not None and not handle.over:
                handle.catch_up(left, EventPlace(version, LAST))
            else:  # of one that is over it is not remembered what was told
                handle.catch_up((event._replace(redelivered=True) for event in left), UNDECIDED)
                handle.finish()
            undo.pop_all()
        return handle

    def deliver(self, conversation: str, events: Iterable[Reply | Done]) -> None:
        """Pass on the events of a conversation."""
        handle = self.known.get(conversation)
        if handle is not None:
            for event in events:
                handle.deliver(event)

    async def catch_up(self, conversation: str) -> None:
        """Pass on the events of a conversation that another process owns, or owned. Raises EngineError."""
        handle = self.known.get(conversation)
        while handle is not None and not handle.over:
            try:
                page = await self._engine.read_events(conversation, handle.latest, AT_ONCE, gaps=True)
            except LookupError:
                return
            for event in page:
                handle.deliver(event)
            if not page:
                return

    def tell(self, progress: Progress) -> None:
        """Pass on progress, if a gateway holds the conversation."""
        handle = self.known.get(progress.conversation)
        if handle is not None:
            handle.tell(progress)

    def finish(self, conversation: str) -> None:
        """Finish the handle of a closed conversation: its gateway keeps it until it has the last events."""
        self._told.pop(conversation, None)
        handle = self.known.get(conversation)
        if handle is not None:
            handle.finish()

    def settle(self) -> None:
        """Acknowledge everything: the server and every gateway stop in good order."""
        for handle in tuple(self.known.values()):
            handle.settle()

    def stop(self) -> None:
        """Release every waiting caller. Events that are delivered from now on will be redelivered."""
        self._stopped = True
        for handle in tuple(self.known.values()):
            handle.finish()

    # For handles

    @property
    def returns(self) -> Returns:
        """Registry of the tasks that hold events."""
        return self._returns

    def make_outside(
        self, principal: str, conversation: str, data: bytes, to: str | None, own: str | None
    ) -> OutsideMessage:
        """Make a message with an id of the server's, and of the sender's. Raises ValueError if ``own`` is no id."""
        key = None if own is None else receipts.key(principal, conversation, own, data, to)
        return OutsideMessage(data, next(self._clock.moment().ids()), to, key)

    async def submit(self, principal: str, conversation: str, outside: OutsideMessage) -> SubmitResult:
        """Commit an outside message, or submit it to the process that owns the conversation.

        Raises OtherMessageError if its key belongs to another message, LookupError if no process knows the
        conversation, EngineError if that cannot be read.
        """
        try:
            return await self.keep(principal, conversation, outside)
        except FencedError:
            return await self.owners.submit(principal, conversation, outside)

    async def keep(self, principal: str, conversation: str, outside: OutsideMessage) -> SubmitResult:
        """Commit an outside message here. One that was sent before returns its earlier result.

        Raises OtherMessageError, and EngineError, which includes FencedError.
        """
        try:
            submitted = await self._receiver.receive(principal, conversation, outside)
        except RepeatedError as repeated:
            return await self._find_result(conversation, outside) or _repeat_result(repeated.receipt, outside)
        if submitted.code is RejectReason.OVER:
            return await self._find_result(conversation, outside) or submitted
        return submitted

    async def _find_result(self, conversation: str, outside: OutsideMessage) -> SubmitResult | None:
        """Return the result of a message that was sent before; None if it is unknown."""
        key = outside.key
        receipt = None if key is None else await self._engine.receipt(conversation, key.name)
        return None if receipt is None else _repeat_result(receipt, outside)

    async def events_of(self, conversation: str, request: str) -> list[Reply | Done]:
        """Return all events of a request with a key."""
        return [event async for event in self._engine.read_request_events(conversation, request)]

    async def outbox(self, conversation: str) -> list[Reply | Done]:
        """Return the unacknowledged events of the conversation."""
        return [event async for event in self._engine.outbox(conversation)]

    async def next_events(self, conversation: str, after: EventPlace) -> Sequence[Reply | Done] | None:
        """Return the next kept events after a place; None once the engine is closed. Raises EngineError."""
        try:
            return await self._engine.read_events(conversation, after, AT_ONCE, gaps=True)
        except LookupError:
            return ()
        except (EngineError, RuntimeError):  # its thread may be gone
            if self._stopped:
                return None
            raise

    def acknowledge(self, conversation: str, place: EventPlace) -> None:
        """Acknowledge an event."""
        if not self._stopped:
            self._engine.acknowledge(conversation, place)

    def detach(self, conversation: str) -> None:
        """Release a conversation from its gateway."""
        handle = self.known.pop(conversation, None)
        if handle is not None:
            if handle.told and not handle.over:
                self._told[conversation] = handle.told
            handle.finish()

    async def close(self, conversation: str) -> None:
        """Close a conversation for its gateway and discard its events."""
        await self._receiver.close(conversation)
        self.abandon(conversation)

    def abandon(self, conversation: str) -> None:
        """Discard the events of a conversation for its principal."""
        self._engine.abandon(conversation)
        self._told.pop(conversation, None)


def _repeat_result(receipt: Receipt, outside: OutsideMessage) -> SubmitResult:
    """Return the result of a message that was sent before. Raises OtherMessageError if that was another message."""
    if outside.key is None or receipt.content != outside.key.content:
        raise OtherMessageError("another message was sent under this id; this one is not kept")
    return SubmitResult(receipt.request, Code(receipt.code) if receipt.code else None, again=True)
