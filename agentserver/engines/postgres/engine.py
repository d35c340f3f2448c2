"""The engine of several servers that share one Postgres database."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar, cast

import anyio

from agentserver.core.encoding.snapshot import UnreadableError
from agentserver.core.state.elapsed_time import STEADY, Calendar, Jump
from agentserver.engines.journal import records, retention, suspension
from agentserver.engines.journal.connection import transaction
from agentserver.engines.journal.events import make_event
from agentserver.engines.journal.notes import POSTGRES_NOTES, StoredNotes
from agentserver.engines.journal.reader import JournalReads
from agentserver.engines.journal.records import StoredAnswers
from agentserver.engines.journal.rows import Acknowledgement
from agentserver.engines.journal.step_data import StepMaker
from agentserver.engines.journal.stored import find_rows
from agentserver.engines.postgres import history, tables
from agentserver.engines.postgres.claims import FREE, Claims
from agentserver.engines.postgres.connection import DRIVER, Link, connect, make_away_error, make_refusal
from agentserver.engines.postgres.hints import EVERYBODY, Hints, Topic
from agentserver.engines.postgres.inbox import Inbox
from agentserver.engines.postgres.leases import LONGEST, AcknowledgedSteps, Lease, Tokens
from agentserver.engines.postgres.marks import ServerMarks
from agentserver.engines.postgres.news import LEFT, STANDING, NewsPoller, QueryBatch
from agentserver.engines.postgres.rows import DRAW, ClaimedRows, Numbers
from agentserver.engines.postgres.servers import SharedReader
from agentserver.engines.postgres.threads import ReadingThread, SyncConnection
from agentserver.engines.postgres.writer import CommitDependencies, Writer
from agentserver.ports import ConversationFound, DamagedError, EngineError, FencedError
from agentserver.supervision import EndEffect, run_errand, start_helper

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Sequence
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType
    from typing import Self

    from agentserver.completion import RecordedCompletion
    from agentserver.core.guard import CoreGuard
    from agentserver.core.messages import Done, EventPlace, Reply
    from agentserver.core.records.outcome import Outcome
    from agentserver.core.state.conversation import Conversation
    from agentserver.engines.journal.reader import Reader
    from agentserver.engines.journal.stored import RowCache
    from agentserver.engines.postgres.connection import PostgresOptions
    from agentserver.notes import NoteStore
    from agentserver.ports import (
        Answers,
        Arrival,
        ArrivalOutcome,
        Claim,
        EngineReader,
        GainedClaims,
        LostClaims,
        RemoteStep,
        SleepingConversation,
    )
    from agentserver.ports.servers import ServerReport


_CLAIM = "select owner, epoch from conversation where id = ? and closed is null for update"
_RELEASE = "update conversation set owner = null where id = ?"


def _suspend(
    connection: SyncConnection,
    numbers: Numbers,
    claim: Claim | None,
    suspended: tuple[str, str, float],
) -> tuple[Reply | Done, ...]:
    """Suspend a conversation in the reading thread, given its id, the reason and the time.

    Returns the events that leave it. Raises FencedError under another claim.
    """
    conversation, reason, at = suspended
    plain = cast("Any", connection)

    def draw(size: int) -> int:
        row = connection.execute(DRAW.replace("@", "").replace("$1", "?1"), (size,)).fetchone()
        assert row is not None
        numbers.note(int(row[0]), size)
        return int(row[0])

    with transaction(plain):
        found = connection.execute(_CLAIM, (conversation,)).fetchone()
        if found is None:
            return ()
        if suspension.is_suspended(plain, conversation):  # an earlier attempt may have lost its answer
            return suspension.read_suspension_events(plain, conversation, reason, at)
        if found != claim:
            raise FencedError("another process has the conversation")
        connection.execute(_RELEASE, (conversation,))  # any server may claim it once it is resumed
        return suspension.suspend(plain, conversation, reason, at, draw)


T = TypeVar("T")

_MINE = f"and (c.owner = ?2 or {FREE.replace('@', '')})"


logger = logging.getLogger("agentserver.journal")

TRY = 0.5
"""Seconds between two attempts to reach the database at the start."""

ENDING = 5.0
"""Seconds for which closing the engine waits for the database."""

_OPEN = "select count(*) from @conversation where principal = $1 and closed is null"
_CLOCK = "select jumps, last from @clock where name = $1"
_KEEP_CLOCK = (
    "insert into @clock values ($1, $2, $3) on conflict (name) do update set jumps = excluded.jumps,"
    " last = excluded.last"
)


class PostgresEngine(JournalReads):
    """Engine with a journal that several servers share.

    Args:
        options: of the database.
        guards: guards whose memories are stored with the conversations.
        retention: seconds for which closed conversations are kept; None keeps them indefinitely.
    """

    shared = True
    prompt = False
    durable = True

    def __init__(
        self, options: PostgresOptions, guards: Sequence[CoreGuard] = (), *, retention: float | None = None
    ) -> None:
        self._options, self._guards, self._retention = options, tuple(guards), retention
        self._thread = ReadingThread(options)
        self._link = Link(options, "work")
        hinting = self._hinting = Link(options, "hints")
        self._hints = Hints(hinting)
        self._acknowledged = AcknowledgedSteps(options)
        self._lease = Lease(options, self._hints, self._begin_again, self._acknowledged.compare)
        self._claims = Claims(self._link, self._lease, self._hints, self._forget)
        self._handing = Link(options, "inbox")
        self._inbox = Inbox((self._link, self._handing), self._lease, self._claims, self._hints)
        self._tokens = Tokens(self._link, self._lease, self._hints)
        self._news = NewsPoller(self._link, self._claims, self._hints)
        self._owner_queries, self._event_queries = (
            QueryBatch(self._link, STANDING),
            QueryBatch(self._link, LEFT),
        )
        self._numbers = Numbers(self._link)
        self._rows = ClaimedRows(self._numbers)
        self._steps = StepMaker(self._guards)
        ties = CommitDependencies(self._lease, self._claims, self._numbers, self._thread, self._acknowledged)
        self._writer = Writer(options, ties, self._rows, self._steps, self._notify)
        self.marks = ServerMarks(self._link, self._lease, self._thread)
        self.answers: Answers = StoredAnswers(lambda work: self._do(lambda: work(self._thread.connection)))
        self.notes: NoteStore = StoredNotes(
            lambda work: self._do(lambda: work(self._thread.connection)), POSTGRES_NOTES, os.urandom
        )

    @property
    def trouble(self) -> str:
        """The reason why new messages are refused at present, or an empty text."""
        if self._lease.unaccepted:
            return (
                f"the database has lost steps (noticed by {self._lease.unaccepted}): agentserver engine accept-loss"
                " accepts the loss"
            )
        return self._writer.outage or self._lease.outage

    def shared_time(self) -> float:
        """Return the time of the database's clock, in seconds since the epoch."""
        return self._lease.time.now()

    def report_by(self, describe: Callable[[], ServerReport]) -> None:
        """Store what a function returns with each heartbeat of this server."""
        self._lease.describe = describe

    def adopt(self, guards: Sequence[CoreGuard]) -> None:
        """Replace the guards whose memories are stored; they include the previous ones."""
        self._guards = tuple(guards)
        self._steps.adopt(self._guards)

    # Life

    async def __aenter__(self) -> Self:
        """Connect, create missing tables, and begin a lease. Raises EngineError."""
        try:
            await self._reach()
            await self._lease.begin()
            await self._writer.connect()
            await self._claims.begin_taking()
        except (EngineError, *DRIVER, TimeoutError) as error:
            await self._close()
            raise make_refusal(error) from error
        self._helping = run_errand(self._help(), "keeps the engine's helpers", ending=EndEffect.OWNER)
        await asyncio.sleep(0)
        return self

    async def _help(self) -> None:
        """Run the helpers in their own task, outside the caller's cancel scope."""
        async with anyio.create_task_group() as tasks:
            for name, work in (
                ("renews the lease of this server", self._lease.keep),
                ("takes over orphaned conversations", self._claims.take_over),
                ("commits steps", self._writer.write),
                ("sends hints", self._hints.send),
                ("polls for the fates of arrivals", self._inbox.watch_fates),
                ("writes the fates of arrivals", self._inbox.write_fates),
            ):
                start_helper(tasks, name, EndEffect.RESTART, work)

    async def _reach(self) -> None:
        """Wait for the database, for as long as the options allow, and check its tables."""
        loop = asyncio.get_running_loop()
        end, reported = loop.time() + self._options.wait, ""
        while True:
            try:
                connection = await connect(self._options, "start")
                break
            except (*DRIVER, TimeoutError) as error:
                unavailable = make_away_error(error)
                if loop.time() >= end:
                    raise unavailable from error
                if str(unavailable) != reported:
                    reported = str(unavailable)
                    logger.warning("%s; waiting for up to %g s", reported, self._options.wait)
                await asyncio.sleep(TRY)
        try:
            await tables.check(connection, self._options)
            if self._options.migrate != "never":
                await tables.migrate(connection, self._options)
            elif not await tables.exists(connection, self._options):
                raise EngineError(
                    f"schema {self._options.schema} has no tables: create them with agentserver engine migrate"
                )
        finally:
            await connection.close(timeout=1.0)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit waiting steps if the database answers, release everything, and close."""
        with anyio.CancelScope(shield=True):
            with suppress(EngineError, *DRIVER, TimeoutError):
                async with asyncio.timeout(ENDING):
                    await self.give_up()
                    await self._inbox.flush()
                    await self.marks.flush()
                    await self._hints.flush()
            self._inbox.end()
            self._claims.end()
            self._tokens.end()
            self._owner_queries.end()
            self._event_queries.end()
            self._helping.cancel()
            await asyncio.wait([self._helping])
            await self._close()

    async def _close(self) -> None:
        for link in (self._link, self._handing, self._hinting, self._lease.link):
            await link.close()
        await self._writer.close()
        await self._thread.close()

    def _begin_again(self) -> None:
        self._numbers.drop()
        self._claims.lose_all()

    def _forget(self, conversations: Collection[str]) -> None:
        self._rows.drop(conversations)
        self._inbox.forget(frozenset(conversations))
        for conversation in conversations:
            self._steps.forget(conversation)

    def _notify(self, outcome: Outcome) -> None:
        """Send hints about a committed step."""
        conversation = outcome.conversation
        if outcome.asking:
            self._hints.tell(EVERYBODY, Topic.NEWS)
        self._inbox.notify_askers(outcome)
        if conversation.closed and self._retention is not None and self._retention < LONGEST:
            self._acknowledged.forget([conversation.id])

    # Reading

    @property
    def _reader(self) -> Reader:
        return SharedReader(self._thread.connection, self._guards)

    async def find_conversation(self, conversation: str) -> ConversationFound | None:
        """Return the owner of a conversation that the journal has."""
        rows = await self._owner_queries.ask(conversation)
        return (
            None if not rows else ConversationFound(conversation, rows[0]["principal"], over=rows[0]["over"])
        )

    async def read_events(
        self,
        conversation: str,
        after: EventPlace,
        limit: int,
        *,
        gaps: bool = False,  # noqa: ARG002 - there are none
    ) -> list[Reply | Done]:
        """Return the events after a place. All of a conversation are kept for as long as it is."""
        rows = await self._event_queries.ask(conversation, *after)
        if not rows:
            raise LookupError(conversation)
        return [make_event(conversation, row[1:8]) for row in rows[:limit] if row["version"] is not None]

    async def idle(self, before: float) -> AsyncIterator[str]:
        """Yield open conversations untouched since a time that no other live server owns."""
        owner = self._lease.incarnation
        for key in await self._ask(lambda reader: reader.idle(before, _MINE, owner)):
            yield key

    async def list_sleeping(self, limit: int) -> Sequence[SleepingConversation]:
        """List the conversations that are due first and that no other live server owns."""
        owner = self._lease.incarnation
        return await self._ask(lambda reader: reader.list_sleeping(limit, _MINE, owner))

    def _numbered_before(self, number: int) -> bool:
        return number not in self._numbers

    def _make_gone_test(self, conversation: str) -> Callable[[EventPlace], bool]:
        return self._writer.make_gone_test(conversation)

    async def _ask(self, work: Callable[[Reader], T]) -> T:
        return await self._do(lambda: work(self._reader))

    async def read(self, work: Callable[[EngineReader], T]) -> T:
        """Read with a separate connection."""
        return await asyncio.get_running_loop().run_in_executor(None, self._examine, work)

    def _examine(self, work: Callable[[EngineReader], T]) -> T:
        connection = SyncConnection(self._options, "examining")
        try:
            return work(SharedReader(connection, self._guards))
        finally:
            connection.close()

    async def _do(self, work: Callable[[], T]) -> T:
        """Run a function in the reading thread."""
        try:
            return await self._thread.do(work)
        except UnreadableError as error:
            raise DamagedError(str(error)) from error

    # Claims

    def current_claim(self, conversation: str) -> Claim | None:
        """Return this process's claim on a conversation."""
        return self._claims.current_claim(conversation)

    async def claim(self, conversation: str) -> Claim | None:
        """Claim an idle conversation."""
        self._inbox.forget_owner(conversation)
        return await self._claims.claim(conversation)

    def begin_claim(self, conversation: str) -> Claim:
        """Claim a conversation that begins here."""
        return self._claims.begin(conversation)

    def changes(self) -> AsyncIterator[GainedClaims | LostClaims]:
        """Yield the conversations that this process gains and loses."""
        return self._claims.changes()

    async def release(self, conversations: Collection[str]) -> None:
        """Release idle conversations, after writing fates: an arrival without one would keep its conversation."""
        await self._inbox.flush()
        await self._claims.release(conversations)

    async def give_up(self) -> None:
        """Release everything, after waiting a few seconds for commits."""
        self._writer.end()
        try:
            async with asyncio.timeout(ENDING):
                await self._writer.drain()
                await self._claims.give_up()
        except TimeoutError as error:
            raise EngineError(
                "the database is away: other servers take over when this server's lease expires"
            ) from error

    async def open_conversations(self) -> AsyncIterator[tuple[str, str]]:
        """Yield nothing: ``open_count`` counts across all processes."""
        nothing: tuple[tuple[str, str], ...] = ()
        for each in nothing:
            yield each

    async def open_count(self, principal: str) -> int | None:
        """Count the open conversations of a principal across all processes."""
        rows = await self._fetch(_OPEN, principal)
        return int(rows[0][0])

    # Work

    def commit(self, claim: Claim, outcome: Outcome) -> asyncio.Future[None]:
        """Commit an outcome together with all that wait."""
        return self._writer.commit(claim, outcome)

    async def load(self, conversation: str) -> Conversation | None:
        """Load the last committed conversation, with the rows that its next commit needs."""
        claim = self._claims.current_claim(conversation)
        if claim is None or self._rows.knows(conversation, claim):
            return await super().load(conversation)

        def work() -> tuple[Conversation | None, RowCache | None]:
            return self._reader.load(conversation), find_rows(self._thread.connection, conversation)

        found, cache = await self._do(work)
        if not self._rows.knows(conversation, claim) and self._claims.current_claim(conversation) == claim:
            self._rows.learn(conversation, claim, cache)
        return found

    async def suspend(self, conversation: str, reason: str, at: float) -> tuple[Reply | Done, ...]:
        """Suspend a conversation. Raises FencedError when another process owns it."""
        claim = self._claims.current_claim(conversation)
        events = await self._do(
            lambda: _suspend(self._thread.connection, self._numbers, claim, (conversation, reason, at))
        )
        self._claims.drop(conversation)
        return events

    def acknowledge(self, conversation: str, place: EventPlace) -> None:
        """Remove an event from the outbox with the next statement."""
        self._writer.leave(Acknowledgement(conversation, *place))

    def confirm(self, conversation: str, place: EventPlace) -> None:
        """Remove the events up to a place from the outbox with the next statement."""
        self._writer.leave(Acknowledgement(conversation, *place, before=True))

    def abandon(self, conversation: str) -> None:
        """Empty a conversation's outbox with the next statement."""
        self._writer.leave(Acknowledgement(conversation))

    async def discard(self, delivery: str, by: str, at: float) -> bool:
        """Discard a dead letter."""
        return await self._do(lambda: retention.discard_letter(self._thread.connection, delivery, by, at))

    async def record_completion(self, done: RecordedCompletion, until: float) -> None:
        """Store a completion with its conversation."""
        await self._do(lambda: records.add_completion(self._thread.connection, done, until))

    async def give_name(self, name: str, conversation: str, at: float, *, move: bool = False) -> str:
        """Name a conversation, unless another has the name and keeps it."""
        return await self._do(
            lambda: records.claim_name(self._thread.connection, name, conversation, at, move=move)
        )

    async def expire(self, now: float, calendar: Calendar = STEADY) -> int:
        """Remove expired conversations in batches, and old fates."""
        with suppress(*DRIVER):
            await self._inbox.expire()
        while await self._do(lambda: records.expire_completions(self._thread.connection, now)):
            pass
        if self._retention is None:
            return 0
        limit, total, removed = calendar.cutoff(self._retention, now), 0, 1
        while removed:
            removed = await self._do(lambda: history.expire_conversations(self._thread.connection, limit))
            total += removed
        await history.keep_parts(self._options, self._retention)
        age = max(self._retention, history.SHORTEST)
        while await self._do(lambda: history.delete_expired_rows(self._thread.connection, age)):
            pass
        return total

    async def calendar(self) -> Calendar:
        """Read the calendar of servers with this name."""
        rows = await self._fetch(_CLOCK, self._options.name)
        if not rows:
            return Calendar()
        return Calendar(tuple(Jump(at, to) for at, to in json.loads(rows[0]["jumps"])), rows[0]["last"])

    async def keep_calendar(self, calendar: Calendar) -> None:
        """Store the calendar for the next server with this name. Raises EngineError."""
        await self._fetch(
            _KEEP_CLOCK, self._options.name, json.dumps(calendar.jumps), float(calendar.last or 0.0)
        )

    # Other processes

    async def hand_in(self, arrival: Arrival) -> asyncio.Future[ArrivalOutcome]:
        """Submit an arrival to the process that owns its conversation."""
        if self.trouble:
            raise EngineError(self.trouble)
        return await self._inbox.hand_in(arrival)

    def arrivals(self) -> AsyncIterator[Arrival]:
        """Yield the arrivals for this process."""
        return self._inbox.arrivals()

    def settle(self, arrival: Arrival, fate: ArrivalOutcome) -> None:
        """Store the fate of an arrival."""
        self._inbox.settle(arrival.id, fate)

    def news(self, list_keys: Callable[[], Collection[str]]) -> AsyncIterator[RemoteStep]:
        """Yield news of other processes' conversations."""
        return self._news.news(list_keys)

    def exclusive(self, name: str) -> AbstractAsyncContextManager[None]:
        """Enter a block exclusively among all processes, by name."""
        return self._tokens.have(name)

    async def _fetch(self, text: str, *values: object) -> Sequence[Any]:
        try:
            return await self._link.fetch(text, *values)
        except DRIVER as error:
            raise make_refusal(error) from error
