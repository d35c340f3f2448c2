"""The readings of an engine of the journal that it writes, in the thread that has it.

Owns the way into that thread. Refuses to know how the journal comes to be what it is.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from agentserver.core.encoding.snapshot import UnreadableError
from agentserver.engines.sqlite.care import calendar as journal_calendar
from agentserver.engines.sqlite.care import openings
from agentserver.engines.sqlite.file import DRIVER, told
from agentserver.engines.sqlite.reader import reading
from agentserver.ports import DamagedError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import AsyncIterator, Callable, Sequence
    from concurrent.futures import ThreadPoolExecutor
    from pathlib import Path

    from agentserver.core.guard import CoreGuard
    from agentserver.core.messages import Done, EventPlace, Reply
    from agentserver.core.receipts import Receipt
    from agentserver.core.state.conversation import Conversation
    from agentserver.core.state.elapsed import Calendar
    from agentserver.engines.sqlite.reader import Reader
    from agentserver.ports import ConversationFound, EngineReader

T = TypeVar("T")


class JournalReads:
    """Reads an open journal. Its engine sets all of the fields when it opens."""

    _thread: ThreadPoolExecutor
    _connection: sqlite3.Connection
    _reader: Reader
    _path: Path
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

    async def read(self, work: Callable[[EngineReader], T]) -> T:
        """Read the file in a thread of its own, beside the one that writes."""
        return await asyncio.get_running_loop().run_in_executor(None, self._examine, work)

    def _examine(self, work: Callable[[EngineReader], T]) -> T:
        with reading(self._path, self._guards) as reader:
            return work(reader)

    async def _do(self, work: Callable[[], T]) -> T:
        """Have the thread do something. What SQLite raises becomes an EngineError."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except DRIVER as error:
            raise told(self._path, error) from error
        except UnreadableError as error:
            raise DamagedError(str(error)) from error
