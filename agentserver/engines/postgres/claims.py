"""Claims of this process on conversations, including takeover from dead servers.

A claim is cached here; the database decides at each commit whether it still holds.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING

from agentserver.engines.postgres.connection import DRIVER, DatabaseAwayError, make_refusal
from agentserver.engines.postgres.hints import EVERYBODY, Topic
from agentserver.ports import Claim, EngineError, GainedClaims, LostClaims

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection

    import asyncpg

    from agentserver.engines.postgres.connection import Link
    from agentserver.engines.postgres.hints import Hints
    from agentserver.engines.postgres.leases import Lease

AT_ONCE = 64
"""Most conversations that one statement takes over, so that other servers get their share."""

LOOK, AGAIN = 1.0, 0.02
"""Seconds between two polls for orphaned conversations, and after a successful one."""

LATE = 0.02
"""Seconds from the end of another server's lease to the poll that detects it."""

REST = 30.0
"""Seconds without a step after which a conversation may be claimed from a live owner."""

UNSURE = 60.0
"""Seconds for which an unanswered claim may still take effect through a lost connection."""

QUEUED = "exists (select from @queue q where q.conversation = c.number and q.delayed = 0)"
ACTIVE = (
    "c.closed is null"
    " and not exists (select from @suspension a where a.conversation = c.number and a.ended is null)"
)
FREE = "(c.owner is null or not exists (select from @server s where s.incarnation = c.owner and not s.gone))"
_MINE = "owner = $1, epoch = c.epoch + 1, moved = clock_timestamp()"
_CLAIM = (
    f"with claimed as (update @conversation c set {_MINE} where c.id = $2 and c.closed is null"  # noqa: S608 - our own texts
    f" and ({FREE} or c.owner = $1 or c.moved < clock_timestamp() - {REST} * interval '1 second')"
    f" and not ({QUEUED} and {ACTIVE}) returning c.epoch)"
    f" select (select epoch from claimed) as epoch, c.owner = $1 or {FREE} as left_over"
    " from @conversation c where c.id = $2 and c.closed is null"
)
"""Also returns whether a conversation that was not claimed for its queued deliveries may be taken over at once."""
_ADOPT = (
    "with free as (select c.number from @conversation c where c.id = any($2::text[]) and c.closed is null"  # noqa: S608 - our own texts
    f" and ({FREE} or c.owner = $1) and not ({QUEUED} and {ACTIVE}) order by c.number for update of c skip locked)"
    f" update @conversation c set {_MINE} from free where c.number = free.number returning c.id, c.epoch"
)
_TAKE = (
    "with left_over as (select c.number, c.owner from @conversation c"  # noqa: S608 - our own texts
    f" where c.number in (select q.conversation from @queue q where q.delayed = 0) and {ACTIVE} and {FREE}"
    " order by c.number limit $2 for update of c skip locked)"
    f" update @conversation c set {_MINE} from left_over where c.number = left_over.number"
    " returning c.id, c.epoch, coalesce(left_over.owner, 0) as previous"
)
_RELEASE = (
    "update @conversation c set owner = null where c.id = any($2::text[]) and c.owner = $1"  # noqa: S608 - our own texts
    " and not exists (select from @inbox i where i.conversation = c.id and i.fate is null)"
    f" and not {QUEUED} returning c.id"
)
_QUEUED_HERE = (
    "select c.id from @conversation c where c.owner = $1"  # noqa: S608 - our own texts
    f" and c.number in (select q.conversation from @queue q where q.delayed = 0) and {ACTIVE}"
)
_LET_GO = "update @conversation set owner = null where id = any($2::text[]) and owner = $1"
_STILL = "select c.id, c.epoch from @conversation c where c.id = any($2::text[]) and c.owner = $1 and c.closed is null"


