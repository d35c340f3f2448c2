"""Conversations and the processes that own them: requests to other processes, and requests from them."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from agentserver.contract import Code
from agentserver.core import receipts
from agentserver.core.messages import (
    LAST,
    UNDECIDED,
    Cancellation,
    ConversationClosing,
    EffectVerdict,
    EventPlace,
    OutsideMessage,
    RequeuedLetter,
)
from agentserver.core.state.approvals import ApprovalAnswer
from agentserver.ports import (
    Arrival,
    ArrivalOutcome,
    EngineError,
    FencedError,
    MessageConflictError,
    NoOutcomeError,
    RejectReason,
    SubmitResult,
)
from agentserver.pump.schedule import KeyedLock, backoff
from agentserver.supervision import EndEffect, start_errand

if TYPE_CHECKING:
    from typing import Protocol

    from agentserver.ports import Clock, ConversationFound, Engine
    from agentserver.ports.claims import Arriving

    class RequestDecider(Protocol):
        """Decisions about requests of gateways. Each method raises EngineError, which includes FencedError."""

        async def find_conversation(self, principal: str | None, conversation: str) -> ConversationFound:
            """Return the owner of a conversation. Raises LookupError."""

        async def receive_here(
            self, principal: str, conversation: str, outside: OutsideMessage
        ) -> SubmitResult:
            """Commit a message. Raises MessageConflictError."""

        async def cancel_here(self, conversation: str, cancelling: Cancellation) -> bool:
            """End a request."""

        async def close_here(
            self, principal: str | None, conversation: str, closing: ConversationClosing
        ) -> None:
            """End a conversation."""

        async def answer_here(self, conversation: str, answered: ApprovalAnswer) -> bool:
            """Commit an answer."""

        async def settle_here(self, conversation: str, verdict: EffectVerdict) -> bool:
            """Commit a verdict on an external effect."""

        async def requeue_here(self, requeued: RequeuedLetter) -> bool:
            """Queue a dead letter again. Raises LookupError."""


TRUST: Final = 5.0
"""Seconds for which it is believed. After them a message claims the conversation again."""

MOST: Final = 10_000
"""Conversations that are remembered."""


class RemoteConversations:
    """Cache of open conversations that could not be claimed, so that not every message asks the engine.

    A wrong entry is harmless: a request goes to the current owner, or to this process if there is no owner.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, ConversationFound]] = {}

    def note(self, found: ConversationFound) -> None:
        """Remember a conversation."""
        self.forget(found.conversation)
        self._known[found.conversation] = anyio.current_time() + TRUST, found
        if len(self._known) > MOST:
            del self._known[next(iter(self._known))]

    def renew(self, conversation: str) -> None:
        """Extend an entry: its owner has just decided something."""
        _, found = self._known.get(conversation, (0.0, None))
        if found is not None:
            self.note(found)

    def find(self, conversation: str) -> ConversationFound | None:
        """Return a conversation that another process owned a moment ago, otherwise None."""
        until, found = self._known.get(conversation, (0.0, None))
        if found is not None and until < anyio.current_time():
            self.forget(conversation)
            return None
        return found

    def forget(self, conversation: str) -> None:
        """Ask the engine the next time."""
        self._known.pop(conversation, None)


logger = logging.getLogger("agentserver.pump")

PATIENCE: Final = 10.0
"""Seconds that a gateway waits for the fate of a request. The request is kept, and decided whenever possible."""

NO: Final = "no"
"""Fate of a request that found nothing to do."""

UNKNOWN: Final = "unknown"
"""Fate of a request for a conversation that does not exist or is another principal's."""

UNFIT: Final = "unfit"
"""Fate of a dead letter that may not be requeued."""

OTHER: Final = "other"
"""Fate of a message whose key its sender gave to another message."""

OVER: Final = "over"
"""Fate of a message for a closed conversation."""


