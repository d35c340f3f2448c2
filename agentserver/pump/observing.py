"""Observers of a program, told of what was committed behind a queue, in a thread for each.

Owns that none of them stops a message or makes one wait: an exception is logged, and a slow one is not told of all.
Refuses to know what they are told.
"""

from __future__ import annotations

import logging
import queue
import time
from contextlib import asynccontextmanager
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Final, TypeAlias

import anyio
from anyio import to_thread

from agentserver.pump.calling.invoke import writable
from agentserver.supervision import Ending, start_thread

if TYPE_CHECKING:
    import threading
    from collections.abc import AsyncIterator, Callable, Iterable

    from agentserver.core.records.audit import AuditRecord
    from agentserver.observers import Observer

    Records: TypeAlias = tuple[AuditRecord, ...]

WAITING: Final = 1000
"""Steps that may wait for one observer; it is not told of more."""
PATIENCE: Final = 5.0
"""Seconds that a server which stops gives its observers, all together."""

logger = logging.getLogger(__name__)


class Observing:
    """One observer and its thread, which ends with the process if it must.

    Args:
        observer: the program's.
        waiting: steps that may wait for it.
    """

    def __init__(self, observer: Observer, waiting: int = WAITING) -> None:
        self._observer = observer
        self._name = getattr(observer, "__qualname__", type(observer).__qualname__)
        self._queue: queue.SimpleQueue[Records | None] = queue.SimpleQueue()
        self._waiting = waiting
        self._thread: threading.Thread | None = None
        self._failed = self._missed = 0

    def start(self) -> None:
        """Begin to tell it."""
        self._thread = start_thread(f"tells the observer {self._name}", Ending.RESTART, self._run)

    def observe(self, records: Records) -> None:
        """Have it told of the records of one step, later. Neither blocks nor raises."""
        if self._queue.qsize() < self._waiting:
            self._queue.put(records)
            return
        self._missed += 1
        if self._missed == 1:
            logger.warning("the observer %s is too slow: it is not told of all", self._name)

    def end(self, until: float) -> None:
        """Wait for what it is still to be told, until ``time.monotonic()`` gives this; then say what it lacks."""
        self._queue.put(None)
        assert self._thread is not None  # it was started
        self._thread.join(max(0.0, until - time.monotonic()))
        if self._thread.is_alive():
            logger.warning("the observer %s did not come to an end: the last steps are left out", self._name)
        if self._missed or self._failed > 1:
            text = "the observer %s was not told of %d steps and failed at %d"
            logger.warning(text, self._name, self._missed, self._failed)

    def _run(self) -> None:
        while (records := self._queue.get()) is not None:
            try:
                self._observer(records)
            except BaseException as error:  # it may raise anything, and nothing of it is the server's concern
                self._failed += 1
                if self._failed == 1:
                    text = "the observer %s failed; it is told of later steps"
                    logger.exception(text, self._name, exc_info=writable(error))


@asynccontextmanager
async def observing(observers: Iterable[Observer]) -> AsyncIterator[tuple[Callable[[Records], None], ...]]:
    """The ends of the server's side, to be called with the records of each step; leaving waits for PATIENCE at most.

    Raises TypeError for what cannot be called so.
    """
    watched = tuple(map(Observing, map(checked, observers)))
    for each in watched:
        each.start()
    try:
        yield tuple(each.observe for each in watched)
    finally:
        until = time.monotonic() + PATIENCE
        alone = anyio.CapacityLimiter(1)  # handlers that hang may hold every thread of the usual one
        with anyio.CancelScope(shield=True):
            for each in watched:
                await to_thread.run_sync(each.end, until, limiter=alone)


def checked(observer: Observer) -> Observer:
    """The observer. Raises TypeError for what is none."""
    if not callable(observer):
        raise TypeError(f"{observer!r} is no observer: it cannot be called")
    if iscoroutinefunction(observer) or iscoroutinefunction(vars(type(observer)).get("__call__")):
        raise TypeError(f"{observer!r} is no observer: it is called in a thread, so it is declared with def")
    return observer
