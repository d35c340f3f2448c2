"""The readings of the Postgres engine, in its reading thread.

Owns the way into that thread, and which events count as told before: those of other incarnations. Refuses to write.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from agentserver.core.encoding.snapshot import UnreadableError
from agentserver.engines.journal.care import openings
from agentserver.engines.journal.care.events import EVENT, event_of
from agentserver.engines.journal.reader import Reader
from agentserver.engines.postgres.claims import FREE
from agentserver.engines.postgres.reading import SyncConnection
from agentserver.ports import DamagedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from agentserver.core.guard import CoreGuard
    from agentserver.core.messages import Done, EventPlace, Reply
    from agentserver.core.receipts import Receipt
    from agentserver.core.state.conversation import Conversation
    from agentserver.engines.postgres.leases import Lease
    from agentserver.engines.postgres.numbers import Numbers
    from agentserver.engines.postgres.options import PostgresOptions
    from agentserver.engines.postgres.reading import ReadingThread
    from agentserver.engines.postgres.writer import Writer
    from agentserver.ports import ConversationFound, EngineReader

T = TypeVar("T")

_IDLE = (
    "select c.id from conversation c where c.touched < ?1 and c.closed is null and (c.owner = ?2 or"  # noqa: S608
    f" {FREE.replace('@', '')}) and c.number not in (select a.conversation from aside a where a.ended is null)"
    " order by c.touched"
)
_OUTBOX = (
    f"select e.number, {EVENT} from event e join conversation c on c.number = e.conversation"  # noqa: S608
    " where c.id = ? and e.waiting = 1 order by e.version, e.position"
)
_TOLD = (
    f"select e.number, e.waiting = 0, {EVENT} from event e join conversation c on c.number = e.conversation"  # noqa: S608
    " where e.request = ? and c.id = ? order by e.version, e.position"
)


class DatabaseReads:
    """Reads the database. Its engine sets all of the fields when it is made."""

    _thread: ReadingThread
    _options: PostgresOptions
    _guards: Sequence[CoreGuard]
    _lease: Lease
    _numbers: Numbers
    _writer: Writer

    @property
    def _reader(self) -> Reader:
        return Reader(self._thread.connection, self._guards)

    async def load(self, conversation: str) -> Conversation | None:
        """The conversation as last committed."""
        return await self._do(lambda: self._reader.load(conversation))

    async def standing(self, conversation: str) -> ConversationFound | None:
        """The owner of a conversation that is kept."""
        return await self._do(lambda: self._reader.standing(conversation))

    async def conversations_of(self, principal: str) -> AsyncIterator[str]:
        """The principal's conversations that are open or have something in the outbox."""
        for key in await self._do(lambda: self._reader.conversations_of(principal)):
            yield key

    async def idle(self, before: float) -> AsyncIterator[str]:
        """Open conversations that nothing touched since and that no other living server has."""
        owner = self._lease.incarnation
        for key in await self._do(lambda: self._reader._ids(_IDLE, before, owner)):  # noqa: SLF001 - the same statement form
            yield key

    async def named(self, name: str) -> str | None:
        """The conversation that has a name."""
        return await self._do(lambda: openings.claimed(self._thread.connection, name))

    async def left(
        self,
        conversation: str,
        after: EventPlace,
        most: int,
        *,
        gaps: bool = False,  # noqa: ARG002 - there are none
    ) -> list[Reply | Done]:
        """The events after a place."""
        return await self._do(lambda: self._reader.left(conversation, after, most))

    async def receipt(self, conversation: str, name: str) -> Receipt | None:
        """The receipt of a commit under a key, also in a conversation that is closed."""
        return await self._do(lambda: self._reader.receipt(conversation, name))

    async def outbox(self, conversation: str) -> AsyncIterator[Reply | Done]:
        """The events that were not acknowledged; those of other incarnations are marked."""
        gone = self._writer.gone(conversation)
        for number, *columns in await self._rows_of(_OUTBOX, conversation):
            event = event_of(conversation, columns, again=number not in self._numbers)
            if not gone(event.place):
                yield event

    async def told(self, conversation: str, request: str) -> AsyncIterator[Reply | Done]:
        """Everything that left for a request."""
        gone = self._writer.gone(conversation)
        for number, taken, *columns in await self._rows_of(_TOLD, request, conversation):
            event = event_of(conversation, columns, again=bool(taken) or number not in self._numbers)
            yield event._replace(redelivered=event.redelivered or gone(event.place))

    async def _rows_of(self, text: str, *values: object) -> list[tuple[Any, ...]]:
        return await self._do(lambda: self._thread.connection.execute(text, values).fetchall())

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
