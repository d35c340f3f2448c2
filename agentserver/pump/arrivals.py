"""Requests of other processes for conversations that this process owns."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from agentserver.core.messages import Cancellation, ConversationClosing, OutsideMessage, RequeuedLetter
from agentserver.core.state.approvals import ApprovalAnswer
from agentserver.ports import EngineError, Fate, FencedError, OtherMessageError, RejectReason
from agentserver.pump.owners import NO, OTHER, OVER, UNFIT, UNKNOWN
from agentserver.pump.schedule import KeyedLock, backoff
from agentserver.supervision import EndEffect, start_errand

if TYPE_CHECKING:
    from typing import Protocol

    from agentserver.core.messages import Delivery
    from agentserver.ports import Arrival, ConversationFound, Engine, SubmitResult

    class RequestDecider(Protocol):
        """Decisions about requests of gateways. Each method raises EngineError, which includes FencedError."""

        async def find_conversation(self, principal: str | None, conversation: str) -> ConversationFound:
            """Return the owner of a conversation. Raises LookupError."""
            ...

        async def receive_here(
            self, principal: str, conversation: str, outside: OutsideMessage
        ) -> SubmitResult:
            """Commit a message. Raises OtherMessageError."""
            ...

        async def cancel_here(self, conversation: str, cancelling: Cancellation) -> bool:
            """End a request."""
            ...

        async def close_here(
            self, principal: str | None, conversation: str, closing: ConversationClosing
        ) -> None:
            """End a conversation."""
            ...

        async def answer_here(self, conversation: str, answered: ApprovalAnswer) -> bool:
            """Commit an answer."""
            ...

        async def requeue_here(self, letter: Delivery) -> bool:
            """Queue a dead letter again. Raises LookupError."""
            ...


logger = logging.getLogger("agentserver.pump")

AT_ONCE: Final = 64
"""Arrivals that are decided at once."""

REMEMBERED: Final = 1_000
"""Arrivals whose fate is remembered."""


class Arrivals:
    """Decides requests that other processes submit for conversations of this process.

    Args:
        engine: keeps them.
        deciding: decides and commits.
    """

    def __init__(self, engine: Engine, deciding: RequestDecider) -> None:
        self._engine, self._deciding = engine, deciding
        self._alone = KeyedLock()
        self._fates: dict[str, Fate] = {}

    async def take(self) -> None:
        """Decide everything that arrives until the engine closes."""
        room = asyncio.Semaphore(AT_ONCE)
        async with anyio.create_task_group() as tasks:
            async for arrival in self._engine.arrivals():
                await room.acquire()
                dealing = partial(self._deal, arrival, room)
                start_errand(tasks, "decides about an arrival", EndEffect.SERVER, dealing)

    async def _deal(self, arrival: Arrival, room: asyncio.Semaphore) -> None:
        """Decide one arrival, in order within its conversation."""
        await self._alone.enter(arrival.conversation)
        try:
            fate = await self._decide(arrival)
            if fate is not None:
                self._remember(arrival.id, fate)
                self._engine.settle(arrival, fate)
        finally:
            self._alone.leave(arrival.conversation)
            room.release()

    async def _decide(self, arrival: Arrival) -> Fate | None:
        """Decide, with retries until the fate can be kept; None if another process owns the conversation."""
        failures = 0
        while True:
            try:
                if not await self._is_mine(arrival.conversation):
                    return None
                return self._fates.get(arrival.id) or await self._fate(arrival)
            except EngineError as error:
                failures += 1
                if not isinstance(error, FencedError):  # else it is lost, or about to be taken up
                    logger.error("a request of another process is retried until it can be kept: %s", error)  # noqa: TRY400 - the text says it all
                await asyncio.sleep(backoff(failures))

    async def _is_mine(self, conversation: str) -> bool:
        """Return whether the conversation is this process's, or is closed so that any process may say so."""
        if self._engine.current_claim(conversation) is not None:
            return True
        found = await self._engine.find_conversation(conversation)
        return found is None or found.over

    def _remember(self, arrival: str, fate: Fate) -> None:
        """Remember the fate of an arrival: if the engine cannot keep it, the arrival comes again."""
        self._fates[arrival] = fate
        if len(self._fates) > REMEMBERED:
            del self._fates[next(iter(self._fates))]

    async def _fate(self, arrival: Arrival) -> Fate | None:
        """Decide. Returns None if the next owner has to decide because this server stops. Raises EngineError."""
        conversation, content, done = arrival.conversation, arrival.content, True
        try:
            found = await self._deciding.find_conversation(arrival.principal, conversation)
        except LookupError:
            return Fate(UNKNOWN)
        match content:
            case OutsideMessage():
                return await self._receive(found.principal, conversation, content)
            case RequeuedLetter():
                return await self._requeue(content)
            case Cancellation():
                done = await self._deciding.cancel_here(conversation, content)
            case ConversationClosing():
                await self._deciding.close_here(arrival.principal, conversation, content)
            case ApprovalAnswer():
                done = await self._deciding.answer_here(conversation, content)
        return Fate("" if done else NO)

    async def _requeue(self, requeued: RequeuedLetter) -> Fate:
        try:
            return Fate() if await self._deciding.requeue_here(requeued.delivery) else Fate(NO)
        except LookupError:
            return Fate(UNFIT)

    async def _receive(self, principal: str, conversation: str, outside: OutsideMessage) -> Fate | None:
        """Commit a message; its key says whether an earlier owner did. Raises EngineError."""
        try:
            submitted = await self._deciding.receive_here(principal, conversation, outside)
        except OtherMessageError:
            return Fate(OTHER)
        match submitted.code:
            case RejectReason.STOPPING:
                return None
            case RejectReason.OVER:
                return Fate(OVER)
            case RejectReason.UNKEPT:
                raise EngineError("it cannot be kept at present")
        again = submitted.request != outside.request
        version = 0 if again else submitted.after.version
        return Fate(str(submitted.code or ""), submitted.request, version, again)