class Claims:
    """Claims of this process.

    Args:
        link: for statements.
        lease: of this process.
        hints: trigger the poll for orphaned conversations.
        forget: called with released conversations.
    """

    def __init__(
        self, link: Link, lease: Lease, hints: Hints, forget: Callable[[Collection[str]], None]
    ) -> None:
        self._link, self._lease, self._hints, self._forget = link, lease, hints, forget
        self._by_conversation: dict[str, Claim] = {}
        self._changes: asyncio.Queue[GainedClaims | LostClaims | None] = asyncio.Queue()
        self._claiming = asyncio.Lock()
        self._unsure_until = 0.0
        self._over = False

    def current_claim(self, conversation: str) -> Claim | None:
        """Return this process's claim on a conversation."""
        return self._by_conversation.get(conversation)

    def begin(self, conversation: str) -> Claim:
        """Claim a conversation that begins here."""
        return self._by_conversation.setdefault(conversation, Claim(self._lease.incarnation, 1))

    async def claim(self, conversation: str) -> Claim | None:
        """Claim an idle conversation; None while another process owns it or has left work in it."""
        async with self._claiming:  # a concurrent claim keeps its epoch
            known = self._by_conversation.get(conversation)
            return known if known is not None or self._over else await self._claim(conversation)

    async def adopt(self, conversations: Collection[str]) -> None:
        """Claim the idle ones of some ownerless conversations in one statement.

        Raises EngineError, and what asyncpg raises.
        """
        async with self._claiming:
            keys = [key for key in conversations if key not in self._by_conversation]
            if keys and not self._over:
                owner = self._lease.incarnation
                for key, epoch in await self._fetch(_ADOPT, owner, keys):
                    self._hold(key, Claim(owner, epoch))

    async def _claim(self, conversation: str) -> Claim | None:
        owner = self._lease.incarnation
        try:
            rows = await self._fetch(_CLAIM, owner, conversation)
        except DRIVER as error:
            raise make_refusal(error) from error
        if not rows:
            return Claim(owner, 0)  # unknown or closed: no commit succeeds under this claim
        ((epoch, left_over),) = rows
        if epoch is not None:
            return self._hold(conversation, Claim(owner, epoch))
        if left_over:
            self._hints.stir(Topic.LEASES)
        return self._by_conversation.get(conversation)

    async def _fetch(self, text: str, *values: object) -> list[asyncpg.Record]:
        """Run a claiming statement. Without its answer this process does not know its claims."""
        try:
            return await self._link.fetch(text, *values)
        except (DatabaseAwayError, asyncio.CancelledError):
            self._unsure_until = asyncio.get_running_loop().time() + UNSURE
            raise

    async def _give_back_strays(self) -> None:
        """Release conversations with queued deliveries whose claim was not answered, so that they are taken over."""
        if asyncio.get_running_loop().time() > self._unsure_until:
            return
        owner = self._lease.incarnation
        strays = [
            key for (key,) in await self._link.fetch(_QUEUED_HERE, owner) if key not in self._by_conversation
        ]
        if strays:
            await self._link.fetch(_LET_GO, owner, strays)

    def _hold(self, conversation: str, claim: Claim) -> Claim | None:
        if claim.owner != self._lease.incarnation or self._over:
            return None
        self._by_conversation[conversation] = claim
        return claim

    # Changes

    async def changes(self) -> AsyncIterator[GainedClaims | LostClaims]:
        """Yield every change, beginning with the conversations gained at the start."""
        while (change := await self._changes.get()) is not None:
            yield change

    async def begin_taking(self) -> None:
        """Take over a first share of orphaned conversations, so that ``changes`` yields at once."""
        if not await self.take():
            self._changes.put_nowait(GainedClaims({}))

    async def take_over(self) -> None:
        """Take over conversations of dead servers, in a loop."""
        while True:
            count, pause = 0, LOOK
            try:
                if not self._over:
                    pause = await self._lease.bury() + LATE
                count = await self.take()
            except DatabaseAwayError:
                pass
            except DRIVER as error:
                raise make_refusal(error) from error
            # Other servers get their share before this one polls again.
            await (asyncio.sleep(AGAIN) if count else self._hints.wait(Topic.LEASES, min(pause, LOOK)))

    async def take(self) -> int:
        """Take over some conversations. Returns their count. Raises EngineError and asyncpg's errors."""
        if self._over or self._lease.unaccepted:
            return 0
        await self._give_back_strays()
        owner = self._lease.incarnation
        rows = await self._fetch(_TAKE, owner, AT_ONCE)
        gained: dict[int, dict[str, Claim]] = defaultdict(dict)
        for conversation, epoch, previous in rows:
            if self._hold(conversation, Claim(owner, epoch)) is not None:
                gained[previous][conversation] = Claim(owner, epoch)
        for previous, claims in gained.items():
            self._changes.put_nowait(GainedClaims(claims, previous))
        return len(rows)

    def lose(self, conversation: str, claim: Claim) -> None:
        """Drop a conversation after a commit showed that its claim is lost."""
        if self._by_conversation.get(conversation) == claim:
            self._lose((conversation,))

    def drop(self, conversation: str) -> None:
        """Drop a closed conversation."""
        self._by_conversation.pop(conversation, None)
        self._forget([conversation])

    def lose_all(self) -> None:
        """Drop all conversations after the lease was lost."""
        self._lose(tuple(self._by_conversation))
        self._hints.stir()

    def _lose(self, conversations: Collection[str]) -> None:
        for conversation in conversations:
            del self._by_conversation[conversation]
        self._forget(conversations)
        if conversations:
            self._changes.put_nowait(LostClaims(frozenset(conversations)))

    async def release(self, conversations: Collection[str]) -> None:
        """Release idle conversations. Those with unread arrivals stay."""
        before = {
            key: self._by_conversation.pop(key) for key in conversations if key in self._by_conversation
        }
        if not before:
            return
        self._forget(before)
        owner = self._lease.incarnation
        keys = sorted(before)
        try:
            freed = {key for (key,) in await self._link.fetch(_RELEASE, owner, keys)}
            still = await self._link.fetch(_STILL, owner, keys) if len(freed) < len(keys) else ()
        except (EngineError, *DRIVER) as error:  # the next decision claims it again
            self._unsure_until = asyncio.get_running_loop().time() + UNSURE
            raise make_refusal(error) from error
        for key, epoch in still:
            if key not in freed:
                self._hold(key, Claim(owner, epoch))
        self._hints.stir(Topic.INBOX)

    async def give_up(self) -> None:
        """Release everything, and claim nothing from now on. Raises EngineError."""
        self._over = True
        self._lose(tuple(self._by_conversation))
        await self._lease.end()
        self._hints.tell(EVERYBODY, Topic.LEASES)

    def end(self) -> None:
        """End ``changes``."""
        self._over = True
        self._changes.put_nowait(None)