class Owners:
    """Submits requests for conversations that other processes own.

    Args:
        engine: keeps them for the owners.
        clock: time and randomness.
        remote: conversations that other processes owned a moment ago.
    """

    def __init__(self, engine: Engine, clock: Clock, remote: RemoteConversations) -> None:
        self._engine, self._clock, self._remote = engine, clock, remote
        self.patience = PATIENCE
        self._stopped = False
        self._waits: set[asyncio.Future[None]] = set()

    def stop(self) -> None:
        """End every wait: the server stops."""
        self._stopped = True
        for wait in self._waits:
            if not wait.done():
                wait.set_result(None)

    async def submit(self, principal: str, conversation: str, outside: OutsideMessage) -> SubmitResult:
        """Submit a message and return its result.

        If its fate is not known in time it is accepted: it is kept, and its answer comes later. With a key of the
        sender it is reported as unkept then, because it may be a repetition whose answers belong to an earlier request.
        Sent again, it is answered.

        Raises LookupError, MessageConflictError and EngineError.
        """
        if self._stopped:
            return SubmitResult(outside.request, RejectReason.STOPPING)
        named = outside.key is not None
        if not named:  # by it the owner knows a message that an owner before it has decided
            outside = outside._replace(key=receipts.make_arrival_key(conversation, outside))
        try:
            fate = await self._ask(principal, conversation, outside)
        except NoOutcomeError:
            return SubmitResult(outside.request, RejectReason.UNKEPT if named else None)
        if fate.word == OTHER:
            raise MessageConflictError(fate.request)
        if fate.word == OVER:
            self._remote.forget(conversation)
            return SubmitResult(outside.request, RejectReason.OVER)
        after = UNDECIDED if fate.again else EventPlace(fate.version, LAST)
        return SubmitResult(fate.request, Code(fate.word) if fate.word else None, fate.again, after)

    async def cancel(self, principal: str | None, conversation: str, cancelling: Cancellation) -> bool:
        """Cancel one request. Returns False if it is settled or unknown. Raises LookupError and EngineError."""
        return (await self._ask(principal, conversation, cancelling)).word != NO

    async def requeue(self, requeued: RequeuedLetter) -> bool:
        """Queue a dead letter again. Returns False if its thread does not wait for it.

        Raises LookupError and EngineError.
        """
        return (await self._ask(None, requeued.delivery.conversation, requeued)).word != NO

    async def close(self, principal: str | None, conversation: str, closing: ConversationClosing) -> None:
        """End a conversation. Raises LookupError and EngineError."""
        try:
            await self._ask(principal, conversation, closing)
        finally:
            self._remote.forget(conversation)

    async def answer(self, conversation: str, answered: ApprovalAnswer) -> bool:
        """Answer an approval. Returns False if it does not wait. Raises EngineError."""
        try:
            return (await self._ask(None, conversation, answered)).word != NO
        except LookupError:
            return False

    async def settle(self, conversation: str, verdict: EffectVerdict) -> bool:
        """Settle an external effect. Returns False if its outcome is not unknown. Raises EngineError."""
        try:
            return (await self._ask(None, conversation, verdict)).word != NO
        except LookupError:
            return False

    async def _ask(self, principal: str | None, conversation: str, content: Arriving) -> ArrivalOutcome:
        """Submit a request and wait for its fate.

        Raises NoOutcomeError if it is not known in time, LookupError, and EngineError.
        """
        key = self._clock.moment().id(0)
        coming = await self._engine.hand_in(Arrival(key, conversation, principal, content))
        stopped = asyncio.get_running_loop().create_future()
        self._waits.add(stopped)
        try:
            patience = 0.0 if self._stopped else self.patience
            await asyncio.wait((coming, stopped), timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._waits.remove(stopped)
            coming.cancel()  # unless it is there
        if coming.cancelled():
            logger.warning("another process did not decide a request in time: the request is kept")
            raise NoOutcomeError
        fate = coming.result()
        if fate.word == UNKNOWN:
            self._remote.forget(conversation)
            raise LookupError("no such conversation")
        if fate.word == UNFIT:
            raise LookupError("it may not be requeued")
        self._remote.renew(conversation)
        return fate


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
        self._lock = KeyedLock()
        self._fates: dict[str, ArrivalOutcome] = {}

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
        await self._lock.enter(arrival.conversation)
        try:
            fate = await self._decide(arrival)
            if fate is not None:
                self._remember(arrival.id, fate)
                self._engine.settle(arrival, fate)
        finally:
            self._lock.leave(arrival.conversation)
            room.release()

    async def _decide(self, arrival: Arrival) -> ArrivalOutcome | None:
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

    def _remember(self, arrival: str, fate: ArrivalOutcome) -> None:
        """Remember the fate of an arrival: if the engine cannot keep it, the arrival comes again."""
        self._fates[arrival] = fate
        if len(self._fates) > REMEMBERED:
            del self._fates[next(iter(self._fates))]

    async def _fate(self, arrival: Arrival) -> ArrivalOutcome | None:
        """Decide. Returns None if the next owner has to decide because this server stops. Raises EngineError."""
        conversation, content, done = arrival.conversation, arrival.content, True
        try:
            found = await self._deciding.find_conversation(arrival.principal, conversation)
        except LookupError:
            return ArrivalOutcome(UNKNOWN)
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
            case EffectVerdict():
                done = await self._deciding.settle_here(conversation, content)
        return ArrivalOutcome("" if done else NO)

    async def _requeue(self, requeued: RequeuedLetter) -> ArrivalOutcome:
        try:
            return ArrivalOutcome() if await self._deciding.requeue_here(requeued) else ArrivalOutcome(NO)
        except LookupError:
            return ArrivalOutcome(UNFIT)

    async def _receive(
        self, principal: str, conversation: str, outside: OutsideMessage
    ) -> ArrivalOutcome | None:
        """Commit a message; its key says whether an earlier owner did. Raises EngineError."""
        try:
            submitted = await self._deciding.receive_here(principal, conversation, outside)
        except MessageConflictError as error:
            return ArrivalOutcome(OTHER, error.request)
        match submitted.code:
            case RejectReason.STOPPING:
                return None
            case RejectReason.OVER:
                return ArrivalOutcome(OVER)
            case RejectReason.UNKEPT:
                raise EngineError("it cannot be kept at present")
        repeated = submitted.request != outside.request
        version = 0 if repeated else submitted.after.version
        return ArrivalOutcome(str(submitted.code or ""), submitted.request, version, repeated)
