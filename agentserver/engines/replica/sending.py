"""The entrance of a log: outcomes and acts become entries, a partition at a time.

Owns that one entry of a partition is on its way at a time, that all that waits meanwhile goes together, and who is told
what has come of it: the replica of this process says so, when it applies the entry. Refuses to know rows and brokers.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from agentserver.core.messages import Reply
from agentserver.engines.replica.entries import form
from agentserver.engines.replica.entries.acts import Departing
from agentserver.engines.sqlite.steps.step import Encoded
from agentserver.ports import EngineError, UnfitError
from agentserver.ports.errors import FencedError
from agentserver.ports.tasks import ended

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

    from agentserver.engines.replica.entries.acts import Act
    from agentserver.engines.replica.log import ReplicatedLog
    from agentserver.engines.replica.replica import Applied, Result
    from agentserver.engines.sqlite.rows import Left
    from agentserver.engines.sqlite.steps.step import StepMaker
    from agentserver.ports.sharing import Share

logger = logging.getLogger("agentserver.journal")

TOGETHER: Final = 128
"""Outcomes and acts that go into one entry at most."""

ROOM: Final = 256 << 10
"""Bytes of an entry beyond which it is made of fewer, where it has several."""

LATER: Final = 0.02
"""Seconds for which work without a waiting caller waits for company."""

AGAIN: Final = 1.0
"""Seconds between two attempts at what has failed."""

_UNEXPECTED: Final = (OSError, RuntimeError, AssertionError, LookupError, TypeError, ValueError)
"""Raised by a library that has lost its way, beside what it says that it raises."""

LARGE: Final = 256
"""Threads of a conversation beyond which its steps are made in a thread."""


class PendingWork(NamedTuple):
    """One thing that waits to be appended.

    Args:
        work: an outcome, or an act.
        share: under which it is; None for what anybody may do.
        done: has what came of it, once it is applied.
    """

    work: Encoded | Act
    share: Share | None
    done: asyncio.Future[Any]


class SentEntry(NamedTuple):
    """An entry on its way, or in the log and not applied yet."""

    partition: int
    epoch: int | None
    having: tuple[PendingWork, ...]


class Outgoing:
    """Appends what is to be done.

    Args:
        log: where to.
        steps: makes the steps of outcomes.
        share: gives the share of a partition that this process has.
        apart: has a thread do something.
    """

    def __init__(
        self,
        log: ReplicatedLog,
        steps: StepMaker,
        share: Callable[[int], Share | None],
        apart: Callable[[Callable[[], Any]], Awaitable[Any]],
    ) -> None:
        self._log = log
        self._steps = steps
        self._share = share
        self._apart = apart
        self._queues: defaultdict[int, list[PendingWork]] = defaultdict(list)
        self._sent: dict[str, SentEntry] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def put(self, partition: int, work: Encoded | Act, share: Share | None = None) -> asyncio.Future[Any]:
        """Have something appended; gives a future of what comes of it, or of an EngineError."""
        waiting = PendingWork(work, share, asyncio.get_running_loop().create_future())
        self._queues[partition].append(waiting)
        self._begin(partition)
        return waiting.done

    def leave(self, partition: int, left: Left) -> None:
        """Have an event let out of the outbox, sooner or later. Not waited for."""
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        done.add_done_callback(lambda future: future.cancelled() or future.exception())
        self._queues[partition].append(PendingWork(Departing(left), None, done))
        loop.call_later(LATER, self._begin, partition)

    def leaving(self) -> Iterator[Left]:
        """The events being let out of the outbox, and not out yet."""
        sent = (one for each in self._sent.values() for one in each.having)
        queued = (one for queue in self._queues.values() for one in queue)
        for waiting in (*sent, *queued):
            if isinstance(waiting.work, Departing):
                yield waiting.work.left

    def _begin(self, partition: int) -> None:
        if self._queues[partition] and partition not in self._tasks:
            task = asyncio.get_running_loop().create_task(self._send(partition))
            self._tasks[partition] = task
            task.add_done_callback(lambda _: self._ended(partition))

    def _ended(self, partition: int) -> None:
        task = self._tasks.pop(partition)
        if not task.cancelled() and task.exception() is None:
            self._begin(partition)

    async def _send(self, partition: int) -> None:
        await asyncio.sleep(0)  # what comes in this turn of the loop goes together
        while self._queues[partition]:
            body, sent = await self._gathered(partition)
            if sent.having:
                await self._append(body, sent)

    async def _gathered(self, partition: int) -> tuple[bytes, SentEntry]:
        """The next entry of a partition, made of what waits."""
        share = self._share(partition)
        having = self._take(partition)
        stale = [one for one in having if one.share not in {None, share}]
        _fail(stale, FencedError("another process has it"))
        having = [one for one in having if not one.done.done()]
        large = any(
            isinstance(one.work, Encoded) and len(one.work.outcome.conversation.tree.nodes) > LARGE
            for one in having
        )
        if large:
            body, having = await self._made_apart(partition, having)
        else:
            body, having = self._made(having)
        while len(body) > self._log.most and len(having) > 1:
            rest = len(having) // 2
            self._queues[partition] = having[rest:] + self._queues[partition]
            self._forget(having)
            body, having = self._made(having[:rest])
        if len(body) > self._log.most:
            _fail(
                having, UnfitError(f"it needs {len(body)} bytes, and an entry has {self._log.most} at most")
            )
            self._forget(having)
            having = []
        fenced = share is not None and any(one.share is not None for one in having)
        return body, SentEntry(
            partition, share.epoch if fenced and share is not None else None, tuple(having)
        )

    def _take(self, partition: int) -> list[PendingWork]:
        """The first of what waits, as much as goes together well."""
        queue, size, count = self._queues[partition], 0, 0
        for one in queue[:TOGETHER]:
            size += _size(one.work)
            if count and size > ROOM:
                break
            count += 1
        self._queues[partition] = queue[count:]
        return queue[:count]

    def _made(self, having: list[PendingWork]) -> tuple[bytes, list[PendingWork]]:
        """An entry of as much as there is a form for, with that."""
        try:
            return form.dump([self._act(one.work) for one in having]), having
        except (TypeError, ValueError, LookupError, OverflowError, RecursionError) as error:
            self._forget(having)
            if len(having) == 1:
                _fail(having, UnfitError(f"it cannot be written: {error}"))
                return b"", []
        # One of them cannot be: each for itself, so that the others do not suffer.
        fit = [one for one in having if self._made([one])[1]]
        self._forget(fit)
        return form.dump([self._act(one.work) for one in fit]), fit

    async def _made_apart(self, partition: int, having: list[PendingWork]) -> tuple[bytes, list[PendingWork]]:
        """Make an entry in a thread. What it is to have is on its way meanwhile."""
        key = secrets.token_hex(12)
        self._sent[key] = SentEntry(partition, None, tuple(having))
        made: tuple[bytes, list[PendingWork]] = await self._apart(lambda: self._made(having))
        self._sent.pop(key, None)
        return made

    def _act(self, work: Encoded | Act) -> Act:
        if not isinstance(work, Encoded):
            return work
        step = self._steps.step(work)
        self._steps.kept(work, step)
        return step

    async def _append(self, body: bytes, sent: SentEntry) -> None:
        share = self._share(sent.partition)
        if sent.epoch is not None and (share is None or share.epoch != sent.epoch):
            # The claim was applied while the entry was made: it will tell those who wait for this one nothing.
            for waiting in sent.having:
                self._tell(sent.partition, waiting, FencedError("another process has it"))
            return
        key = secrets.token_hex(12)
        self._sent[key] = sent
        try:
            await self._append_at_last(body, sent, key)
        except FencedError:
            pass  # the claim, when it is applied, tells those who wait; what came before it has been by then
        except EngineError as error:
            if self._sent.pop(key, None) is not None:
                self._refused(sent, error)

    async def _append_at_last(self, body: bytes, sent: SentEntry, key: str) -> None:
        """Append an entry, again after a failure that says nothing of it. Raises FencedError and EngineError.

        The id is the same each time: what is in the log by then is there once.
        """
        while True:
            try:
                await self._log.append(sent.partition, sent.epoch, body, key)
            except EngineError:
                raise
            except _UNEXPECTED:
                logger.exception("an entry of the log is sent again")
                await asyncio.sleep(AGAIN)
            else:
                return

    def _refused(self, sent: SentEntry, error: EngineError) -> None:
        """Tell those who wait for an entry that it is not kept.

        What lets an event out of the outbox is tried again: forgotten, it would have the event told once more as new.
        """
        leaving = tuple(one for one in sent.having if isinstance(one.work, Departing))
        others = [one for one in sent.having if not isinstance(one.work, Departing)]
        _fail(others, error)
        self._forget(others)
        if leaving:
            key = secrets.token_hex(12)
            self._sent[key] = SentEntry(sent.partition, None, leaving)
            asyncio.get_running_loop().call_later(AGAIN, self._again, key)

    def _again(self, key: str) -> None:
        """Have what was refused wait once more, unless nobody waits for it by now."""
        sent = self._sent.pop(key, None)
        if sent is not None:
            self._queues[sent.partition] += [one for one in sent.having if not one.done.done()]
            self._begin(sent.partition)

    # What has come of it

    def settle(self, applied: Applied) -> None:
        """Tell those who wait for an entry that was applied."""
        entry = applied.entry
        if not entry.body:
            self._claimed(entry.partition, entry.place)
            return
        sent = self._sent.pop(entry.id, None)
        if sent is None:
            return
        results = applied.results or (EngineError("the log gave it back otherwise"),) * len(sent.having)
        for waiting, result in zip(sent.having, results, strict=True):
            self._tell(sent.partition, waiting, result)

    def _tell(self, partition: int, waiting: PendingWork, result: Result) -> None:
        if isinstance(result, FencedError) and waiting.share is None:
            self._queues[partition].append(
                waiting
            )  # it went with others that were refused, and is to go by itself
            self._begin(partition)
            return
        if isinstance(result, EngineError):
            self._forget([waiting])
            _fail([waiting], result)
        elif not waiting.done.done():
            waiting.done.set_result(result)

    def _claimed(self, partition: int, epoch: int) -> None:
        """Fence all that was sent under an earlier epoch and was not in the log before this claim."""
        fenced = FencedError("another process has it")
        gone = [
            key
            for key, sent in self._sent.items()
            if sent.partition == partition and sent.epoch is not None and sent.epoch < epoch
        ]
        for key in gone:
            for waiting in self._sent.pop(key).having:
                self._tell(partition, waiting, fenced)

    def let_go(self, why: str) -> None:
        """Tell those who wait for something under a share that this process has it no more."""
        every = [one for sent in self._sent.values() for one in sent.having]
        every += [one for queue in self._queues.values() for one in queue]
        shared = [one for one in every if one.share is not None]
        self._forget(shared)
        _fail(shared, FencedError(why))

    def give_back(self, why: str) -> None:
        """Tell all who wait that this process will not know what becomes of it."""
        every = [one for sent in self._sent.values() for one in sent.having]
        every += [one for queue in self._queues.values() for one in queue]
        self._sent.clear()
        self._queues.clear()
        self._forget(every)
        _fail([one for one in every if one.share is not None], FencedError(why))
        _fail(every, EngineError(why))

    def _forget(self, having: Iterable[PendingWork]) -> None:
        for one in having:
            if isinstance(one.work, Encoded):
                self._steps.forget(one.work.outcome.conversation.id)

    async def close(self, patience: float) -> None:
        """Send what waits, for so many seconds at most; then everybody who still waits is told that nothing comes."""
        for partition in list(self._queues):
            self._begin(partition)
        having = [one.done for sent in self._sent.values() for one in sent.having]
        having += [one.done for queue in self._queues.values() for one in queue]
        if having and not self._log.away:
            await asyncio.wait(having, timeout=patience)
        await ended(self._tasks.values())
        error = EngineError("the engine was closed before it was known what became of it")
        for sent in self._sent.values():
            _fail(sent.having, error)
        for queue in self._queues.values():
            _fail(queue, error)


def _size(work: Encoded | Act) -> int:
    """About as many bytes as it needs."""
    if not isinstance(work, Encoded):
        return 0
    outcome = work.outcome
    told = sum([len(one.message) for one in outcome.added])
    told += sum([len(one.message) for one in outcome.replies if isinstance(one, Reply)])
    return len(work.cause) + len(work.records) + told


def _fail(having: Iterable[PendingWork], error: EngineError) -> None:
    for one in having:
        if not one.done.done():
            one.done.set_exception(error)
