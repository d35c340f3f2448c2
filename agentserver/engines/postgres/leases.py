"""The lease of this server: one row for each incarnation, renewed by the clock of the database.

Owns the incarnation, its renewal, the end of those that have not renewed theirs, and a new incarnation once it is lost.
A lease is taken for over only by a server that has itself been connected for longer than a lease: after a restart or a
fail-over of the database each server has the time to renew. Refuses to know what is worked on under a lease: commits
check the claims by themselves.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, defaultdict
from contextlib import asynccontextmanager, suppress
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from agentserver.engines.postgres.connection import DRIVER, AwayError, Link, refused
from agentserver.engines.postgres.hints import EVERYBODY, Topic
from agentserver.ports import EngineError
from agentserver.supervision import run_errand

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection

    from agentserver.engines.postgres.connection import Connection, PostgresOptions
    from agentserver.engines.postgres.hints import Hints


FORGOTTEN = 86_400.0
"""Seconds after which the row of an incarnation that is over is removed: one without a row is over as well."""

LONGER = 60.0
"""Seconds by which the lease of another server may be longer. So often rows of incarnations are removed."""

_BEGIN = (
    "insert into @server (name, expires) values ($1, clock_timestamp() + $2 * interval '1 second')"
    " returning incarnation, (select secret from @ledger)"
)
_RENEW = (
    "update @server set expires = clock_timestamp() + $2 * interval '1 second'"
    " where incarnation = $1 and not gone returning"
    " (select array_agg(name order by number) from @loss where accepted is null) as lost"
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
"""Ends leases that were not renewed, and returns the seconds until the next one can end.

A lease that would last longer than any was renewed before the clock of the database went back. It is shortened."""
_END = "update @server set gone = true, blameless = blameless or $2 where incarnation = $1"
_FORGET = "delete from @server where gone and expires < clock_timestamp() - $1 * interval '1 second'"

logger = logging.getLogger("agentserver.journal")


class Lease:
    """The lease of this process.

    Args:
        options: of the database.
        hints: are heard on the connection of the lease.
        lost: called with nothing when the incarnation is over and another begins.
        compare: says by a new connection whether acknowledged steps are missing.
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
        self.unaccepted = ""
        self.blameless = False
        self.away = ""
        self._ended = False
        self._look = 0.0

    async def _prepare(self, connection: Connection) -> None:
        """Look for losses before anything else: also where nothing is to be committed, and before others are buried."""
        await self.look_for_losses(connection)
        if self.incarnation:
            await self._hints.listen(connection, self.incarnation)

    async def look_for_losses(self, connection: Connection) -> None:
        """Accept nothing any more where the database that is connected to misses acknowledged steps."""
        if await self._compare(connection):
            self.unaccepted = self._options.name

    async def begin(self) -> None:
        """Begin an incarnation. Raises EngineError."""
        rows = await self.link.fetch(_BEGIN, self._options.name, self._options.lease)
        ((incarnation, secret),) = rows
        self.incarnation, self._hints.secret = int(incarnation), secret.hex
        await self.link.run(lambda connection: self._hints.listen(connection, self.incarnation))

    async def keep(self) -> None:
        """Renew the lease for ever, whatever happens to the database."""
        while True:
            pause = self._options.lease / 3
            try:
                await self.renew()
            except AwayError as error:
                if not self.away:
                    logger.warning("the lease cannot be renewed: %s", error)
                self.away = str(error)
                pause = min(pause, 0.25)
            except DRIVER as error:
                logger.error("the lease cannot be renewed: %s", error)  # noqa: TRY400 - the text says it all
            await asyncio.sleep(pause)

    async def renew(self) -> None:
        """Renew the lease once, or begin another incarnation where it is over. Raises EngineError."""
        if self._ended:
            return
        rows = await self.link.fetch(_RENEW, self.incarnation, self._options.lease)
        self.away = ""
        if rows:
            lost = ", ".join(rows[0]["lost"] or ())
            if self.unaccepted and not lost:  # an operator has accepted that steps are missing
                await self.begin_again()
            self.unaccepted = lost
        elif not self._ended:
            await self.begin_again()

    async def begin_again(self) -> None:
        """Work under another incarnation, without anything that was claimed under the one before."""
        logger.warning(
            "the lease of this server is over: it begins another one, and lets go all conversations"
        )
        await self.link.fetch(_END, self.incarnation, True)
        before = self.incarnation
        try:
            await self.begin()
        finally:
            if self.incarnation != before:
                self._lost()

    async def bury(self) -> float:
        """End the leases of servers that have not renewed them; return the seconds until the next one can end.

        Raises EngineError.
        """
        since, lease, now = self.link.since, self._options.lease, asyncio.get_running_loop().time()
        if since is None or now - since < lease:
            return lease if since is None else since + lease - now
        rows = await self.link.fetch(_BURY, self.incarnation, lease + LONGER)
        buried = [row["incarnation"] for row in rows if row["gone"]]
        for incarnation in buried:
            text = "server number %d has not renewed its lease: its conversations are taken over"
            logger.warning(text, incarnation)
        for topic in (Topic.LEASES, Topic.INBOX) if buried else ():
            self._hints.tell(EVERYBODY, topic)  # this server included
        if now >= self._look:
            self._look = now + LONGER
            await self.link.fetch(_FORGET, FORGOTTEN)
        return min((row["left"] for row in rows if row["left"] is not None), default=lease)

    async def end(self) -> None:
        """Give everything back on purpose: others need not wait. Raises EngineError."""
        if self._ended or not self.incarnation:
            return
        self._ended = True
        try:
            await self.link.fetch(_END, self.incarnation, self.blameless)
        except (EngineError, *DRIVER) as error:
            raise EngineError(f"the lease cannot be given up: {error}") from error
        self._hints.tell(EVERYBODY, Topic.LEASES)


