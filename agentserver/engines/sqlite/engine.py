"""The engine that keeps everything in one SQLite file.

Owns the thread that writes and the grouping of commits: what is waiting at the end of a turn of the event loop
shares one transaction, and no step is told to be committed before the transaction is. Refuses to know rows,
which engines/sqlite/writer.py and engines/journal/reader.py do, and what a step means.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Self, TypeVar

from agentserver.core.encoding.snapshot import UnreadableError
from agentserver.core.state.elapsed import STEADY, Calendar
from agentserver.engines.journal import records, retention
from agentserver.engines.journal.reader import JournalReads, Reader
from agentserver.engines.journal.records import StoredAnswers
from agentserver.engines.journal.rows import Acknowledgement, make_gone_test
from agentserver.engines.single_partition import SinglePartition
from agentserver.engines.sqlite.file import (
    DRIVER,
    JournalOptions,
    count_opening,
    open_writing,
    read_journal,
    told,
)
from agentserver.engines.sqlite.lock import Lock
from agentserver.engines.sqlite.marks import MarkFile
from agentserver.engines.sqlite.writer import Writer
from agentserver.ports import DamagedError, EngineError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import AsyncIterator, Callable, Sequence
    from types import TracebackType

    from agentserver.core.guard import CoreGuard
    from agentserver.core.messages import Done, EventPlace, Reply
    from agentserver.core.records.outcome import Outcome
    from agentserver.engines.journal.step_data import EncodedOutcome
    from agentserver.ports import Answers, Claim, EngineReader

    Waiting = tuple[EncodedOutcome, asyncio.Future[None]]

T = TypeVar("T")

ENOUGH = 16
"""Steps that are handed over without a wait for more."""

PATIENCE = 4
"""Turns of the loop in which no more come before fewer are handed over."""

logger = logging.getLogger("agentserver.journal")


class SqliteEngine(JournalReads, SinglePartition):
    """A journal at work. Everything in it is done by one thread, in order.

    Args:
        options: where the journal is.
        guards: those whose memories are kept with the conversations.
        retention: seconds for which closed conversations are kept; None is for ever.
        limit: bytes that the journal may hold; beyond it no outside message is kept. None is no limit.
    """

    prompt = False
    durable = True

    def __init__(
        self,
        options: JournalOptions,
        guards: Sequence[CoreGuard] = (),
        *,
        retention: float | None = None,
        limit: int | None = None,
    ) -> None:
        self.marks = MarkFile(options.path)
        self.answers: Answers = StoredAnswers(lambda work: self._do(lambda: work(self._connection)))
        self._options = options
        self._path = options.path
        self._guards = tuple(guards)
        self._retention = retention
        self._limit = limit
        self._thread = ThreadPoolExecutor(1, "journal")
        self._open = ExitStack()
        self._connection: sqlite3.Connection
        self._writer: Writer
        self._reader: Reader
        self._before = 0
        self._waiting: list[Waiting] = []
        self._left: list[Acknowledgement] = []
        self._leaving: list[Acknowledgement] = []
        self._passing = False
        self._writing = False
        self._together = False
        self._quiet = asyncio.Event()
        self._quiet.set()

    async def __aenter__(self) -> Self:
        """Lock and open the journal, and look at every page of it.

        Raises EngineError when another server has it, or it is damaged or no journal of this version.
        """
        with ExitStack() as stack:
            stack.callback(self._thread.shutdown, wait=False)
            self.own(await self._do(self._begin))
            stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write what is waiting, then close."""
        self._pass_on()
        await self._quiet.wait()
        try:
            await self._do(self._open.close)
        finally:
            self._thread.shutdown(wait=False)  # it has nothing left to do; joining it would block the loop

    def _begin(self) -> int:
        """Open everything; gives the epoch that begins."""
        with ExitStack() as stack:
            lock = stack.enter_context(Lock(self._path))
            stack.callback(self.marks.close)
            self._connection = stack.enter_context(closing(open_writing(self._options)))
            self._writer = Writer(self._connection, self._path, self._guards, self._limit)
            stack.callback(self._writer.leave, lock)
            self._reader = Reader(self._connection, self._guards)
            self._before = self._reader.last_event()
            for damage in self._reader.damaged():
                logger.error("%s: %s", self._path, damage)
            epoch = count_opening(self._connection)
            self._open = stack.pop_all()
        return epoch

    def adopt(self, guards: Sequence[CoreGuard]) -> None:
        """Keep the memories of these guards from now on, those of before among them. To be called while it is open."""
        self._guards = tuple(guards)
        self._writer.adopt(self._guards)
        self._reader.adopt(self._guards)

    # Writing

    def commit(self, claim: Claim, outcome: Outcome) -> asyncio.Future[None]:
        """Make an outcome permanent, together with all others that wait.

        The future raises FencedError under another claim than that of this opening, ConflictError on a stale version,
        EngineError when it cannot be kept.
        """
        done = asyncio.get_running_loop().create_future()
        # Here rather than in the thread: two threads that both run Python slow each other down.
        encoded = self.fenced(claim) or self._writer.encode(outcome)
        if isinstance(encoded, EngineError):
            done.set_exception(encoded)
            return done
        self._waiting.append((encoded, done))
        self._soon()
        return done

    def acknowledge(self, conversation: str, place: EventPlace) -> None:
        """Let an event out of the outbox with the next commit."""
        self._left.append(Acknowledgement(conversation, *place))
        self._soon()

    def confirm(self, conversation: str, place: EventPlace) -> None:
        """Let the events up to a place out of the outbox with the next commit."""
        self._left.append(Acknowledgement(conversation, *place, before=True))
        self._soon()

    def abandon(self, conversation: str) -> None:
        """Let everything that has left out of the outbox with the next commit."""
        self._left.append(Acknowledgement(conversation))
        self._soon()

    def _soon(self) -> None:
        """Hand over at the end of this turn of the loop or of a later one: what comes together goes together."""
        if not self._passing and not self._writing:
            self._passing = True
            loop = asyncio.get_running_loop()
            if self._together:
                loop.call_soon(self._gather, PATIENCE, 0)
            else:
                loop.call_soon(self._pass_on)

    def _gather(self, turns: int, before: int) -> None:
        """Wait some turns for others to come, since a transaction costs as much as several of its steps."""
        now = len(self._waiting)
        left = PATIENCE if now > before else turns - 1
        if left and now < ENOUGH:
            asyncio.get_running_loop().call_soon(self._gather, left, now)
        else:
            self._pass_on()

    def _pass_on(self) -> None:
        self._passing = False
        if self._writing or not (self._waiting or self._left):
            return
        waiting, self._waiting = self._waiting, []
        left, self._left = self._left, []
        self._leaving = left
        self._writing = True
        self._together = len(waiting) > 1
        self._quiet.clear()
        written = asyncio.get_running_loop().run_in_executor(
            self._thread, self._writer.write, [encoded for encoded, _ in waiting], left
        )
        written.add_done_callback(lambda future: self._settle(waiting, future))

    def _settle(self, waiting: list[Waiting], written: asyncio.Future[list[EngineError | None]]) -> None:
        """Tell everybody who waits for a transaction what has become of it."""
        failed = written.exception()
        found = [None] * len(waiting) if failed else written.result()
        for (_, done), error in zip(waiting, found, strict=True):
            if done.cancelled():
                continue
            if failed is not None:
                done.set_exception(failed)
            elif error is not None:
                done.set_exception(error)
            else:
                done.set_result(None)
        self._writing = False
        if self._waiting or self._left:
            self._soon()
        else:
            self._quiet.set()

    # Reading

    async def read(self, work: Callable[[EngineReader], T]) -> T:
        """Read the file in a thread of its own, beside the one that writes."""
        return await asyncio.get_running_loop().run_in_executor(None, self._examine, work)

    def _examine(self, work: Callable[[EngineReader], T]) -> T:
        with read_journal(self._path, self._guards) as reader:
            return work(reader)

    async def _do(self, work: Callable[[], T]) -> T:
        """Have the thread do something. What SQLite raises becomes an EngineError."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except DRIVER as error:
            raise told(self._path, error) from error
        except UnreadableError as error:
            raise DamagedError(str(error)) from error

    async def _ask(self, work: Callable[[Reader], T]) -> T:
        return await self._do(lambda: work(self._reader))

    async def suspend(self, conversation: str, reason: str, at: float) -> tuple[Reply | Done, ...]:
        """Let a conversation go on no more. Commits to it that are waiting are stale."""
        return await self._do(lambda: self._writer.suspend(conversation, reason, at))

    async def active(self) -> AsyncIterator[str]:
        """Conversations of which a delivery is not consumed."""
        for key in await self._ask(lambda reader: reader.active()):
            yield key

    async def open_conversations(self) -> AsyncIterator[tuple[str, str]]:
        """Each open conversation with its principal."""
        for key, principal in await self._do(self._reader.open_conversations):
            yield key, principal

    async def idle(self, before: float) -> AsyncIterator[str]:
        """Open conversations that nothing touched since."""
        for key in await self._do(lambda: self._reader.idle(before)):
            yield key

    async def discard(self, delivery: str) -> bool:
        """Take a dead letter off the list; on the disk when this returns."""
        return await self._do(lambda: self._discard(delivery))

    def _discard(self, delivery: str) -> bool:
        self._writer.check()
        return retention.discard_letter(self._connection, delivery)

    async def give_name(self, name: str, conversation: str, at: float) -> str:
        """The conversation that has a name; on the disk when this returns."""
        return await self._do(lambda: self._claim(name, conversation, at))

    def _claim(self, name: str, conversation: str, at: float) -> str:
        self._writer.check()
        return records.claim_name(self._connection, name, conversation, at)

    def _numbered_before(self, number: int) -> bool:
        return number <= self._before

    def _make_gone_test(self, conversation: str) -> Callable[[EventPlace], bool]:
        return make_gone_test((*self._left, *self._leaving, *self._writer.owed), conversation)

    async def calendar(self) -> Calendar:
        """The calendar that an earlier server of this machine has kept."""
        return await self._do(lambda: records.read_calendar(self._connection))

    async def keep_calendar(self, calendar: Calendar) -> None:
        """Keep it in the journal."""
        await self._do(lambda: records.write_calendar(self._connection, calendar))

    async def expire(self, now: float, calendar: Calendar = STEADY) -> int:
        """Forget closed conversations whose time is over, some at a time, so that commits can go between."""
        if self._retention is None:
            return 0
        limit, total, gone = calendar.cutoff(self._retention, now), 0, 1
        while gone:
            gone = await self._do(lambda: retention.expire_conversations(self._connection, limit))
            total += gone
        return total
