"""The wishes of this process's gateways about conversations that another process has: they are handed in for that one.

Owns what a gateway is told of it, and how long it is waited for. Refuses to decide anything: the owner does.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from agentserver.contract import Code
from agentserver.core import receipts
from agentserver.core.messages import LAST, UNDECIDED, EventPlace
from agentserver.ports import (
    Arrival,
    ConversationFound,
    OtherMessageError,
    Submitted,
    UnheardError,
    Unkept,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentserver.core.messages import Cancelling, Closing, Outside, Requeued
    from agentserver.core.state.approvals import ApprovalAnswer
    from agentserver.core.state.conversation import Conversation
    from agentserver.ports import Clock, Engine, Fate, Share
    from agentserver.ports.sharing import Arriving

logger = logging.getLogger("agentserver.pump")

PATIENCE: Final = 10.0
"""Seconds that a gateway is kept waiting for what became of something. It is kept, and decided whenever that can be."""

FRESH: Final = 10_000
"""Conversations that were opened here, are elsewhere and have no message yet; of more the oldest are forgotten."""

CHARACTERS: Final = 64
"""Characters that an id of a conversation may have, to be asked about elsewhere."""

NO: Final = "no"
"""Said of what found nothing to do."""

UNKNOWN: Final = "unknown"
"""Said of a conversation that there is not, or that is another principal's."""

UNFIT: Final = "unfit"
"""Said of a dead letter that may not go again."""

OTHER: Final = "other"
"""Said of a message under an id that its sender gave another message."""

OVER: Final = "over"
"""Said of a message for a conversation that takes none any more."""


