"""Group commit: steps that arrive while a statement runs share the next one.

A statement without an answer is sent again unchanged until it is answered: the absence of a step proves nothing while
another connection may still carry it.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from agentserver.core.encoding.snapshot import UnreadableError
from agentserver.core.messages import RedrivenLetter, RequeuedLetter
from agentserver.core.receipts import Receipt
from agentserver.engines.journal.rows import Acknowledgement
from agentserver.engines.journal.rows import make_gone_test as make_test
from agentserver.engines.journal.step_data import StepMaker, from_outside
from agentserver.engines.journal.stored import find_dead_row, find_rows
from agentserver.engines.postgres import tables
from agentserver.engines.postgres.batch import StatementComposer
from agentserver.engines.postgres.connection import (
    DRIVER,
    DatabaseAwayError,
    Link,
    StatementFailure,
    classify,
    make_refusal,
    say,
)
from agentserver.engines.postgres.rows import count
from agentserver.ports import (
    ConflictError,
    DamagedError,
    EngineError,
    FencedError,
    RepeatedError,
    UnstorableError,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    import asyncpg

    from agentserver.core.messages import EventPlace
    from agentserver.core.records.outcome import Outcome
    from agentserver.engines.journal.step_data import EncodedOutcome, StepData
    from agentserver.engines.journal.stored import RowCache
    from agentserver.engines.postgres.batch import PreparedStep
    from agentserver.engines.postgres.claims import Claims
    from agentserver.engines.postgres.connection import Connection, PostgresOptions
    from agentserver.engines.postgres.leases import AcknowledgedSteps, Lease
    from agentserver.engines.postgres.rows import ClaimedRows, Numbers
    from agentserver.engines.postgres.threads import ReadingThread
    from agentserver.ports import Claim

    Failed = Exception

R = TypeVar("R")

MOST = 256
"""Most steps that one statement commits."""

LAZY = 0.02
"""Seconds for which an acknowledgement waits to share a commit."""

SOONEST, LATEST = 0.05, 1.0
"""Seconds before a statement is resent."""

UNIQUE = "23505"
NO_PARTITION = "23514"
"""The state for a row whose part of history was dropped: its number is too old."""

_DIAGNOSE = (
    "with barrier as (update @server set barrier = barrier + 1 where incarnation = $1)"
    " select c.owner, c.epoch, c.version, c.closed, r.request, r.content,"
    " exists (select from @step s where s.number = $3 and s.conversation = c.number and s.chain = $4) as kept"
    " from (select 1) as one left join @conversation c on c.id = $2"
    " left join @receipt r on r.conversation = c.number and r.name = $5"
)
"""Finds why a statement did not commit a step. Its own write makes the answer as durable as a commit."""

logger = logging.getLogger("agentserver.journal")


class PendingCommit(NamedTuple):
    """Commit that waits."""

    encoded: EncodedOutcome
    claim: Claim
    done: asyncio.Future[None]

    @property
    def conversation(self) -> str:
        """The id of its conversation."""
        return self.encoded.outcome.conversation.id

    def fail(self, error: EngineError) -> None:
        """Report that the step was not committed."""
        if not self.done.done():
            self.done.set_exception(error)

    def complete(self) -> None:
        """Report that the step was committed."""
        if not self.done.done():
            self.done.set_result(None)


class Ready(NamedTuple):
    """Commit with its rows."""

    commit: PendingCommit
    step: StepData
    prepared: PreparedStep


class CommitDependencies(NamedTuple):
    """Components of the engine that commits depend on."""

    lease: Lease
    claims: Claims
    numbers: Numbers
    thread: ReadingThread
    acknowledged: AcknowledgedSteps


class Writer:
    """Group committer for the steps of one process.

    Args:
        options: of the database.
        ties: components that commits depend on.
        rows: of claimed conversations.
        steps: converts outcomes to steps.
        released: called with each committed outcome.
    """

    def __init__(
        self,
        options: PostgresOptions,
        ties: CommitDependencies,
        rows: ClaimedRows,
        steps: StepMaker,
        released: Callable[[Outcome], None],
    ) -> None:
        self._options, self._ties, self._rows, self._steps = options, ties, rows, steps
        self._released = released
        self._link = Link(options, "writer", self._prepare_connection)
        self._statements = StatementComposer()
        self._queued: list[PendingCommit] = []
        self._acknowledged: list[Acknowledgement] = []
        self._leaving: list[Acknowledgement] = []
        self._some = asyncio.Event()
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._over = False
        self.outage = ""

    # Entrance

    def commit(self, claim: Claim, outcome: Outcome) -> asyncio.Future[None]:
        """Commit an outcome together with all that wait."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        encoded = self._find_objection(claim, outcome) or self._steps.encode(outcome)
        if isinstance(encoded, EngineError):
            done.set_exception(encoded)
            return done
        self._queued.append(PendingCommit(encoded, claim, done))
        self._quiet.clear()
        self._some.set()
        return done

    def _find_objection(self, claim: Claim, outcome: Outcome) -> EngineError | None:
        if self._ties.claims.current_claim(outcome.conversation.id) != claim:
            return FencedError("another process has the conversation")
        if self._ties.lease.unaccepted:
            return EngineError(
                f"steps are missing in the database (noticed by {self._ties.lease.unaccepted})"
            )
        if self._over:
            return EngineError("the engine is closed")
        return EngineError(self.outage) if self.outage and from_outside(outcome) else None

    def leave(self, acknowledgement: Acknowledgement) -> None:
        """Remove events from the outbox soon."""
        self._acknowledged.append(acknowledgement)
        self._quiet.clear()
        asyncio.get_running_loop().call_later(LAZY, self._some.set)

    def make_gone_test(self, conversation: str) -> Callable[[EventPlace], bool]:
        """Make a test for places whose acknowledgements are about to be written."""
        return make_test((*self._acknowledged, *self._leaving), conversation)

    # Groups

    async def write(self) -> None:
        """Commit waiting steps, in a loop."""
        while True:
            while self._queued or self._acknowledged:
                await self._write_group()
            self._quiet.set()
            if (
                self.outage and not self._over
            ):  # new messages are refused meanwhile, so no commit would notice its return
                await self._reach()
                continue
            await self._some.wait()
            self._some.clear()

    async def _reach(self) -> None:
        """Check whether the database is back."""
        try:
            await self.connect()
        except (EngineError, *DRIVER):
            await asyncio.sleep(LATEST)
        else:
            self.outage = ""

    async def _write_group(self) -> None:
        group = self._take_next()
        self._leaving, self._acknowledged = self._acknowledged, []
        try:
            ready = await self._make(group)
            if ready or self._leaving:
                await self._commit(ready, self._leaving)
        except (EngineError, *DRIVER) as error:
            for one in group:
                self._fail(one, make_refusal(error))
        except asyncio.CancelledError:
            group, self._queued = [*group, *self._queued], []
            raise
        finally:
            self._leaving = []
            for one in group:
                if not one.done.done():  # this task was cancelled or failed
                    self._fail(one, EngineError("the engine closed before the database confirmed the commit"))

    def _take_next(self) -> list[PendingCommit]:
        """Take waiting commits, one of each conversation."""
        group: dict[str, PendingCommit] = {}
        remaining = []
        for one in self._queued:
            if one.conversation in group or len(group) >= MOST:
                remaining.append(one)
            else:
                group[one.conversation] = one
        self._queued = remaining
        return list(group.values())

    async def _make(self, group: Sequence[PendingCommit]) -> list[Ready]:
        """Make rows of commits that may succeed, and fail the others."""
        await self._learn(group)
        needed = sum(count(one.encoded) for one in group)
        if needed:
            await self._retry(lambda: self._ties.numbers.draw(needed))
        ready = []
        for one in group:
            if one.done.done():
                continue
            try:
                step = self._steps.make_step(one.encoded)
                ready.append(Ready(one, step, self._rows.prepare(step, one.encoded, one.claim)))
            except EngineError as error:
                self._fail(one, error)
            except (TypeError, ValueError, LookupError, OverflowError) as error:
                self._fail(one, UnstorableError(f"an outcome that cannot be encoded: {error}"))
        return ready

    async def _learn(self, group: Sequence[PendingCommit]) -> None:
        """Read the stored rows of newly claimed conversations and of requeued letters."""
        for one in group:
            cause = one.encoded.outcome.cause
            try:
                if one.encoded.outcome.before and not self._rows.knows(one.conversation, one.claim):
                    cache = await self._read(partial(self._find, one.conversation))
                    self._rows.learn(one.conversation, one.claim, cache)
                if isinstance(cause, RequeuedLetter | RedrivenLetter):
                    await self._learn_letter(one, cause)
            except UnreadableError as error:
                self._fail(one, DamagedError(str(error)))
            except EngineError as error:
                self._fail(one, error)

    def _find(self, conversation: str) -> RowCache | None:
        return find_rows(self._ties.thread.connection, conversation)

    async def _learn_letter(self, one: PendingCommit, cause: RequeuedLetter | RedrivenLetter) -> None:
        letter = cause.delivery
        key = letter.conversation if isinstance(cause, RedrivenLetter) else one.conversation
        row = await self._read(lambda: find_dead_row(self._ties.thread.connection, key, letter.id))
        if row is None:
            raise UnstorableError("only a dead letter can be requeued")
        self._rows.learn_letter(key, letter.id, row)

    async def _read(self, work: Callable[[], R]) -> R:
        while True:
            try:
                return await self._ties.thread.do(work)
            except DatabaseAwayError as error:
                await self._wait(error, LATEST)

    # Statements

    async def _commit(self, ready: Sequence[Ready], acknowledged: Sequence[Acknowledgement]) -> None:
        text, values = self._statements.compose([one.prepared for one in ready], acknowledged)
        try:
            rows = await self._retry(lambda: self._link.fetch(text, *values))
        except DRIVER as error:
            await self._part(ready, acknowledged, error)
            return
        numbers = {row[0] for row in rows}
        for one in ready:
            if one.prepared.number in numbers:
                self._keep(one)
            else:
                await self._diagnose(one)

    async def _part(
        self, ready: Sequence[Ready], acknowledged: Sequence[Acknowledgement], error: Failed
    ) -> None:
        """Handle a refused statement: split it if one row may be at fault, or fail its commits."""
        if len(ready) > 1 and classify(error) is StatementFailure.ROW:
            for one in ready:
                await self._commit([one], ())
            if acknowledged:
                await self._commit((), acknowledged)
            return
        for one in ready:
            if getattr(error, "sqlstate", None) == NO_PARTITION:
                self._ties.numbers.drop()
                self._fail(one.commit, EngineError(f"its row numbers are too old: {say(error)}"))
            elif getattr(error, "sqlstate", None) == UNIQUE:
                if await self._is_kept(one):  # by a concurrent unanswered statement
                    continue
                self._ties.numbers.drop()  # so that a repeated commit gets new numbers
                self._fail(one.commit, EngineError(f"its row numbers are taken: {say(error)}"))
            elif classify(error) is StatementFailure.ROW:
                self._fail(one.commit, UnstorableError(f"the database refuses a row: {say(error)}"))
            else:
                self._fail(one.commit, make_refusal(error))

    async def _diagnose(self, one: Ready) -> None:
        """Answer a commit that changed no row, which may have been stored by an earlier attempt."""
        prepared, row = one.prepared, await self._look(one)
        if row["kept"]:
            self._keep(one)
            return
        claim = self._ties.claims.current_claim(prepared.conversation)
        if row["closed"] is not None:
            self._ties.claims.lose(prepared.conversation, prepared.claim)
            self._fail(one.commit, ConflictError(prepared.conversation))
        elif (row["owner"], row["epoch"]) != prepared.claim or claim != prepared.claim:
            self._ties.claims.lose(prepared.conversation, prepared.claim)
            self._fail(one.commit, FencedError("another process has the conversation"))
        elif row["version"] != prepared.before:
            self._fail(one.commit, ConflictError(prepared.conversation))
        elif row["request"] is not None:
            self._fail(one.commit, RepeatedError(Receipt(row["request"], row["content"])))
        else:
            self._fail(one.commit, EngineError("the conversation was changed concurrently"))

    async def _is_kept(self, one: Ready) -> bool:
        """Confirm a commit if an earlier attempt stored it. Returns whether it did."""
        stored = bool((await self._look(one))["kept"])
        if stored:
            self._keep(one)
        return stored

    async def _look(self, one: Ready) -> asyncpg.Record:
        prepared = one.prepared
        key = (prepared.conversation, prepared.step, prepared.chain, prepared.receipt)
        (row,) = await self._retry(lambda: self._link.fetch(_DIAGNOSE, self._ties.lease.incarnation, *key))
        return row

    def _keep(self, one: Ready) -> None:
        self._steps.note_stored(one.commit.encoded, one.step)
        prepared = one.prepared
        self._ties.acknowledged.note(prepared.conversation, prepared.step, prepared.chain)
        one.commit.complete()
        self._released(one.commit.encoded.outcome)
        if one.step.closed:
            self._ties.claims.drop(prepared.conversation)

    def _fail(self, one: PendingCommit, error: EngineError) -> None:
        self._rows.drop([one.conversation])
        self._steps.forget(one.conversation)
        one.fail(error)

    # Retries

    async def _retry(self, work: Callable[[], Awaitable[R]]) -> R:
        """Retry a call until the database answers. Raises asyncpg's error for a refusal."""
        pause = SOONEST
        while True:
            try:
                found = await work()
            except DatabaseAwayError as error:
                await self._wait(error, pause)
            except DRIVER as error:
                if classify(error) is not StatementFailure.AGAIN:
                    raise
                logger.info("a statement is resent: %s", error)
                await asyncio.sleep(SOONEST)
            else:
                self.outage = ""
                return found
            pause = min(2 * pause, LATEST)

    async def _wait(self, error: DatabaseAwayError, seconds: float) -> None:
        """Wait for the database, and refuse unsent commits of outside messages meanwhile."""
        if not self.outage:
            logger.error("commits wait for the database: %s", error)
        self.outage = str(error)
        queued, self._queued = self._queued, []
        for one in queued:
            if from_outside(one.encoded.outcome):
                self._fail(one, EngineError(self.outage))
            else:
                self._queued.append(one)
        if self._over:
            raise EngineError(self.outage) from error
        await asyncio.sleep(seconds)

    async def _prepare_connection(self, connection: Connection) -> None:
        await tables.check(connection, self._options)
        await self._ties.lease.look_for_losses(connection)
        if self._ties.lease.unaccepted:
            raise DatabaseAwayError(
                f"steps are missing in the database (noticed by {self._ties.lease.unaccepted})"
            )

    # Life

    async def connect(self) -> None:
        """Connect. Raises EngineError and asyncpg's errors."""
        await self._link.fetch("select 1")

    def end(self) -> None:
        """Stop waiting for an unreachable database."""
        self._over = True

    async def drain(self) -> None:
        """Wait until no commit or acknowledgement waits."""
        if self._acknowledged:
            self._some.set()
        await self._quiet.wait()

    async def close(self) -> None:
        """Close the connection."""
        await self._link.close()
