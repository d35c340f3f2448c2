"""The engine of several servers that share one Postgres database.

Owns its parts and their life: the lease, claims, the writer of groups, the inbox, hints, tokens, marks and the thread
that reads. Refuses to know statements.
"""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar, cast

import anyio

from agentserver.core.encoding.snapshot import UnreadableError
from agentserver.core.state.elapsed import STEADY, Calendar, Jump
from agentserver.engines.journal import records, retention, suspension
from agentserver.engines.journal.connection import transaction
from agentserver.engines.journal.events import make_event
from agentserver.engines.journal.reader import JournalReads, Reader
from agentserver.engines.journal.records import StoredAnswers
from agentserver.engines.journal.rows import Left
from agentserver.engines.journal.step_data import StepMaker
from agentserver.engines.journal.stored import find_rows
from agentserver.engines.postgres import history, tables
from agentserver.engines.postgres.claims import FREE, Claims
from agentserver.engines.postgres.connection import DRIVER, Link, connect, refused, unreachable
from agentserver.engines.postgres.hints import EVERYBODY, Hints, Topic
from agentserver.engines.postgres.inbox import Inbox
from agentserver.engines.postgres.leases import LONGEST, Acknowledged, Lease, Tokens
from agentserver.engines.postgres.marks import ServerMarks
from agentserver.engines.postgres.news import LEFT, STANDING, Questions, Watching
from agentserver.engines.postgres.rows import DRAW, ClaimedRows, Numbers
from agentserver.engines.postgres.threads import ReadingThread, SyncConnection
from agentserver.engines.postgres.writer import Ties, Writer
from agentserver.ports import ConversationFound, DamagedError, EngineError, FencedError
from agentserver.supervision import EndEffect, run_errand, start_helper

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Sequence
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType
    from typing import Self

    from agentserver.core.guard import CoreGuard
    from agentserver.core.messages import Done, EventPlace, Reply
    from agentserver.core.records.outcome import Outcome
    from agentserver.core.state.conversation import Conversation
    from agentserver.engines.journal.stored import RowCache
    from agentserver.engines.postgres.connection import PostgresOptions
    from agentserver.ports import Answers, Arrival, Claim, EngineReader, Fate, GainedClaims, LostClaims, News


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
"""Seconds between two attempts to reach a database that is away at the start."""

ENDING = 5.0
"""Seconds for which the end of an engine waits for the database."""

_OPEN = "select count(*) from @conversation where principal = $1 and closed is null"
_CLOCK = "select jumps, last from @clock where name = $1"
_KEEP_CLOCK = (
    "insert into @clock values ($1, $2, $3) on conflict (name) do update set jumps = excluded.jumps,"
    " last = excluded.last"
)


