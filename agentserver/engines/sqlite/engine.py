"""The engine that stores everything in one SQLite file.

Commits that wait at the end of a turn of the event loop share one transaction, and none is confirmed before it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from typing import TYPE_CHECKING, Self, TypeVar

from agentserver.core.encoding.snapshot import UnreadableError
from agentserver.core.state.elapsed_time import STEADY, Calendar
from agentserver.engines.journal import records, retention
from agentserver.engines.journal.notes import SQLITE_NOTES, StoredNotes
from agentserver.engines.journal.reader import JournalReads, Reader
from agentserver.engines.journal.records import StoredAnswers
from agentserver.engines.journal.rows import Acknowledgement, make_gone_test
from agentserver.engines.single_partition import SinglePartition
from agentserver.engines.sqlite.file import (
    DRIVER,
    JournalOptions,
    convert_error,
    count_opening,
    open_writing,
    read_journal,
)
from agentserver.engines.sqlite.lock import Lock
from agentserver.engines.sqlite.marks import MarkFile
from agentserver.engines.sqlite.turns import CommitQueue
from agentserver.engines.sqlite.writer import Writer
from agentserver.ports import DamagedError, EngineError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import AsyncIterator, Callable, Collection, Sequence
    from concurrent.futures import Future
    from types import TracebackType

    from agentserver.completion import RecordedCompletion
    from agentserver.core.guard import CoreGuard
    from agentserver.core.messages import Done, EventPlace, Reply
    from agentserver.core.records.outcome import Outcome
    from agentserver.engines.journal.step_data import EncodedOutcome
    from agentserver.notes import NoteStore
    from agentserver.ports import Answers, Claim, EngineReader, SleepingConversation

    Waiting = tuple[EncodedOutcome, asyncio.Future[None]]

T = TypeVar("T")

ENOUGH = 128
"""Steps that are committed without waiting for more: while they are written, the loop decides the next ones."""

PATIENCE = 4
"""Idle loop turns after which fewer are committed."""

logger = logging.getLogger("agentserver.journal")


class SqliteEngine(JournalReads, SinglePartition):
    """Engine of a journal file, which one thread accesses in order.

    Args:
        options: of the journal file.
        guards: guards whose memories are stored with the conversations.
        retention: seconds for which closed conversations are kept; None keeps them indefinitely.
        limit: bytes of the journal beyond which outside messages are refused; None for no limit.
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
        self.notes: NoteStore = StoredNotes(
            lambda work: self._do(lambda: work(self._connection)), SQLITE_NOTES, os.urandom
        )
        self._options = options
        self._path = options.path
        self._guards = tuple(guards)
        self._retention = retention
        self._limit = limit
        self._thread = ThreadPoolExecutor(1, "journal")
        self._loop: asyncio.AbstractEventLoop
        self._open = ExitStack()
        self._connection: sqlite3.Connection
        self._writer: Writer
        self._reader: Reader
        self._before = 0
        self._queued: CommitQueue[Waiting] = CommitQueue(time.monotonic)
        self._acknowledged: list[Acknowledgement] = []
        self._leaving: list[Acknowledgement] = []
        self._passing = False
        self._writing = False
        self._together = False
        self._quiet = asyncio.Event()
        self._quiet.set()

    async def __aenter__(self) -> Self:
        """Lock and open the journal, and check every page.

        Raises EngineError when another server uses it, when it is damaged, or when its format differs.
        """
        self._loop = asyncio.get_running_loop()  # each question for it would ask the system for the process
        with ExitStack() as stack:
            stack.callback(self._thread.shutdown, wait=False)
            self.own(await self._do(self._begin))
            stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit waiting outcomes, then close."""
        self._pass_on()
        await self._quiet.wait()
        try:
            await self._do(self._open.close)
        finally:
            self._thread.shutdown(wait=False)  # it is idle; joining it would block the loop

    def _begin(self) -> int:
        """Open the files. Returns the new epoch."""
        with ExitStack() as stack:
            lock = stack.enter_context(Lock(self._path))
            stack.callback(self.marks.close)
            self._connection = stack.enter_context(closing(open_writing(self._options)))
            self._writer = Writer(self._connection, self._path, self._guards, self._limit)
            stack.callback(self._writer.leave, lock)
            self._reader = Reader(self._connection, self._guards)
            self._before = self._reader.last_event()
            for damage in self._reader.find_damaged():
                logger.error("%s: %s", self._path, damage)
            epoch = count_opening(self._connection)
            self._open = stack.pop_all()
        return epoch

    def adopt(self, guards: Sequence[CoreGuard]) -> None:
        """Replace the guards whose memories are stored; they include the previous ones. Call it while open."""
        self._guards = tuple(guards)
        self._writer.adopt(self._guards)
        self._reader.adopt(self._guards)

    # Writing

    def commit(self, claim: Claim, outcome: Outcome) -> asyncio.Future[None]:
        """Commit an outcome together with all that wait.

        The future raises FencedError under a claim of another opening, ConflictError on a stale version, and
        EngineError when it cannot be committed.
        """
        done: asyncio.Future[None] = self._loop.create_future()
        # Here rather than in the thread, which would compete for the GIL.
        encoded = self.check_claim(claim) or self._writer.encode(outcome)
        if isinstance(encoded, EngineError):
            done.set_exception(encoded)
            return done
        self._queued.put(outcome.conversation.principal, (encoded, done))
        self._soon()
        return done

    def acknowledge(self, conversation: str, place: EventPlace) -> None:
        """Remove an event from the outbox with the next commit."""
        self._acknowledged.append(Acknowledgement(conversation, *place))
        self._soon()

    def confirm(self, conversation: str, place: EventPlace) -> None:
        """Remove the events up to a place from the outbox with the next commit."""
        self._acknowledged.append(Acknowledgement(conversation, *place, before=True))
        self._soon()

    def abandon(self, conversation: str) -> None:
        """Empty a conversation's outbox with the next commit."""
        self._acknowledged.append(Acknowledgement(conversation))
        self._soon()

    def _soon(self) -> None:
        """Schedule a transaction at the end of a loop turn, to group concurrent commits."""
        if not self._passing and not self._writing:
            self._passing = True
            if self._together:
                self._loop.call_soon(self._gather, PATIENCE, 0)
            else:
                self._loop.call_soon(self._pass_on)

    def _gather(self, turns: int, before: int) -> None:
        """Wait some turns for more commits, since a transaction costs as much as several steps.

        Where a principal has its share, a few turns still let in a stranger's answer to what was just committed.
        """
        now = self._queued.count
        growing = now > before and not self._queued.has_full_share()
        remaining = PATIENCE if growing else turns - 1
        if remaining and now < ENOUGH:
            self._loop.call_soon(self._gather, remaining, now)
        else:
            self._pass_on()

    def _pass_on(self) -> None:
        self._passing = False
        if self._writing or not (self._queued.count or self._acknowledged):
            return
        group = self._queued.take()
        acknowledged, self._acknowledged = self._acknowledged, []
        self._leaving = acknowledged
        self._writing = True
        self._together = len(group) > 1
        self._quiet.clear()
        # Without a future of the loop, which would take one more of its turns for each transaction.
        write = self._thread.submit(self._writer.write, [encoded for encoded, _ in group], acknowledged)
        write.add_done_callback(partial(self._report, group))

    def _report(self, group: list[Waiting], write: Future[list[EngineError | None]]) -> None:
        """Have the loop settle a transaction. Runs in the thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._settle, group, write)

    def _settle(self, group: list[Waiting], future: Future[list[EngineError | None]]) -> None:
        """Resolve the futures of a transaction."""
        failed = future.exception()
        found = [None] * len(group) if failed else future.result()
        for (_, done), error in zip(group, found, strict=True):
            if done.cancelled():
                continue
            if failed is not None:
                done.set_exception(failed)
            elif error is not None:
                done.set_exception(error)
            else:
                done.set_result(None)
        self._writing = False
        if self._queued.count or self._acknowledged:
            self._soon()
        else:
            self._quiet.set()

    # Reading

    async def read(self, work: Callable[[EngineReader], T]) -> T:
        """Read the file in a separate thread."""
        return await asyncio.get_running_loop().run_in_executor(None, self._examine, work)

    def _examine(self, work: Callable[[EngineReader], T]) -> T:
        with read_journal(self._path, self._guards) as reader:
            return work(reader)

    async def _do(self, work: Callable[[], T]) -> T:
        """Run a function in the thread. Raises EngineError for errors of SQLite."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except DRIVER as error:
            raise convert_error(self._path, error) from error
        except UnreadableError as error:
            raise DamagedError(str(error)) from error

    async def _ask(self, work: Callable[[Reader], T]) -> T:
        return await self._do(lambda: work(self._reader))

    async def suspend(self, conversation: str, reason: str, at: float) -> tuple[Reply | Done, ...]:
        """Suspend a conversation. Its waiting commits become stale."""
        return await self._do(lambda: self._writer.suspend(conversation, reason, at))

    async def active(self) -> AsyncIterator[str]:
        """Yield conversations with queued deliveries."""
        for key in await self._ask(lambda reader: reader.active()):
            yield key

    async def open_conversations(self) -> AsyncIterator[tuple[str, str]]:
        """Yield open conversations with their principals."""
        for key, principal in await self._do(self._reader.open_conversations):
            yield key, principal

    async def idle(self, before: float) -> AsyncIterator[str]:
        """Yield open conversations untouched since a time."""
        for key in await self._do(lambda: self._reader.idle(before)):
            yield key

    async def list_sleeping(self, limit: int) -> Sequence[SleepingConversation]:
        """List the conversations that are due first."""
        return await self._ask(lambda reader: reader.list_sleeping(limit))

    async def release(self, conversations: Collection[str]) -> None:
        """Forget the cached rows of idle conversations."""
        await self._do(lambda: self._writer.forget(conversations))

    async def discard(self, delivery: str, by: str, at: float) -> bool:
        """Discard a dead letter durably."""
        return await self._do(lambda: self._discard(delivery, by, at))

    def _discard(self, delivery: str, by: str, at: float) -> bool:
        self._writer.check()
        return retention.discard_letter(self._connection, delivery, by, at)

    async def record_completion(self, done: RecordedCompletion, until: float) -> None:
        """Store a completion in a transaction of its own."""
        await self._do(lambda: records.add_completion(self._connection, done, until))

    async def give_name(self, name: str, conversation: str, at: float, *, move: bool = False) -> str:
        """Name a conversation durably. Returns the one that has the name."""
        return await self._do(lambda: self._claim(name, conversation, at, move=move))

    def _claim(self, name: str, conversation: str, at: float, *, move: bool) -> str:
        self._writer.check()
        return records.claim_name(self._connection, name, conversation, at, move=move)

    def _numbered_before(self, number: int) -> bool:
        return number <= self._before

    def _make_gone_test(self, conversation: str) -> Callable[[EventPlace], bool]:
        return make_gone_test((*self._acknowledged, *self._leaving, *self._writer.pending_acks), conversation)

    async def calendar(self) -> Calendar:
        """Read the calendar of earlier servers."""
        return await self._do(lambda: records.read_calendar(self._connection))

    async def keep_calendar(self, calendar: Calendar) -> None:
        """Store the calendar in the journal."""
        await self._do(lambda: records.write_calendar(self._connection, calendar))

    async def expire(self, now: float, calendar: Calendar = STEADY) -> int:
        """Remove expired conversations in batches, between commits."""
        while await self._do(lambda: records.expire_completions(self._connection, now)):
            pass
        if self._retention is None:
            return 0
        limit, total, expired = calendar.cutoff(self._retention, now), 0, 1
        while expired:
            expired = await self._do(lambda: retention.expire_conversations(self._connection, limit))
            total += expired
        return total
