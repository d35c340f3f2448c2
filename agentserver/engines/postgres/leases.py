"""The lease of this server: one row for each incarnation, renewed by the clock of the database.

Owns the incarnation, its renewal, the end of those that have not renewed theirs, and a new incarnation once it is lost.
A lease is taken for over only by a server that has itself been connected for longer than a lease: after a restart or a
fail-over of the database each server has the time to renew. Refuses to know what is worked on under a lease: commits
check the claims by themselves.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from agentserver.engines.postgres.connection import DRIVER, AwayError, Link
from agentserver.engines.postgres.hints import EVERYBODY, Topic
from agentserver.ports import EngineError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from agentserver.engines.postgres.connection import Connection
    from agentserver.engines.postgres.hints import Hints
    from agentserver.engines.postgres.options import PostgresOptions

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
