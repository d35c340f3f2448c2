"""Stream of the records of committed steps, and its sinks: readers, observers of a program and the log."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from contextlib import asynccontextmanager
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Final, NamedTuple

import anyio
from anyio import to_thread

from agentserver.core.messages import SYSTEM
from agentserver.core.records.audit import Event
from agentserver.core.records.wording import WORDING
from agentserver.core.state.principals import owns
from agentserver.ports import RecordGap
from agentserver.pump.invoke import writable
from agentserver.supervision import QueueThread

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, MutableSequence, Sequence

    from agentserver.core.records.audit import AuditRecord
    from agentserver.observers import Observer
    from agentserver.ports.records import Records, Sink

STEPS: Final = 1000
"""Steps that wait for one reader; later ones are counted and left out."""

BYTES: Final = 4_194_304
"""Bytes of the messages in them."""

OBSERVER_STEPS: Final = 1000
"""Steps that wait for one observer; later ones are dropped."""

PATIENCE: Final = 5.0
"""Seconds that a server which stops gives its observers, all together."""

logger = logging.getLogger("agentserver.pump")


class _SinkEntry(NamedTuple):
    """Sink of a stream.

    Args:
        sink: is called with the records.
        principal: whose conversations it receives, or a tenant's scope; None for all.
        missed: is called for a step whose records are not here.
    """

    sink: Sink
    principal: str | None = None
    missed: Callable[[], None] | None = None


class RecordStream:
    """Stream of the records of committed steps. Sinks are called in the order in which they were attached."""

    def __init__(self, *sinks: Sink) -> None:
        self._attached = tuple(map(_SinkEntry, sinks))
        self._readers: set[RecordReader] = set()
        self._stopped = False

    def attach(self, sink: Sink) -> Callable[[], None]:
        """Call a sink with the records of each later step. Returns a function that detaches it."""
        return self._attach(_SinkEntry(sink))

    def _attach(self, attached: _SinkEntry) -> Callable[[], None]:
        self._attached = (*self._attached, attached)

        def detach() -> None:
            self._attached = tuple([each for each in self._attached if each is not attached])

        return detach

    def put(self, principal: str, records: Records) -> None:
        """Pass the records of a committed step in a principal's conversation to every sink."""
        for sink, wanted, _ in self._attached:
            if wanted is None or owns(wanted, principal):
                try:
                    sink(records)
                except Exception:
                    logger.exception("a sink of records failed")

    def miss(self, principal: str) -> None:
        """Count a step that another process took as missed by the readers."""
        for _, wanted, missed in self._attached:
            if missed is not None and (wanted is None or owns(wanted, principal)):
                missed()

    async def read(self, principal: str | None = None) -> AsyncIterator[Records | RecordGap]:
        """Yield the records of each later step of a principal's conversations, or of all, until the server stops."""
        if self._stopped:
            return
        reader = RecordReader()
        detach = self._attach(_SinkEntry(reader.put, principal, reader.miss))
        self._readers.add(reader)
        try:
            while (item := await reader.find_next_item()) is not None:
                yield item
        finally:
            self._readers.remove(reader)
            detach()

    def stop(self) -> None:
        """End the iterators of all readers after what already waits for them."""
        self._stopped = True
        for reader in self._readers:
            reader.finish()


class RecordReader:
    """Bounded queue between the stream and one task that reads it."""

    __slots__ = ("_bytes", "_finished", "_queued", "_stirred")

    def __init__(self) -> None:
        self._queued: deque[Records | RecordGap] = deque()
        self._bytes = 0
        self._stirred = asyncio.Event()
        self._finished = False

    @property
    def size(self) -> tuple[int, int]:
        """Items that wait, and the bytes of their messages."""
        return len(self._queued), self._bytes

    def put(self, records: Records) -> None:
        """Queue the records of a step, or count them as missed if the queue is full."""
        size = _compute_size(records)
        if len(self._queued) >= STEPS or (self._queued and self._bytes + size > BYTES):
            self.miss()
            return
        self._bytes += size
        self._queued.append(records)
        self._stirred.set()

    def miss(self) -> None:
        """Count a missed step at its place in the queue."""
        last = self._queued[-1] if self._queued else None
        if isinstance(last, RecordGap):
            self._queued[-1] = RecordGap(last.missed + 1)
        else:
            self._queued.append(RecordGap(1))
        self._stirred.set()

    def finish(self) -> None:
        """End the queue after the items that wait."""
        self._finished = True
        self._stirred.set()

    async def find_next_item(self) -> Records | RecordGap | None:
        """Return the next item; None at the end."""
        while not self._queued:
            if self._finished:
                return None
            self._stirred.clear()
            await self._stirred.wait()
        item = self._queued.popleft()
        if not isinstance(item, RecordGap):
            self._bytes -= _compute_size(item)
        return item


def _compute_size(records: Records) -> int:
    return sum([len(record.message) for record in records])


