"""Tokens that one process at a time has: a row for each name, which goes with the lease of its owner.

Owns the wait for one. Refuses to know what it is for.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from agentserver.engines.postgres.connection import DRIVER, refused
from agentserver.engines.postgres.hints import EVERYBODY, Topic
from agentserver.ports import EngineError
from agentserver.supervision import run_errand

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from agentserver.engines.postgres.connection import Link
    from agentserver.engines.postgres.hints import Hints
    from agentserver.engines.postgres.leases import Lease

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
