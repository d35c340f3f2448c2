"""Whose turn it is: deliveries that may run, those that wait for their listener, workers that wait for work.

Owns the concurrency limit of each listener and the queue between the pump and its workers. Refuses to know what a
delivery is for.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agentserver.core.messages import Delivery


BACKOFF = 0.1
"""Seconds before the first repetition of a failed invocation; each further one waits twice as long."""

BACKOFF_LIMIT = 5.0
"""Seconds that a repetition waits at most."""


def backoff(failures: int) -> float:
    """Seconds to wait after so many failures in a row."""
    return float(min(BACKOFF * 2.0 ** (failures - 1), BACKOFF_LIMIT))


class Schedule:
    """Hands each delivery on as soon as its listener has room, in the order of arrival.

    Args:
        limits: invocations at once by listener.
        hand_on: called with a delivery whose turn has come; it counts as running until ``done``.
    """

    def __init__(self, limits: Mapping[str, int], hand_on: Callable[[Delivery], None]) -> None:
        self._room = dict(limits)
        self._parked: dict[str, deque[Delivery]] = {name: deque() for name in limits}
        self._hand_on = hand_on

    def put(self, delivery: Delivery) -> None:
        """Hand the delivery on, or park it until its listener has room."""
        if self._room[delivery.to] > 0:
            self._room[delivery.to] -= 1
            self._hand_on(delivery)
        else:
            self._parked[delivery.to].append(delivery)

    def done(self, listener: str) -> None:
        """One invocation of a listener is over: its room goes to the next that is parked."""
        if self._parked[listener]:
            self._hand_on(self._parked[listener].popleft())
        else:
            self._room[listener] += 1


STRETCH = 32
"""Deliveries that workers take in a row before everything else on the event loop gets a turn."""


class Turns:
    """The queue that workers take from, in order.

    Idle workers are woken at the end of the event loop's turn, for what is then left: a worker that comes back
    meanwhile finds the next message of its chain without another one being woken for it, as asyncio.Queue would.
    """

    def __init__(self) -> None:
        self._ready: deque[Delivery] = deque()
        self._idle: deque[asyncio.Future[None]] = deque()
        self._dealing = False
        self._stretch = 0

    def put(self, delivery: Delivery) -> None:
        """Add a delivery."""
        self._ready.append(delivery)
        if not self._dealing:
            self._dealing = True
            asyncio.get_running_loop().call_soon(self._deal)

    async def take(self) -> Delivery:
        """The next delivery, when there is one."""
        while not self._ready or self._stretch >= STRETCH:
            idle = asyncio.get_running_loop().create_future()
            self._idle.append(idle)
            await idle
        self._stretch += 1
        if self._stretch == STRETCH:
            asyncio.get_running_loop().call_soon(self._renew)
        return self._ready.popleft()

    def _renew(self) -> None:
        """The loop has come round: all workers together may take another stretch."""
        self._stretch = 0
        self._deal()

    def _deal(self) -> None:
        """Wake as many idle workers as may take a delivery, not counting those cancelled meanwhile."""
        self._dealing = False
        wanted = min(len(self._ready), STRETCH - self._stretch)
        while wanted and self._idle:
            idle = self._idle.popleft()
            if not idle.done():
                idle.set_result(None)
                wanted -= 1
