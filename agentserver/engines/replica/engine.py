"""The engine over a replicated log, with a journal of this process's own as the follower of it.

Owns the loop's side: a commit is done when this process has applied it, and a share is held from when its claim was.
All that can be read is read of the replica. Refuses to know what a log is made of, and what rows are.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, closing
from functools import partial
from hashlib import blake2b
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, Self

from agentserver.core.messages import UNDECIDED, EventPlace
from agentserver.core.state.elapsed import STEADY, Calendar
from agentserver.engines.noted import NotedMarks
from agentserver.engines.replica import kept_arrivals, opening
from agentserver.engines.replica.by_partition import PartitionedReading, partition_of
from agentserver.engines.replica.elsewhere import ForeignConversations, either
from agentserver.engines.replica.entries.acts import Discarding, Done, Forgetting, Naming, Setting
from agentserver.engines.replica.following import ReplicaFollower
from agentserver.engines.replica.replica import Replica
from agentserver.engines.replica.sending import Outgoing
from agentserver.engines.replica.tables import followed_of
from agentserver.engines.sqlite.care import maintenance
from agentserver.engines.sqlite.care.answers import LeftAnswers
from agentserver.engines.sqlite.reader import Reader
from agentserver.engines.sqlite.reads import JournalReads
from agentserver.engines.sqlite.rows import Left
from agentserver.engines.sqlite.steps.step import StepData, StepMaker, from_outside
from agentserver.ports import EngineError
from agentserver.ports.errors import FencedError
from agentserver.ports.tasks import ended

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path
    from types import TracebackType

    from agentserver.core.guard import CoreGuard
    from agentserver.core.messages import Done as Over
    from agentserver.core.messages import Reply
    from agentserver.core.records.outcome import Outcome
    from agentserver.engines.replica.log import ReplicatedLog
    from agentserver.engines.replica.replica import Applied
    from agentserver.ports import Answers
    from agentserver.ports.sharing import Arrival, Fate, Heard, Share

logger = logging.getLogger("agentserver.journal")

_MARK: Final = 8
"""Characters at the end of a conversation's id by which it is known that a server of this log gave it out."""

PATIENCE: Final = 2.0
"""Seconds that closing waits for what is on its way."""


