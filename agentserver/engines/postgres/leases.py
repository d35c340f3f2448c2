"""The lease of this server, and what depends on it: lost steps and exclusive tokens.

Each incarnation has a row, renewed by the clock of the database. Only a server that has been connected for longer than
a lease may expire another's: after a restart or failover of the database each server has time to renew. Commits check
claims by themselves.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict, defaultdict
from contextlib import asynccontextmanager, suppress
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from agentserver.engines.postgres.connection import DRIVER, DatabaseAwayError, Link, make_refusal
from agentserver.engines.postgres.hints import EVERYBODY, Topic
from agentserver.ports import EngineError
from agentserver.ports.servers import REPORTS, ServerReport
from agentserver.supervision import run_errand

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection

    from agentserver.engines.postgres.connection import Connection, PostgresOptions
    from agentserver.engines.postgres.hints import Hints


FORGOTTEN = 86_400.0
"""Seconds after which a dead incarnation's row is removed. One without a row counts as dead."""

LONGER = 60.0
"""Seconds by which another server's lease may be longer, and between two removals of dead incarnations."""

_BEGIN = (
    "insert into @server (name, expires) values ($1, clock_timestamp() + $2 * interval '1 second')"
    " returning incarnation, (select secret from @ledger), extract(epoch from clock_timestamp())::float8 as now"
)
_RENEW = (
    "update @server set renewed = clock_timestamp(), expires = clock_timestamp() + $2 * interval '1 second',"
    " report = $3 where incarnation = $1 and not gone returning"
    " (select array_agg(name order by number) from @loss where accepted is null) as lost,"
    " extract(epoch from clock_timestamp())::float8 as now"
)
_BURY = (
    "with over as (update @server set gone = expires < clock_timestamp(),"
    " expires = least(expires, clock_timestamp() + $2 * interval '1 second') where not gone and incarnation <> $1"
    " and not expires between clock_timestamp() and clock_timestamp() + $2 * interval '1 second'"
    " returning incarnation, gone)"
    " select incarnation, gone, null::float8 as left from over union all"
    " select 0, false, extract(epoch from min(expires) - clock_timestamp())::float8 from @server"
    " where not gone and incarnation <> $1 and expires >= clock_timestamp()"
)
"""Expires unrenewed leases, and returns the seconds until the next one can expire.

A lease beyond the longest possible one was renewed before the database's clock was set back. It is shortened."""
_END = "update @server set gone = true, blameless = blameless or $2 where incarnation = $1"
_FORGET = "delete from @server where gone and expires < clock_timestamp() - $1 * interval '1 second'"

logger = logging.getLogger("agentserver.journal")


STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

SLACK = 0.05
"""Seconds of difference that are taken for the time on the way."""

SKEW = 1.0
"""Seconds by which the machine's clock may differ from the database's without a warning."""


class DatabaseTime:
    """Time of the database's clock, which a steady clock advances between two renewals of the lease."""

    def __init__(self) -> None:
        self._offset: float | None = None

    def now(self) -> float:
        """Return the time; the machine's before the first renewal."""
        return time.time() if self._offset is None else time.clock_gettime(STEADY) + self._offset

    def measure(self, at: float, began: float) -> None:
        """Compare with a time that the database returned to a statement.

        A measurement within its own uncertainty of the known time changes nothing, so that the time stays steady.
        """
        way = (time.clock_gettime(STEADY) - began) / 2
        offset = at - began - way
        if self._offset is None or abs(offset - self._offset) > way + SLACK:
            self._offset = offset

    def warn_of_skew(self) -> None:
        """Log a warning if the machine's clock differs."""
        skew = time.time() - self.now()
        if abs(skew) > SKEW:
            text = "the clock of this machine is %.1f s %s that of the database, whose time counts here"
            logger.warning(text, abs(skew), "ahead of" if skew > 0 else "behind")


