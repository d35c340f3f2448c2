"""The readings of an engine that keeps a journal, each in the thread of a connection.

Owns which reading answers what an engine is asked. Must not know the thread, nor the database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from agentserver.engines.journal.care import calendar as journal_calendar
from agentserver.engines.journal.care import openings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from agentserver.core.guard import CoreGuard
    from agentserver.core.messages import Done, EventPlace, Reply
    from agentserver.core.receipts import Receipt
    from agentserver.core.state.conversation import Conversation
    from agentserver.core.state.elapsed import Calendar
    from agentserver.engines.journal.connection import Connection
    from agentserver.engines.journal.reader import Reader
    from agentserver.ports import ConversationFound

T = TypeVar("T")


class JournalReads:
    """Reads an open journal. Its engine sets all of the fields when it opens."""

    _connection: Connection
    _reader: Reader
    _guards: Sequence[CoreGuard]

    async def load(self, conversation: str) -> Conversation | None:
        """The conversation as last committed."""
        return await self._do(lambda: self._reader.load(conversation))

    async def standing(self, conversation: str) -> ConversationFound | None:
        """The owner of a conversation that the journal has."""
        return await self._do(lambda: self._reader.standing(conversation))

    async def conversations_of(self, principal: str) -> AsyncIterator[str]:
        """The principal's conversations that are open or have something in the outbox."""
        for key in await self._do(lambda: self._reader.conversations_of(principal)):
            yield key

    async def named(self, name: str) -> str | None:
        """The conversation that has a name."""
        return await self._do(lambda: openings.claimed(self._connection, name))

    async def left(
        self,
        conversation: str,
        after: EventPlace,
        most: int,
        *,
        gaps: bool = False,  # noqa: ARG002 - there are none
    ) -> list[Reply | Done]:
        """The events after a place. All of a conversation are kept for as long as it is."""
        return await self._do(lambda: self._reader.left(conversation, after, most))

    async def receipt(self, conversation: str, name: str) -> Receipt | None:
        """The receipt of a commit under a key, also in a conversation that is closed."""
        return await self._do(lambda: self._reader.receipt(conversation, name))

    async def calendar(self) -> Calendar:
        """The calendar that an earlier server of this machine has kept."""
        return await self._do(lambda: journal_calendar.read(self._connection))

    async def keep_calendar(self, calendar: Calendar) -> None:
        """Keep it in the journal."""
        await self._do(lambda: journal_calendar.keep(self._connection, calendar))

    async def _do(self, work: Callable[[], T]) -> T:
        """Have the thread of the connection do something. Raises EngineError for what its driver raises."""
        raise NotImplementedError