class ReplicaEngine(JournalReads):
    """A log at work, with the replica of this process.

    Args:
        log: that all processes of the organism share.
        directory: for the replica; the processes of one machine may share it.
        organism: the name of the log.
        guards: those whose memories are kept with the conversations.
        retention: seconds for which closed conversations are kept; None is for ever.
    """

    prompt = False
    durable = True

    def __init__(
        self,
        log: ReplicatedLog,
        directory: Path,
        organism: str,
        guards: Sequence[CoreGuard] = (),
        *,
        retention: float | None = None,
    ) -> None:
        self.answers: Answers = LeftAnswers(lambda work: self._do(lambda: work(self._connection)))
        self.alone: Callable[[str], AbstractAsyncContextManager[None]] = log.alone
        self.belong: Callable[[frozenset[str]], Awaitable[None]] = log.belong
        self._log = log
        self.marks = NotedMarks(log, self._all_held)
        self._directory, self._organism = directory, organism
        self._guards, self._retention = tuple(guards), retention
        self._thread, self._steps = ThreadPoolExecutor(1, "replica"), StepMaker(self._guards)
        self._sending = Outgoing(log, self._steps, self._share_in, self._do)
        self._open, self._reached, self._closed = ExitStack(), AsyncExitStack(), False
        self._following: ReplicaFollower
        self._claimed: Mapping[int, Share] = {}
        self._held: dict[int, Share] = {}
        self._earlier: dict[int, int] = {}
        self._before, self._key, self._broken = 0, b"", ""
        self._changed = asyncio.Event()
        self._elsewhere = ForeignConversations(self._any)
        self._open_ones = PartitionedReading(lambda: self._do(self._reader.open_conversations), itemgetter(0))
        self._active = PartitionedReading(lambda: self._do(self._reader.active), str)
        self._idle: tuple[float, PartitionedReading[str]] | None = None

    async def __aenter__(self) -> Self:
        """Reach the log, bring the replica up to its end, and take what shares there are to take.

        Raises EngineError when the log cannot be reached or read, or there is no place for a replica.
        """
        with ExitStack() as stack:
            stack.callback(self._thread.shutdown, wait=False)
            self._path = await self._do(lambda: opening.take(self._directory, stack))
            async with AsyncExitStack() as reached:
                await reached.enter_async_context(self._log)
                await self._begin(stack, reached)
                self._reached = reached.pop_all()
            self._open = stack.pop_all()
        return self

    async def _begin(self, stack: ExitStack, reached: AsyncExitStack) -> None:
        current = await opening.current(self._log, self._path, self._organism, self._do)
        self._connection = stack.enter_context(closing(current))
        self._key = (await self._do(lambda: followed_of(self._connection))).log.encode()
        replica = await self._do(lambda: Replica(self._connection, self._path))
        self._reader = await self._do(lambda: Reader(self._connection, self._guards))
        for damage in await self._do(self._reader.damaged):
            logger.error("%s: %s", self._path, damage)
        self._before = await self._do(self._reader.last_event)
        self._following = ReplicaFollower(self._log, replica, self._do, self._settle)
        _, last = await self._log.bounds()
        self._following.begin()
        reached.push_async_callback(self._following.end)
        await self._following.reached(last)
        loop = asyncio.get_running_loop()
        taken = loop.create_future()
        watch, *others = [loop.create_task(one) for one in (self._hold(taken), self._mind(), self._rest())]
        reached.push_async_callback(ended, [watch, *others])
        await asyncio.wait([taken, watch], return_when=asyncio.FIRST_COMPLETED)
        if watch.done():
            watch.result()

    async def _hold(self, taken: asyncio.Future[None]) -> None:
        """Hold what the log says is ours, once the claims of it were applied."""
        async for shares in self._log.shares():
            self._claimed = {} if self._broken else {share.partition: share for share in shares}
            if shares and not taken.done():
                await self._following.reached(max(share.epoch for share in shares))
            self._regard()
            if not taken.done():
                taken.set_result(None)

    async def _mind(self) -> None:
        """Leave everything to the others once the log cannot be followed any more."""
        why = await self._following.broken()
        logger.error("%s. This server decides about nothing any more: start it again", why)
        self._broken, self._claimed = why, {}
        self._regard()
        self._tell()
        self._sending.give_back(why)
        await self._log.give_up()

    async def _rest(self) -> None:
        """Hold nothing for as long as what comes cannot be applied here: others can."""
        while True:
            await self._following.applying(can=False)
            logger.error(
                "%s. What this server has is left to others until that is over", self._following.trouble
            )
            await self._log.rest()
            self._sending.let_go(self._following.trouble)
            await self._following.applying(can=True)
            logger.warning("what comes can be applied again: this server takes its part")
            await self._log.wake()

    def _regard(self) -> None:
        """Look at which shares count: those of which the claim is the last that was applied."""
        last = self._following.claims
        held = {number: share for number, share in self._claimed.items() if last.get(number) == share.epoch}
        if held != self._held:
            self._held = held
            self._tell()

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Send what waits, give up what is held, and close."""
        try:
            await self.marks.close()
            await self._sending.close(PATIENCE)
            await self._reached.aclose()
        finally:
            self._closed, self._held = True, {}
            self._tell()
            self._elsewhere.close()
            await self._do(self._open.close)
            self._thread.shutdown(wait=False)

    def adopt(self, guards: Sequence[CoreGuard]) -> None:
        """Keep the memories of these guards from now on, those of before among them. To be called while it is open."""
        self._guards = tuple(guards)
        self._steps.adopt(self._guards)
        self._reader.adopt(self._guards)

    # Who works on what

    async def shares(self) -> AsyncIterator[frozenset[Share]]:
        """The held shares: at once, and after each change. Raises EngineError when it will never hold any again."""
        while not self._closed:
            changed, held = self._changed, frozenset(self._held.values())
            yield held
            if self._broken and not held:
                raise EngineError(self._broken)
            if held == frozenset(self._held.values()):
                await changed.wait()

    def _all_held(self) -> frozenset[Share]:
        return frozenset(self._held.values())

    def _share_in(self, partition: int) -> Share | None:
        return self._held.get(partition)

    def share_of(self, conversation: str) -> Share | None:
        """The share that a conversation is in, when this process holds it."""
        return self._held.get(partition_of(conversation))

    def homely(self, conversation: str) -> bool:
        """True for an id in a share that is held; for any while none is."""
        return not self._held or partition_of(conversation) in self._held

    def minted(self, conversation: str) -> str:
        """The id with an end that only those who know the id of the log can tell."""
        begin = conversation[:-_MARK]
        return begin + blake2b(begin.encode("utf-8", "surrogatepass"), key=self._key).hexdigest()[:_MARK]

    async def give_up(self) -> None:
        """Give all shares up, after what was sent under them."""
        await self.marks.close()
        await self._sending.close(PATIENCE)
        await self._log.give_up()

    # Writing

    def commit(self, share: Share, outcome: Outcome) -> Awaitable[None]:
        """Make an outcome permanent, together with all others of its partition that wait."""
        why = self._log.away or self._following.trouble
        found: Any = self._steps.encode(outcome)
        if self._held.get(share.partition) != share:
            found = FencedError("another process has the conversation")
        elif why and from_outside(outcome):
            found = EngineError(why)  # what is in hand goes on, once that is over
        if isinstance(found, EngineError):
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            done.set_exception(found)
            return done
        return self._sending.put(share.partition, found, share)

    async def set_aside(self, conversation: str, reason: str, at: float) -> tuple[Reply | Over, ...]:
        """Let a conversation go on no more. Raises FencedError when it is another process's."""
        share = self.share_of(conversation)
        if share is None:
            raise FencedError("another process has the conversation")
        self._steps.forget(conversation)
        setting = Setting(conversation, reason, at)
        told: tuple[Reply | Over, ...] = await self._sending.put(share.partition, setting, share)
        return told

    def acknowledge(self, conversation: str, place: EventPlace) -> None:
        """Let an event out of the outbox soon."""
        self._sending.leave(partition_of(conversation), Left(conversation, *place))

    def confirm(self, conversation: str, place: EventPlace) -> None:
        """Let the events up to a place out of the outbox soon."""
        self._sending.leave(partition_of(conversation), Left(conversation, *place, before=True))

    def abandon(self, conversation: str) -> None:
        """Let everything that has left out of the outbox soon."""
        self._sending.leave(partition_of(conversation), Left(conversation))

    async def discard(self, delivery: str) -> bool:
        """Take a dead letter off the list, in every replica."""
        return bool(await self._any(delivery, Discarding(delivery)))

    async def claim(self, name: str, conversation: str, at: float) -> str:
        """The conversation that has a name from now on: the first to be appended wins."""
        return str(await self._any(name, Naming(name, conversation, at)))

    async def expire(self, now: float, calendar: Calendar = STEADY) -> int:
        """Forget closed conversations whose time is over. The process that holds the first partition does."""
        if self._retention is None or 0 not in self._held:
            return 0
        before = calendar.before(self._retention, now)
        if not await self._do(lambda: maintenance.ageing(self._connection, before)):
            return 0
        return int(await self._sending.put(0, Forgetting(before), self._held.get(0)))

    async def _any(self, key: str, act: Any) -> Any:
        """Do what any process may do. Raises EngineError while the log cannot be reached, or not be followed."""
        why = self._broken or self._log.away or self._following.trouble
        if why:
            raise EngineError(why)
        return await self._sending.put(partition_of(key), act)

    # Conversations of others

    async def hand_in(self, arrival: Arrival) -> asyncio.Future[Fate]:
        """Keep something for the owner of a conversation; gives a future of what becomes of it."""
        return await self._elsewhere.hand_in(arrival)

    def heard(self) -> AsyncIterator[Heard]:
        """News of conversations of others, as they are committed."""
        return self._elsewhere.heard()

    async def arrivals(self, share: Share) -> AsyncIterator[Arrival]:
        """Everything handed in for a share; ends when it is lost."""
        after = 0
        while self._held.get(share.partition) == share:
            came, changed, since = self._elsewhere.came, self._changed, after
            read = partial(kept_arrivals.waiting, self._connection, share.partition, since)
            for number, arrival in await self._do(read):
                after = number
                yield arrival
            if after == since:
                await either(came, changed)

    def arrived(self, share: Share, arrival: Arrival, fate: Fate) -> None:
        """An arrival is done with, as the next entry of its partition says."""
        done = self._sending.put(share.partition, Done(arrival.id, fate), share)
        done.add_done_callback(lambda future: future.cancelled() or future.exception())

    # What was applied

    def _settle(self, applied: Applied) -> None:
        """Tell all whom an applied entry concerns."""
        entry = applied.entry
        self._sending.settle(applied)
        if 0 in self._held:
            self._following.copy_when_due(self._path)
        if not entry.body:
            self._earlier[entry.partition] = int(applied.results[0])  # type: ignore[arg-type]
            self._regard()
            return
        if any(isinstance(act, StepData | Setting) for act in applied.acts):
            self._open_ones.changed(entry.partition)
            self._active.changed(entry.partition)
        ours = entry.partition in self._held
        for act, result in zip(applied.acts, applied.results, strict=True):
            if not isinstance(result, EngineError):
                self._elsewhere.settle(act, result, ours=ours)

    # Reading

    async def at_work(self, share: Share) -> AsyncIterator[str]:
        """Conversations of a share of which a delivery is not consumed."""
        for key in await self._active.take(share.partition):
            yield key

    async def open_conversations(self, share: Share) -> AsyncIterator[tuple[str, str]]:
        """Each open conversation of a share with its principal."""
        for key, principal in await self._open_ones.take(share.partition):
            yield key, principal

    async def idle(self, share: Share, before: float) -> AsyncIterator[str]:
        """Open conversations of a share that nothing touched since."""
        if (
            self._idle is None or self._idle[0] != before
        ):  # who closes one looks again, so changes do not count
            self._idle = before, PartitionedReading(lambda: self._do(lambda: self._reader.idle(before)), str)
        for key in await self._idle[1].take(share.partition):
            yield key

    async def outbox(self, conversation: str) -> AsyncIterator[Reply | Over]:
        """The events that were not acknowledged; those that an earlier process may have passed on are marked."""
        gone, before = self._gone(conversation), self._told_before(conversation)
        for event in await self._do(lambda: self._reader.outbox(conversation, before)):
            if not gone(event.place):
                yield event

    async def told(self, conversation: str, request: str) -> AsyncIterator[Reply | Over]:
        """Everything that left for a request."""
        gone, before = self._gone(conversation), self._told_before(conversation)
        for event in await self._do(lambda: self._reader.told(conversation, request, before)):
            yield event._replace(redelivered=event.redelivered or gone(event.place))

    def _told_before(self, conversation: str) -> int:
        """The number of the last event that another process, or an earlier one, may have passed on."""
        return max(self._before, self._earlier.get(partition_of(conversation), 0))

    def _gone(self, conversation: str) -> Callable[[EventPlace], bool]:
        """The test for places that were acknowledged and are not marked so yet."""
        found = [one for one in self._sending.leaving() if one.conversation == conversation]
        places = {(one.version, one.position) for one in found}
        everything = any(one.version is None for one in found)
        before = max(((one.version, one.position) for one in found if one.before), default=UNDECIDED)
        return lambda place: everything or place <= before or place in places