class Lease:
    """Lease of this process.

    Args:
        options: of the database.
        hints: received on the connection of the lease.
        lost: called when another incarnation has replaced this one.
        compare: checks through a new connection whether acknowledged steps are missing.
        describe: describes the work of this process; each renewal stores it. None describes nothing.
    """

    def __init__(
        self,
        options: PostgresOptions,
        hints: Hints,
        lost: Callable[[], None],
        compare: Callable[[Connection], Awaitable[bool]],
    ) -> None:
        self._options, self._hints, self._lost, self._compare = options, hints, lost, compare
        self.link = Link(options, "lease", self._prepare, within=options.lease)
        self.incarnation = 0
        self.describe: Callable[[], ServerReport] | None = None
        self.unaccepted = ""
        self.blameless = False
        self.outage = ""
        self._ended = False
        self._look = 0.0
        self.time = DatabaseTime()

    async def _prepare(self, connection: Connection) -> None:
        """Check for losses before anything else, in particular before expiring other leases."""
        await self.look_for_losses(connection)
        if self.incarnation:
            await self._hints.listen(connection, self.incarnation)

    async def look_for_losses(self, connection: Connection) -> None:
        """Refuse new messages if the connected database misses acknowledged steps."""
        if await self._compare(connection):
            self.unaccepted = self._options.name

    async def begin(self) -> None:
        """Begin an incarnation. Raises EngineError."""
        began = time.clock_gettime(STEADY)
        rows = await self.link.fetch(_BEGIN, self._options.name, self._options.lease)
        ((incarnation, secret, now),) = rows
        self.time.measure(now, began)
        self.time.warn_of_skew()
        self.incarnation, self._hints.secret = int(incarnation), secret.hex
        await self.link.run(lambda connection: self._hints.listen(connection, self.incarnation))

    async def keep(self) -> None:
        """Renew the lease in a loop, regardless of errors."""
        while True:
            pause = self._options.lease / 3
            try:
                await self.renew()
            except DatabaseAwayError as error:
                if not self.outage:
                    logger.warning("the lease cannot be renewed: %s", error)
                self.outage = str(error)
                pause = min(pause, 0.25)
            except DRIVER as error:
                logger.error("the lease cannot be renewed: %s", error)  # noqa: TRY400 - the text says it all
            await asyncio.sleep(pause)

    async def renew(self) -> None:
        """Renew the lease once, or begin another incarnation if it expired. Raises EngineError."""
        if self._ended:
            return
        began = time.clock_gettime(STEADY)
        report = ServerReport() if self.describe is None else self.describe()
        data = REPORTS.dump(report).decode()
        rows = await self.link.fetch(_RENEW, self.incarnation, self._options.lease, data)
        self.outage = ""
        if rows:
            self.time.measure(rows[0]["now"], began)
            lost = ", ".join(rows[0]["lost"] or ())
            if self.unaccepted and not lost:  # an operator has accepted the loss
                await self.begin_again()
            self.unaccepted = lost
        elif not self._ended:
            await self.begin_again()

    async def begin_again(self) -> None:
        """Begin another incarnation, which has none of the claims of the previous one."""
        logger.warning("the lease of this server expired: it begins another one, and drops all conversations")
        await self.link.fetch(_END, self.incarnation, True)
        before = self.incarnation
        try:
            await self.begin()
        finally:
            if self.incarnation != before:
                self._lost()

    async def bury(self) -> float:
        """Expire unrenewed leases of other servers. Returns the seconds until the next one can expire.

        Raises EngineError.
        """
        since, lease, now = self.link.since, self._options.lease, asyncio.get_running_loop().time()
        if since is None or now - since < lease:
            return lease if since is None else since + lease - now
        rows = await self.link.fetch(_BURY, self.incarnation, lease + LONGER)
        buried = [row["incarnation"] for row in rows if row["gone"]]
        for incarnation in buried:
            text = "server number %d did not renew its lease: its conversations are taken over"
            logger.warning(text, incarnation)
        for topic in (Topic.LEASES, Topic.INBOX) if buried else ():
            self._hints.tell(EVERYBODY, topic)  # including this server
        if now >= self._look:
            self._look = now + LONGER
            await self.link.fetch(_FORGET, FORGOTTEN)
        return min((row["left"] for row in rows if row["left"] is not None), default=lease)

    async def end(self) -> None:
        """End the lease, so that others need not wait for its expiry. Raises EngineError."""
        if self._ended or not self.incarnation:
            return
        self._ended = True
        try:
            await self.link.fetch(_END, self.incarnation, self.blameless)
        except (EngineError, *DRIVER) as error:
            raise EngineError(f"the lease cannot be given up: {error}") from error
        self._hints.tell(EVERYBODY, Topic.LEASES)


MOST = 8192
"""Most conversations whose latest step is remembered."""

LONGEST = 3600.0
"""Seconds for which a step is remembered."""

NAMED = 100
"""Most conversations named in the row of a loss."""

_THERE = "select number, chain from {0}.step where number = any($1::bigint[])"
_NOTE = "insert into {0}.loss (name, conversations) values ($1, $2)"