class Owners:
    """Hands in what is for conversations of other processes.

    Args:
        engine: keeps it for their owners.
        clock: time and randomness.
        live: conversations at work here, as last committed, and those that were opened here.
    """

    def __init__(self, engine: Engine, clock: Clock, live: Mapping[str, Conversation]) -> None:
        self._engine, self._clock, self._live = engine, clock, live
        self.patience = PATIENCE
        self._stopped = asyncio.Event()
        self._fresh: dict[str, Conversation] = {}
        self._seen: dict[
            str, tuple[float, str]
        ] = {}  # those that are open elsewhere, until when, and whose they are

    def has(self, conversation: str) -> bool:
        """True for a conversation that another process has, or none at present."""
        return self._engine.share_of(conversation) is None

    def opened(self, conversation: Conversation) -> None:
        """A conversation was opened here that is elsewhere: its owner begins it with its first message."""
        self._fresh[conversation.id] = conversation
        if len(self._fresh) > FRESH:
            del self._fresh[next(iter(self._fresh))]

    def fresh(self, conversation: str) -> Conversation | None:
        """One that was opened here and was not begun by a message from here.

        It may be among those at work yet: the engine knows of a share that is lost, or not taken up, before the pump
        has done what follows from it.
        """
        found = self._fresh.get(conversation) or self._live.get(conversation)
        return None if found is None or found.version else found

    async def back(self, share: Share) -> list[Conversation]:
        """Those that were opened here, have not begun, and are in a share of this process again. Raises EngineError."""
        here = [key for key in self._fresh if self._engine.share_of(key) == share]
        unbegun = {key for key in here if await self._engine.standing(key) is None}
        found = [self._fresh.pop(key, None) for key in here]
        return [one for one in found if one is not None and one.id in unbegun]

    def stop(self) -> None:
        """The server stops: let everybody go who waits."""
        self._stopped.set()

    async def submit(self, principal: str, conversation: str, outside: Outside) -> Submitted:
        """Hand in a message; gives what became of it.

        Where nothing is heard of it in time it is accepted: it is kept, and its answer comes when it does. One under an
        id of its sender's is said to be unkept then: it may be there already, as another request, for whose answers its
        sender would wait in vain. Who sends it again is told. So is one for a conversation that is not known to have
        begun: its owner may refuse to begin it.

        Raises LookupError, OtherMessageError and EngineError.
        """
        if self._stopped.is_set():
            return Submitted(outside.request, Unkept.STOPPING)
        named = outside.key is not None
        if not named:  # by it the owner knows a message that an owner before it has decided
            outside = outside._replace(key=receipts.arriving(conversation, outside))
        try:
            fate = await self._ask(principal, conversation, outside)
        except UnheardError:
            sure = not named and await self._engine.standing(conversation) is not None
            return Submitted(outside.request, None if sure else Unkept.UNKEPT)
        self._fresh.pop(conversation, None)
        if fate.word == OTHER:
            raise OtherMessageError("another message was sent under this id; nothing of this one is kept")
        if fate.word == OVER:
            return Submitted(outside.request, Unkept.OVER)
        after = UNDECIDED if fate.again else EventPlace(fate.version, LAST)
        return Submitted(fate.request, Code(fate.word) if fate.word else None, fate.again, after)

    async def found(self, principal: str | None, conversation: str) -> ConversationFound | None:
        """The owner of a conversation that may not have begun; None when its process knows none. Raises EngineError."""
        fresh = self.fresh(conversation)
        if fresh is not None:
            return ConversationFound(conversation, fresh.principal, over=False)
        until, known = self._seen.pop(conversation, (0.0, ""))
        now = asyncio.get_running_loop().time()
        if now > until:
            try:
                fate = await self._ask(principal, conversation, None)
            except LookupError:
                return None
            until, known = now + PATIENCE, fate.request
        self._seen[conversation] = until, known
        if len(self._seen) > FRESH:
            del self._seen[next(iter(self._seen))]
        return ConversationFound(conversation, known, over=False)

    async def cancel(self, principal: str | None, conversation: str, cancelling: Cancelling) -> bool:
        """End one request; False when it is at rest or unknown. Raises LookupError and EngineError."""
        return (await self._ask(principal, conversation, cancelling)).word != NO

    async def requeue(self, requeued: Requeued) -> bool:
        """Queue a dead letter again. False when its thread waits for it no more. Raises LookupError and EngineError."""
        return (await self._ask(None, requeued.delivery.conversation, requeued)).word != NO

    async def close(self, principal: str | None, conversation: str, closing: Closing) -> None:
        """End a conversation. Raises LookupError and EngineError."""
        self._fresh.pop(conversation, None)
        await self._ask(principal, conversation, closing)

    async def answer(self, conversation: str, answered: ApprovalAnswer) -> bool:
        """Answer a question. False when nothing waits for it. Raises EngineError."""
        try:
            return (await self._ask(None, conversation, answered)).word != NO
        except LookupError:
            return False

    async def _ask(self, principal: str | None, conversation: str, what: Arriving | None) -> Fate:
        """Hand something in and wait a while for what became of it.

        Raises UnheardError where nothing is heard of it, LookupError, and EngineError.
        """
        await self._look(principal, conversation)
        fresh = self.fresh(conversation)
        opener = None if fresh is None or principal not in (None, fresh.principal) else fresh.opener
        key = next(self._clock.moment().ids())
        coming = await self._engine.hand_in(Arrival(key, conversation, principal, what, opener))
        stopped = asyncio.ensure_future(self._stopped.wait())
        try:
            await asyncio.wait((coming, stopped), timeout=self.patience, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
        if not coming.done() or coming.cancelled():
            logger.warning("what was handed in for another process was not decided about in time: it is kept")
            raise UnheardError
        fate = coming.result()
        if fate.word == UNKNOWN:
            raise LookupError("no such conversation")
        if fate.word == UNFIT:
            raise LookupError("it may not go again")
        return fate

    async def _look(self, principal: str | None, conversation: str) -> None:
        """Look that there may be such a conversation: no question fills the log. Raises LookupError and EngineError."""
        if self.fresh(conversation) is not None:
            return
        found = None
        if 0 < len(conversation) <= CHARACTERS:
            found = await self._engine.standing(conversation)
        if found is None and self._engine.minted(conversation) != conversation:
            raise LookupError("no such conversation")
        if found is not None and principal not in {None, found.principal}:
            raise LookupError("no such conversation")
