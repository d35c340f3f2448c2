"""The readings of an engine that keeps a journal, each in the thread of a connection.

Owns which reading answers what an engine is asked. Must not know the thread, nor the database.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from agentserver.core.messages import Done, EventPlace, Reply
    from agentserver.core.receipts import Receipt
    from agentserver.core.state.conversation import Conversation
    from agentserver.engines.journal.reader import Reader
    from agentserver.ports import ConversationFound

T = TypeVar("T")


class JournalReads(ABC):
    """The readings that every journal answers alike."""

    @abstractmethod
    async def _ask(self, work: Callable[[Reader], T]) -> T:
        """Have a reader do something in its thread. Raises EngineError for what its driver raises."""

    @abstractmethod
    def _numbered_before(self, number: int) -> bool:
        """True for the number of an event that an earlier server may have passed on."""

    @abstractmethod
    def _gone(self, conversation: str) -> Callable[[EventPlace], bool]:
        """The test for acknowledged places, for a look at the outbox that comes before they are written."""

    async def load(self, conversation: str) -> Conversation | None:
        """The conversation as last committed."""
        return await self._ask(lambda reader: reader.load(conversation))

    async def standing(self, conversation: str) -> ConversationFound | None:
        """The owner of a conversation that the journal has."""
        return await self._ask(lambda reader: reader.standing(conversation))

    async def conversations_of(self, principal: str) -> AsyncIterator[str]:
        """The principal's conversations that are open or have something in the outbox."""
        for key in await self._ask(lambda reader: reader.conversations_of(principal)):
            yield key

    async def named(self, name: str) -> str | None:
        """The conversation that has a name."""
        return await self._ask(lambda reader: reader.named(name))

    async def left(
        self,
        conversation: str,
        after: EventPlace,
        most: int,
        *,
        gaps: bool = False,  # noqa: ARG002 - there are none
    ) -> list[Reply | Done]:
        """The events after a place. All of a conversation are kept for as long as it is."""
        return await self._ask(lambda reader: reader.left(conversation, after, most))

    async def receipt(self, conversation: str, name: str) -> Receipt | None:
        """The receipt of a commit under a key, also in a conversation that is closed."""
        return await self._ask(lambda reader: reader.receipt(conversation, name))

    async def outbox(self, conversation: str) -> AsyncIterator[Reply | Done]:
        """The events that were not acknowledged; those that an earlier server may have passed on are marked."""
        gone = self._gone(conversation)
        for event in await self._ask(lambda reader: reader.outbox(conversation, self._numbered_before)):
            if not gone(event.place):
                yield event

    async def told(self, conversation: str, request: str) -> AsyncIterator[Reply | Done]:
        """Everything that left for a request."""
        gone = self._gone(conversation)
        for event in await self._ask(
            lambda reader: reader.told(conversation, request, self._numbered_before)
        ):
            yield event._replace(redelivered=event.redelivered or gone(event.place))
