"""The readings of the Postgres engine, in its reading thread.

Owns the way into that thread, and which events count as told before: those of other incarnations. Refuses to write.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from agentserver.core.encoding.snapshot import UnreadableError
from agentserver.engines.journal.events import event_of
from agentserver.engines.journal.reader import Reader
from agentserver.engines.journal.reads import JournalReads
from agentserver.engines.postgres.claims import FREE
from agentserver.engines.postgres.reading import SyncConnection
from agentserver.ports import ConversationFound, DamagedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from agentserver.core.guard import CoreGuard
    from agentserver.core.messages import Done, EventPlace, Reply
    from agentserver.engines.postgres.leases import Lease
    from agentserver.engines.postgres.options import PostgresOptions
    from agentserver.engines.postgres.questions import Questions
    from agentserver.engines.postgres.reading import ReadingThread
    from agentserver.engines.postgres.rows import Numbers
    from agentserver.engines.postgres.writer import Writer
    from agentserver.ports import EngineReader

T = TypeVar("T")

_MINE = f"and (c.owner = ?2 or {FREE.replace('@', '')})"


class DatabaseReads(JournalReads):
    """Reads the database. Its engine sets all of the fields when it is made."""

    _thread: ReadingThread
    _options: PostgresOptions
    _guards: Sequence[CoreGuard]
    _lease: Lease
    _numbers: Numbers
    _writer: Writer
    _standings: Questions
    _leavings: Questions

    @property
    def _reader(self) -> Reader:
        return Reader(self._thread.connection, self._guards)

    async def standing(self, conversation: str) -> ConversationFound | None:
        """The owner of a conversation that the journal has."""
        rows = await self._standings.ask(conversation)
        return (
            None if not rows else ConversationFound(conversation, rows[0]["principal"], over=rows[0]["over"])
        )

    async def left(
        self,
        conversation: str,
        after: EventPlace,
        most: int,
        *,
        gaps: bool = False,  # noqa: ARG002 - there are none
    ) -> list[Reply | Done]:
        """The events after a place. All of a conversation are kept for as long as it is."""
        rows = await self._leavings.ask(conversation, *after)
        if not rows:
            raise LookupError(conversation)
        return [event_of(conversation, row[1:8]) for row in rows[:most] if row["version"] is not None]

    async def idle(self, before: float) -> AsyncIterator[str]:
        """Open conversations that nothing touched since and that no other living server has."""
        owner = self._lease.incarnation
        for key in await self._ask(lambda reader: reader.idle(before, _MINE, owner)):
            yield key

    def _numbered_before(self, number: int) -> bool:
        return number not in self._numbers

    def _gone(self, conversation: str) -> Callable[[EventPlace], bool]:
        return self._writer.gone(conversation)

    async def _ask(self, work: Callable[[Reader], T]) -> T:
        return await self._do(lambda: work(self._reader))

    async def read(self, work: Callable[[EngineReader], T]) -> T:
        """Read by a connection of its own, beside the one of this engine."""
        return await asyncio.get_running_loop().run_in_executor(None, self._examine, work)

    def _examine(self, work: Callable[[EngineReader], T]) -> T:
        connection = SyncConnection(self._options, "examining")
        try:
            return work(Reader(connection, self._guards))
        finally:
            connection.close()

    async def _do(self, work: Callable[[], T]) -> T:
        """Have the thread do something."""
        try:
            return await self._thread.do(work)
        except UnreadableError as error:
            raise DamagedError(str(error)) from error