MOST = 8192
"""Conversations of which the latest step is remembered."""

LONGEST = 3600.0
"""Seconds for which it is."""

NAMED = 100
"""Conversations that are named in the row of a loss."""

_THERE = "select number, chain from {0}.step where number = any($1::bigint[])"
_NOTE = "insert into {0}.loss (name, conversations) values ($1, $2)"

logger = logging.getLogger("agentserver.journal")


class _Step(NamedTuple):
    number: int
    chain: bytes
    at: float


class Acknowledged:
    """The latest acknowledged step of each conversation that was at work here of late.

    Args:
        options: of the database.
    """

    def __init__(self, options: PostgresOptions) -> None:
        self._options = options
        self._steps: OrderedDict[str, _Step] = OrderedDict()
        self._comparing = (
            asyncio.Lock()
        )  # two connections made at once would note one loss twice, to be accepted twice

    def note(self, conversation: str, number: int, chain: bytes) -> None:
        """Remember a step."""
        self._steps[conversation] = _Step(number, chain, monotonic())
        self._steps.move_to_end(conversation)
        if len(self._steps) > MOST:
            self._steps.popitem(last=False)

    def forget(self, conversations: Collection[str]) -> None:
        """Forget what may be removed on purpose, or what was accepted as lost."""
        for conversation in conversations:
            self._steps.pop(conversation, None)

    async def compare(self, connection: Connection) -> bool:
        """Look for what is missing, and note it for all servers; gives whether anything is."""
        async with self._comparing:
            return await self._compare(connection)

    async def _compare(self, connection: Connection) -> bool:
        now = monotonic()
        known = {key: step for key, step in self._steps.items() if now - step.at < LONGEST}
        numbers = [step.number for step in known.values()]
        schema = f'"{self._options.schema}"'
        there = dict(await connection.fetch(_THERE.format(schema), numbers)) if numbers else {}
        missing = [key for key, step in known.items() if there.get(step.number) != step.chain]
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
"""Seconds between two looks whether a token is free."""

_TAKE = (
    "insert into @token as t (name, owner) values ($2, $1) on conflict (name) do update set owner = $1"
    " where t.owner = $1 or not exists (select from @server s where s.incarnation = t.owner and not s.gone)"
    " returning t.name"
)
_GIVE = "delete from @token where name = $2 and owner = $1"


class Tokens:
    """The tokens of this process.

    Args:
        link: for statements.
        lease: of this process.
        hints: to and from those who wait.
    """

    def __init__(self, link: Link, lease: Lease, hints: Hints) -> None:
        self._link, self._lease, self._hints = link, lease, hints
        self._giving: set[asyncio.Task[None]] = set()
        self._here: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    @asynccontextmanager
    async def have(self, name: str) -> AsyncIterator[None]:
        """Have a token; waits for it. Raises EngineError."""
        async with self._here[name]:
            owner = await self._take(name)
            try:
                yield
            finally:
                await self._give(owner, name)

    async def _give(self, owner: int, name: str) -> None:
        """Give a token back, later where that fails: with the lease of this server it would stay here."""
        given = False
        try:
            with suppress(EngineError, *DRIVER):
                given = await self._free(owner, name)
        finally:
            if not given:
                giving = run_errand(self._give_later(owner, name), "gives back a token")
                self._giving.add(giving)
                giving.add_done_callback(self._giving.discard)

    async def _free(self, owner: int, name: str) -> bool:
        await self._link.fetch(_GIVE, owner, name)
        self._hints.tell(EVERYBODY, Topic.TOKENS)
        return True

    async def _give_later(self, owner: int, name: str) -> None:
        given = False
        while not given and self._lease.incarnation == owner:
            await asyncio.sleep(LOOK)
            async with self._here[name]:
                with suppress(EngineError, *DRIVER):
                    given = await self._free(owner, name)

    def end(self) -> None:
        """Give nothing back any more: the lease is over."""
        for giving in self._giving:
            giving.cancel()

    async def _take(self, name: str) -> int:
        while True:
            owner = self._lease.incarnation
            try:
                if await self._link.fetch(_TAKE, owner, name):
                    return owner
            except DRIVER as error:
                raise refused(error) from error
            await self._hints.until(Topic.TOKENS, LOOK)