class PostgresEngine(JournalReads):
    """A journal that several servers share.

    Args:
        options: of the database.
        guards: those whose memories are kept with the conversations.
        retention: seconds for which closed conversations are kept; None is for ever.
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
        self._acknowledged = Acknowledged(options)
        self._lease = Lease(options, self._hints, self._begin_again, self._acknowledged.compare)
        self._claims = Claims(self._link, self._lease, self._hints, self._forget)
        self._handing = Link(options, "inbox")
        self._inbox = Inbox((self._link, self._handing), self._lease, self._claims, self._hints)
        self._tokens = Tokens(self._link, self._lease, self._hints)
        self._watching = Watching(self._link, self._claims, self._hints)
        self._standings, self._leavings = Questions(self._link, STANDING), Questions(self._link, LEFT)
        self._numbers = Numbers(self._link)
        self._rows = ClaimedRows(self._numbers)
        self._steps = StepMaker(self._guards)
        ties = Ties(self._lease, self._claims, self._numbers, self._thread, self._acknowledged)
        self._writer = Writer(options, ties, self._rows, self._steps, self._tell_of)
        self.marks = ServerMarks(self._link, self._lease, self._thread)
        self.answers: Answers = StoredAnswers(lambda work: self._do(lambda: work(self._thread.connection)))

    @property
    def trouble(self) -> str:
        """The reason for which nothing new is accepted at present; empty where there is none."""
        if self._lease.unaccepted:
            return (
                f"the database has lost steps (noticed by {self._lease.unaccepted}): agentserver engine accept-loss"
                " accepts that"
            )
        return self._writer.away or self._lease.away

    def adopt(self, guards: Sequence[CoreGuard]) -> None:
        """Keep the memories of these guards from now on, those of before among them."""
        self._guards = tuple(guards)
        self._steps.adopt(self._guards)

    # Life

    async def __aenter__(self) -> Self:
        """Connect, make the tables where they are missing, and begin a lease. Raises EngineError."""
        try:
            await self._reach()
            await self._lease.begin()
            await self._writer.connect()
            await self._claims.begin_taking()
        except (EngineError, *DRIVER, TimeoutError) as error:
            await self._close()
            raise refused(error) from error
        self._helping = run_errand(self._help(), "keeps the engine's helpers", ending=EndEffect.OWNER)
        await asyncio.sleep(0)
        return self

    async def _help(self) -> None:
        """Run the helpers, in a task of their own: it ends whatever scope the engine was opened in."""
        async with anyio.create_task_group() as tasks:
            for name, work in (
                ("renews the lease of this server", self._lease.keep),
                ("takes over what servers have left", self._claims.take_over),
                ("commits steps", self._writer.write),
                ("sends hints", self._hints.send),
                ("looks for the fates of arrivals", self._inbox.watch_fates),
                ("writes the fates of arrivals", self._inbox.write_fates),
            ):
                start_helper(tasks, name, EndEffect.RESTART, work)

    async def _reach(self) -> None:
        """Reach the database, within the time that the start may wait for it, and look at its tables."""
        loop = asyncio.get_running_loop()
        end, reported = loop.time() + self._options.wait, ""
        while True:
            try:
                connection = await connect(self._options, "start")
                break
            except (*DRIVER, TimeoutError) as error:
                away = unreachable(error)
                if loop.time() >= end:
                    raise away from error
                if str(away) != reported:
                    reported = str(away)
                    logger.warning("%s; waiting for up to %g s", reported, self._options.wait)
                await asyncio.sleep(TRY)
        try:
            await tables.check(connection, self._options)
            if self._options.migrate != "never":
                await tables.migrate(connection, self._options)
            elif not await tables.exists(connection, self._options):
                raise EngineError(
                    f"schema {self._options.schema} has no tables: agentserver engine migrate makes them"
                )
        finally:
            await connection.close(timeout=1.0)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit what waits as far as the database lets it, give everything back, and close."""
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
            self._standings.end()
            self._leavings.end()
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

    def _tell_of(self, outcome: Outcome) -> None:
        """Send hints about a step that is kept."""
        conversation = outcome.conversation
        if outcome.asking:
            self._hints.tell(EVERYBODY, Topic.NEWS)
        self._inbox.notify_askers(outcome)
        if conversation.closed and self._retention is not None and self._retention < LONGEST:
            self._acknowledged.forget([conversation.id])

    # Reading

    @property
    def _reader(self) -> Reader:
        return Reader(self._thread.connection, self._guards)

    async def find_conversation(self, conversation: str) -> ConversationFound | None:
        """The owner of a conversation that the journal has."""
        rows = await self._standings.ask(conversation)
        return (
            None if not rows else ConversationFound(conversation, rows[0]["principal"], over=rows[0]["over"])
        )

    async def read_events(
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
        return [make_event(conversation, row[1:8]) for row in rows[:most] if row["version"] is not None]

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

    # Claims

    def current_claim(self, conversation: str) -> Claim | None:
        """The claim of this process on a conversation."""
        return self._claims.current_claim(conversation)

    async def claim(self, conversation: str) -> Claim | None:
        """Claim a conversation that is at rest."""
        return await self._claims.claim(conversation)

    def begin_claim(self, conversation: str) -> Claim:
        """Claim a conversation that begins here."""
        return self._claims.begin(conversation)

    def changes(self) -> AsyncIterator[GainedClaims | LostClaims]:
        """Give the conversations that this process gains and loses."""
        return self._claims.changes()

    async def release(self, conversations: Collection[str]) -> None:
        """Give back conversations at rest. One with an arrival whose fate is not written would stay."""
        await self._inbox.flush()
        await self._claims.release(conversations)

    async def give_up(self) -> None:
        """Give everything back: commits that wait come to their end first, for a few seconds at most."""
        self._writer.end()
        try:
            async with asyncio.timeout(ENDING):
                await self._writer.rest()
                await self._claims.give_up()
        except TimeoutError as error:
            raise EngineError(
                "the database is away: what this server had is taken over once its lease is over"
            ) from error

    async def open_conversations(self) -> AsyncIterator[tuple[str, str]]:
        """None: ``open_count`` counts those of all processes."""
        nothing: tuple[tuple[str, str], ...] = ()
        for each in nothing:
            yield each

    async def open_count(self, principal: str) -> int | None:
        """Count the open conversations of a principal, over all processes."""
        rows = await self._fetch(_OPEN, principal)
        return int(rows[0][0])

    # Work

    def commit(self, claim: Claim, outcome: Outcome) -> asyncio.Future[None]:
        """Make an outcome permanent, together with all others that wait."""
        return self._writer.commit(claim, outcome)

    async def load(self, conversation: str) -> Conversation | None:
        """The conversation as last committed. What its next commit needs to know is read along with it."""
        claim = self._claims.current_claim(conversation)
        if claim is None or self._rows.knows(conversation, claim):
            return await super().load(conversation)

        def work() -> tuple[Conversation | None, RowCache | None]:
            return self._reader.load(conversation), find_rows(self._thread.connection, conversation)

        found, kept = await self._do(work)
        if not self._rows.knows(conversation, claim) and self._claims.current_claim(conversation) == claim:
            self._rows.learn(conversation, claim, kept)
        return found

    async def suspend(self, conversation: str, reason: str, at: float) -> tuple[Reply | Done, ...]:
        """Let a conversation go on no more. Raises FencedError when another process has it."""
        claim = self._claims.current_claim(conversation)
        events = await self._do(
            lambda: _suspend(self._thread.connection, self._numbers, claim, (conversation, reason, at))
        )
        self._claims.drop(conversation)
        return events

    def acknowledge(self, conversation: str, place: EventPlace) -> None:
        """Let an event out of the outbox with the next statement."""
        self._writer.leave(Left(conversation, *place))

    def confirm(self, conversation: str, place: EventPlace) -> None:
        """Let the events up to a place out of the outbox with the next statement."""
        self._writer.leave(Left(conversation, *place, before=True))

    def abandon(self, conversation: str) -> None:
        """Let everything that has left out of the outbox with the next statement."""
        self._writer.leave(Left(conversation))

    async def discard(self, delivery: str) -> bool:
        """Take a dead letter off the list."""
        return await self._do(lambda: retention.discard_letter(self._thread.connection, delivery))

    async def give_name(self, name: str, conversation: str, at: float) -> str:
        """Give a conversation a name, unless another has it."""
        return await self._do(lambda: records.claim_name(self._thread.connection, name, conversation, at))

    async def expire(self, now: float, calendar: Calendar = STEADY) -> int:
        """Remove closed conversations whose retention is over, some at a time, and the fates of old arrivals."""
        with suppress(*DRIVER):
            await self._inbox.expire()
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
        """The calendar that a server of this name has kept."""
        rows = await self._fetch(_CLOCK, self._options.name)
        if not rows:
            return Calendar()
        return Calendar(tuple(Jump(at, to) for at, to in json.loads(rows[0]["jumps"])), rows[0]["last"])

    async def keep_calendar(self, calendar: Calendar) -> None:
        """Keep the calendar for the next server of this name. Raises EngineError."""
        await self._fetch(
            _KEEP_CLOCK, self._options.name, json.dumps(calendar.jumps), float(calendar.last or 0.0)
        )

    # Other processes

    async def hand_in(self, arrival: Arrival) -> asyncio.Future[Fate]:
        """Keep an arrival for the process that has its conversation."""
        if self.trouble:
            raise EngineError(self.trouble)
        return await self._inbox.hand_in(arrival)

    def arrivals(self) -> AsyncIterator[Arrival]:
        """Give the arrivals for this process."""
        return self._inbox.arrivals()

    def settle(self, arrival: Arrival, fate: Fate) -> None:
        """Keep what became of an arrival."""
        self._inbox.settle(arrival.id, fate)

    def news(self, wanted: Callable[[], Collection[str]]) -> AsyncIterator[News]:
        """News of what other processes have."""
        return self._watching.news(wanted)

    def exclusive(self, name: str) -> AbstractAsyncContextManager[None]:
        """Be the only one that is inside under a name."""
        return self._tokens.have(name)

    async def _fetch(self, text: str, *values: object) -> Sequence[Any]:
        try:
            return await self._link.fetch(text, *values)
        except DRIVER as error:
            raise refused(error) from error
