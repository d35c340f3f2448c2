"""Shares of the event loop: principals take turns by the CPU time and bytes that they have used.

The order is start-time fair queueing.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

T = TypeVar("T")

BYTE: Final = 20e-9
"""Seconds charged for a byte read for a principal: the approximate cost of parsing and validation."""

SLICE: Final = 0.001
"""Seconds of CPU time that requests may use in one round of the event loop; later steps wait for their turn."""

FORGET: Final = 1000
"""Principals from which on those are forgotten that wait for nothing and owe nothing."""


class Share:
    """The share of one principal.

    Args:
        loop: the shares of all principals.

    ``cpu`` is the CPU time that its requests have used, in seconds, and ``read`` the bytes that were read for it.
    """

    def __init__(self, loop: LoopShares) -> None:
        self._loop = loop
        self.cpu = 0.0
        self.read = 0
        self.present = 0
        self.finish = 0.0
        self.waiting: deque[asyncio.Future[None]] = deque()
        self.stepping = False

    def count_read(self, size: int) -> None:
        """Count bytes that were read for the principal."""
        self.read += size
        self._loop.charge(self, size * BYTE)

    def run(self, work: Coroutine[Any, Any, T]) -> Awaitable[T]:
        """Run a coroutine in this share: each of its steps waits for its turn and is measured.

        Work of the same share that runs within a step of it is a part of that step.
        """
        return _Steps(self, self._loop, work)


class _Steps(Awaitable[T]):
    """A coroutine step by step. An exception that is thrown in is for the work, whose own steps it passes."""

    def __init__(self, share: Share, loop: LoopShares, work: Coroutine[Any, Any, T]) -> None:
        self._share, self._loop, self._work = share, loop, work
        self._generator: Generator[Any, None, None] | None = None

    def __await__(self) -> Generator[Any, Any, T]:
        return cast("Generator[Any, Any, T]", self)  # it has what an await asks for

    def __iter__(self) -> _Steps[T]:
        return self

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, _value: None) -> Any:
        """Run the next step, or wait for its turn. Raises StopIteration with the result."""
        if self._generator is None and not self._share.stepping:
            turn = self._loop.turn(self._share)
            if turn is not None:
                self._generator = turn.__await__()
                return next(self._generator)
        self._generator = None
        return self._measure(self._work.send, None)

    def throw(self, error: BaseException, *_: object) -> Any:
        """Hand an exception on to the work, which waits for no turn to clean up."""
        self._generator = None
        return self._measure(self._work.throw, error)

    def close(self) -> None:
        """Close the work."""
        self._work.close()

    def _measure(self, step: Callable[[Any], Any], value: object) -> Any:
        share = self._share
        if share.stepping:
            return step(value)
        share.stepping, began = True, self._loop.clock()
        try:
            return step(value)
        finally:
            share.stepping, used = False, self._loop.clock() - began
            share.cpu += used
            self._loop.charge(share, used)


class LoopShares:
    """The shares of all principals in the event loop.

    A step runs at once while steps have used less than ``SLICE`` in this round of the loop. Later ones wait; each round
    runs one of them, of the principal that has used least. A returning principal starts level with the others, so that
    idle time is not credit.

    Args:
        clock: CPU seconds of the thread.
    """

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self.clock = clock
        self._shares: dict[str, Share] = {}
        self._heap: list[tuple[float, int, Share]] = []
        self._order = count()
        self._now = 0.0
        self._spent = 0.0
        self._last: Share | None = None
        self._scheduled = False

    def __len__(self) -> int:
        """Principals that are known."""
        return len(self._shares)

    def find(self, name: str) -> Share:
        """Return the share of a principal."""
        found = self._shares.get(name)
        if found is None:
            self._tidy()
            found = self._shares[name] = Share(self)
        return found

    def turn(self, share: Share) -> asyncio.Future[None] | None:
        """Let a step of a share run now (None), or return a future for its turn."""
        start = max(self._now, share.finish)
        if self._spent < SLICE and not self._heap and self._last is None:
            self._now = start
            return None
        mine = asyncio.get_running_loop().create_future()
        share.waiting.append(mine)
        if len(share.waiting) == 1 and share is not self._last:
            heappush(self._heap, (start, next(self._order), share))
        self._schedule()
        return mine

    def charge(self, share: Share, seconds: float) -> None:
        """Count what a share has used."""
        share.finish = max(self._now, share.finish) + seconds
        self._spent += seconds
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._round)

    def _round(self) -> None:
        """Begin a round: let one step that waits run, of the principal that has used least."""
        self._scheduled, self._spent = False, 0.0
        if self._last is not None:  # its step has run by now, and what it used is known
            self._queue(self._last)
            self._last = None
        while self._heap:
            self._now, _, share = heappop(self._heap)
            if self._grant(share):
                self._last = share
                self._schedule()  # comes after the step, which is woken before
                return

    def _queue(self, share: Share) -> None:
        if share.waiting:
            heappush(self._heap, (max(self._now, share.finish), next(self._order), share))

    def _grant(self, share: Share) -> bool:
        """Wake the step of a share that has waited longest. False when all were cancelled."""
        while share.waiting:
            waits = share.waiting.popleft()
            if not waits.done():
                waits.set_result(None)
                return True
        return False

    def _tidy(self) -> None:
        if len(self._shares) >= FORGET:
            self._shares = {
                name: each
                for name, each in self._shares.items()
                if each.present or each.waiting or each.finish > self._now
            }