class ObserverSink:
    """Sink that calls an observer of the program in a thread.

    An exception is logged and counted, and later steps still reach the observer.

    Args:
        observer: the program's.
        waiting: steps that may wait for it.
    """

    def __init__(self, observer: Observer, waiting: int = OBSERVER_STEPS) -> None:
        self._observer = observer
        self._name = getattr(observer, "__qualname__", type(observer).__qualname__)
        self._queue = QueueThread(f"calls the observer {self._name}", self._call, waiting)
        self._failed = 0

    def start(self) -> None:
        """Start the thread."""
        self._queue.start()

    def __call__(self, records: Records) -> None:
        """Queue the records of one step, or drop them if the observer is too slow."""
        if not self._queue.put(records) and self._queue.dropped == 1:
            logger.warning("the observer %s is too slow: it misses steps", self._name)

    def end(self, until: float) -> None:
        """Wait for the queue to empty until ``time.monotonic()`` reaches ``until``, then log the missed steps."""
        if not self._queue.end(until):
            logger.warning("the observer %s did not finish in time: it misses the last steps", self._name)
        if self._queue.dropped or self._failed > 1:
            text = "the observer %s missed %d steps and failed at %d"
            logger.warning(text, self._name, self._queue.dropped, self._failed)

    def _call(self, batch: Sequence[Records]) -> None:
        for records in batch:
            try:
                self._observer(records)
            except BaseException as error:  # user code may raise anything, and none of it may stop the thread
                self._failed += 1
                if self._failed == 1:
                    text = "the observer %s failed; it still receives later steps"
                    logger.exception(text, self._name, exc_info=writable(error))


@asynccontextmanager
async def run_observers(observers: Iterable[Observer]) -> AsyncIterator[tuple[Sink, ...]]:
    """Yield a sink for each observer; leaving the context waits for them for PATIENCE seconds at most.

    Raises TypeError for an object that cannot be an observer.
    """
    sinks = tuple(map(ObserverSink, map(check_observer, observers)))
    for sink in sinks:
        sink.start()
    try:
        yield sinks
    finally:
        until = time.monotonic() + PATIENCE
        alone = anyio.CapacityLimiter(1)  # handlers that hang may occupy every thread of the default limiter
        with anyio.CancelScope(shield=True):
            for sink in sinks:
                await to_thread.run_sync(sink.end, until, limiter=alone)


def check_observer(observer: Observer) -> Observer:
    """Return the observer. Raises TypeError if it cannot be called in a thread."""
    if not callable(observer):
        raise TypeError(f"{observer!r} is no observer: it cannot be called")
    if iscoroutinefunction(observer) or iscoroutinefunction(vars(type(observer)).get("__call__")):
        raise TypeError(f"{observer!r} is no observer: it is called in a thread, so it is declared with def")
    return observer


class LogSink:
    """Sink that logs records at the level of their event.

    Args:
        crashes: deliveries whose crash is in the log already; each is removed when its record comes.
        flagged: is called with each record of a flagged message.
    """

    def __init__(self, crashes: MutableSequence[str], flagged: Callable[[AuditRecord], None]) -> None:
        self._crashes, self._flagged = crashes, flagged

    def __call__(self, records: Records) -> None:
        """Log the records of one step."""
        concerning = _ALL if logger.isEnabledFor(logging.INFO) else _GRAVE
        for record in records:
            if record.event in concerning:
                self._log(record)

    def _log(self, record: AuditRecord) -> None:
        level = _LEVELS.get(record.event, logging.DEBUG)
        if record.event is Event.FLAGGED:
            self._flagged(record)
        if record.event is Event.SENT and record.sender == SYSTEM:
            level = logging.DEBUG  # the record of the refusal or failure before it says as much
        if record.event in _OF_CRASHES and record.delivery in self._crashes:
            self._crashes.remove(record.delivery)
            level = min(level, logging.INFO)
        if logger.isEnabledFor(level):
            logger.log(
                level,
                "%s %s %s",
                record.event,
                f"{record.sender} -> {record.to or '?'}" if record.sender else record.to,
                " ".join(filter(None, (record.root, record.code, WORDING.first(record.noted)))),
                extra={
                    "conversation": record.conversation,
                    "thread_id": record.thread,
                    "event": str(record.event),
                },
            )


_OF_CRASHES = frozenset({Event.FAILED, Event.RETRIED})

_LEVELS = {
    Event.SENT: logging.INFO,
    Event.ANSWERED: logging.INFO,
    Event.SETTLED: logging.INFO,
    Event.REFUSED: logging.WARNING,
    Event.FAILED: logging.WARNING,
    Event.REPAIRED: logging.WARNING,
    Event.ASKED: logging.WARNING,
    Event.APPROVED: logging.WARNING,
    Event.WITHDRAWN: logging.WARNING,
    Event.FLAGGED: logging.WARNING,
    Event.RETRIED: logging.INFO,
    Event.DISCARDED: logging.INFO,
}


_ALL = frozenset(Event)

_GRAVE = _OF_CRASHES | {event for event, level in _LEVELS.items() if level >= logging.WARNING}
"""The events that concern the sink even if the log shows no information."""