logger = logging.getLogger("agentserver.journal")


class _Step(NamedTuple):
    number: int
    chain: bytes
    at: float


class AcknowledgedSteps:
    """Latest acknowledged step of each recently active conversation.

    A standby that lagged behind when it took over may lack such steps. Their ids are compared with the database at each
    new connection; versions would not do, since a lost one may be used again.

    Args:
        options: of the database.
    """

    def __init__(self, options: PostgresOptions) -> None:
        self._options = options
        self._steps: OrderedDict[str, _Step] = OrderedDict()
        self._comparing = asyncio.Lock()  # concurrent connections would note a loss twice

    def note(self, conversation: str, number: int, chain: bytes) -> None:
        """Remember a step."""
        self._steps[conversation] = _Step(number, chain, monotonic())
        self._steps.move_to_end(conversation)
        if len(self._steps) > MOST:
            self._steps.popitem(last=False)

    def forget(self, conversations: Collection[str]) -> None:
        """Forget steps of removed conversations, or accepted losses."""
        for conversation in conversations:
            self._steps.pop(conversation, None)

    async def compare(self, connection: Connection) -> bool:
        """Find missing steps, and note them for all servers. Returns whether there are any."""
        async with self._comparing:
            return await self._compare(connection)

    async def _compare(self, connection: Connection) -> bool:
        now = monotonic()
        known = {key: step for key, step in self._steps.items() if now - step.at < LONGEST}
        numbers = [step.number for step in known.values()]
        schema = f'"{self._options.schema}"'
        stored = dict(await connection.fetch(_THERE.format(schema), numbers)) if numbers else {}
        missing = [key for key, step in known.items() if stored.get(step.number) != step.chain]
        if not missing:
            return False
        logger.critical(
            "the database has lost acknowledged steps of %d conversations: nothing new is accepted until an operator"
            " accepts the loss with agentserver engine accept-loss",
            len(missing),
        )
        await connection.execute(_NOTE.format(schema), self._options.name, missing[:NAMED])
        self.forget(missing)
        return True


LOOK = 0.5
"""Seconds between two attempts to take a token."""

_TAKE = (
    "insert into @token as t (name, owner) values ($2, $1) on conflict (name) do update set owner = $1"
    " where t.owner = $1 or not exists (select from @server s where s.incarnation = t.owner and not s.gone)"
    " returning t.name"
)
_GIVE = "delete from @token where name = $2 and owner = $1"


class Tokens:
    """Exclusive tokens of this process.

    Args:
        link: for statements.
        lease: of this process, which ends its tokens too.
        hints: to and from waiting processes.
    """

    def __init__(self, link: Link, lease: Lease, hints: Hints) -> None:
        self._link, self._lease, self._hints = link, lease, hints
        self._giving: set[asyncio.Task[None]] = set()
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    @asynccontextmanager
    async def have(self, name: str) -> AsyncIterator[None]:
        """Hold a token, after waiting for it. Raises EngineError."""
        async with self._locks[name]:
            owner = await self._take(name)
            try:
                yield
            finally:
                await self._give(owner, name)

    async def _give(self, owner: int, name: str) -> None:
        """Give a token back, and retry in the background: it would stay here as long as the lease."""
        done = False
        try:
            with suppress(EngineError, *DRIVER):
                done = await self._free(owner, name)
        finally:
            if not done:
                giving = run_errand(self._give_later(owner, name), "gives back a token")
                self._giving.add(giving)
                giving.add_done_callback(self._giving.discard)

    async def _free(self, owner: int, name: str) -> bool:
        await self._link.fetch(_GIVE, owner, name)
        self._hints.tell(EVERYBODY, Topic.TOKENS)
        return True

    async def _give_later(self, owner: int, name: str) -> None:
        done = False
        while not done and self._lease.incarnation == owner:
            await asyncio.sleep(LOOK)
            async with self._locks[name]:
                with suppress(EngineError, *DRIVER):
                    done = await self._free(owner, name)

    def end(self) -> None:
        """Cancel pending releases, since the lease has ended."""
        for giving in self._giving:
            giving.cancel()

    async def _take(self, name: str) -> int:
        while True:
            owner = self._lease.incarnation
            try:
                if await self._link.fetch(_TAKE, owner, name):
                    return owner
            except DRIVER as error:
                raise make_refusal(error) from error
            await self._hints.wait(Topic.TOKENS, LOOK)
