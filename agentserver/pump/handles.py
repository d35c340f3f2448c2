"""Handles of the conversations that gateways hold, one gateway each."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Protocol

from agentserver.contract import Code
from agentserver.core import receipts
from agentserver.core.messages import LAST, UNDECIDED, EventPlace, Outside
from agentserver.ports import EngineError, FencedError, OtherMessageError, RepeatedError, Submitted, Unkept
from agentserver.pump.handle import Returns, ServerHandle
from agentserver.pump.watches import AT_ONCE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from agentserver.core.messages import Done, Progress, Reply
    from agentserver.core.receipts import Receipt
    from agentserver.ports import Clock, Engine
    from agentserver.pump.owners import Owners


class Receiver(Protocol):
    """The entrance of messages into the server."""

    @property
    def receive(self) -> Callable[[str, str, Outside], Awaitable[Submitted]]:
        """Commits an outside message of a principal in a conversation, or says why it is not kept.

        Raises RepeatedError and FencedError.
        """
        ...

    async def close(self, conversation: str) -> None:
        """End a conversation."""
        ...

    async def version(self, conversation: str) -> int | None:
        """The version of a conversation that takes messages, here or elsewhere; None of another. Raises EngineError."""
        ...


class Handles:
    """Every handle that a gateway has.

    Args:
        engine: where conversations are kept.
        clock: time and randomness.
        receiver: lets messages in.
        owners: hands in what is for conversations of other processes.
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
        """A handle for a conversation that no gateway has."""
        told = self._told.pop(conversation, set())
        handle = self.known[conversation] = ServerHandle(self, principal, conversation, told)
        return handle

    async def conversations_of(self, principal: str, door: str = "") -> tuple[str, ...]:
        """The principal's conversations that no gateway has and that can be resumed, oldest first.

        With ``door`` only those that this door has opened.
        """
        found = [key async for key in self._engine.conversations_of(principal) if key not in self.known]
        return tuple([key for key in found if not door or await self._opened_by(principal, door, key)])

    async def _opened_by(self, principal: str, door: str, conversation: str) -> bool:
        name = receipts.opened_by(principal, door, conversation)
        return await self._engine.named(name) == conversation

    async def resume(self, principal: str, conversation: str) -> ServerHandle:
        """A handle with what left before. Raises LookupError when the principal has none such to resume."""
        found = await self.conversations_of(principal)
        taken = conversation in self.known  # another gateway may have been quicker meanwhile
        if taken or conversation not in found:
            raise LookupError("no such conversation")
        return await self._attach(principal, conversation)

    async def take(self, principal: str, conversation: str) -> ServerHandle:
        """A handle with what left before, of a conversation that is there. A gateway that has it is detached."""
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
        """Pass on what has left a conversation."""
        handle = self.known.get(conversation)
        if handle is not None:
            for event in events:
                handle.deliver(event)

    async def catch_up(self, conversation: str) -> None:
        """Pass on what has left a conversation that another process has, or had. Raises EngineError."""
        handle = self.known.get(conversation)
        while handle is not None and not handle.over:
            try:
                page = await self._engine.left(conversation, handle.latest, AT_ONCE, gaps=True)
            except LookupError:
                return
            for event in page:
                handle.deliver(event)
            if not page:
                return

    def tell(self, progress: Progress) -> None:
        """Pass on a word of progress, if a gateway has the conversation."""
        handle = self.known.get(progress.conversation)
        if handle is not None:
            handle.tell(progress)

    def over(self, conversation: str) -> None:
        """A conversation is closed: its gateway has it until it has taken what is left."""
        self._told.pop(conversation, None)
        handle = self.known.get(conversation)
        if handle is not None:
            handle.finish()

    def settle(self) -> None:
        """The server stops in good order, and every gateway with it."""
        for handle in tuple(self.known.values()):
            handle.settle()

    def stop(self) -> None:
        """Let everybody go who waits. What is taken from now on is told again."""
        self._stopped = True
        for handle in tuple(self.known.values()):
            handle.finish()

    # For handles

    @property
    def returns(self) -> Returns:
        """Tells which tasks of gateways are over."""
        return self._returns

    def outside(
        self, principal: str, conversation: str, data: bytes, to: str | None, own: str | None
    ) -> Outside:
        """A message under an id of the server's, and of the sender's. Raises ValueError when ``own`` is no id."""
        key = None if own is None else receipts.key(principal, conversation, own, data, to)
        return Outside(data, next(self._clock.moment().ids()), to, key)

    async def submit(self, principal: str, conversation: str, outside: Outside) -> Submitted:
        """Commit an outside message, or hand it in for the process that has the conversation.

        Raises OtherMessageError when its key is another message's, LookupError when no process knows the conversation,
        EngineError when that cannot be read.
        """
        try:
            return await self.keep(principal, conversation, outside)
        except FencedError:
            return await self.owners.submit(principal, conversation, outside)

    async def keep(self, principal: str, conversation: str, outside: Outside) -> Submitted:
        """Commit an outside message here; of one that was sent before gives what became of it then.

        Raises OtherMessageError, and EngineError, FencedError among them.
        """
        try:
            submitted = await self._receiver.receive(principal, conversation, outside)
        except RepeatedError as repeated:
            return await self._again(conversation, outside) or _same(repeated.receipt, outside)
        if submitted.code is Unkept.OVER:
            return await self._again(conversation, outside) or submitted
        return submitted

    async def _again(self, conversation: str, outside: Outside) -> Submitted | None:
        """The fate of a message that was sent before; None when none is known."""
        key = outside.key
        receipt = None if key is None else await self._engine.receipt(conversation, key.name)
        return None if receipt is None else _same(receipt, outside)

    async def told(self, conversation: str, request: str) -> list[Reply | Done]:
        """Everything that left for a request with a key."""
        return [event async for event in self._engine.told(conversation, request)]

    async def outbox(self, conversation: str) -> list[Reply | Done]:
        """The events that left the conversation and were not acknowledged."""
        return [event async for event in self._engine.outbox(conversation)]

    async def left(self, conversation: str, after: EventPlace) -> Sequence[Reply | Done] | None:
        """The next events after a place that are kept; None once there is no engine to ask. Raises EngineError."""
        try:
            return await self._engine.left(conversation, after, AT_ONCE, gaps=True)
        except LookupError:
            return ()
        except (EngineError, RuntimeError):  # its thread may be gone
            if self._stopped:
                return None
            raise

    def acknowledge(self, conversation: str, place: EventPlace) -> None:
        """An event was taken."""
        if not self._stopped:
            self._engine.acknowledge(conversation, place)

    def detach(self, conversation: str) -> None:
        """A gateway has the conversation no longer."""
        handle = self.known.pop(conversation, None)
        if handle is not None:
            if handle.told and not handle.over:
                self._told[conversation] = handle.told
            handle.finish()

    async def close(self, conversation: str) -> None:
        """End a conversation for its gateway, which wants nothing more of it."""
        await self._receiver.close(conversation)
        self.abandon(conversation)

    def abandon(self, conversation: str) -> None:
        """Its principal wants nothing of what has left a conversation."""
        self._engine.abandon(conversation)
        self._told.pop(conversation, None)


def _same(receipt: Receipt, outside: Outside) -> Submitted:
    """The fate of a message that was sent before. Raises OtherMessageError when that was another message."""
    if outside.key is None or receipt.content != outside.key.content:
        raise OtherMessageError("another message was sent under this id; nothing of this one is kept")
    return Submitted(receipt.request, Code(receipt.code) if receipt.code else None, again=True)
