"""The deadlines of all running calls, by one timer.

Owns when the clock is looked at. Refuses to know what a late call leads to. A call that ends in time costs no timer of
its own: the timer goes off at the earliest deadline there was, and then for the earliest of those that still run.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from agentserver.pump.calling.calls import RunningCall


class Deadlines:
    """Tells calls when they are late.

    Args:
        running: the calls that run now.
    """

    def __init__(self, running: Callable[[], Iterable[RunningCall[Any]]]) -> None:
        self._running = running
        self._timer: asyncio.TimerHandle | None = None
        self._next = float("inf")

    def watch(self, call: RunningCall[Any]) -> None:
        """Look at the clock when this call is due, at the latest."""
        if call.due < self._next:
            self._set(call.due)

    def end(self) -> None:
        """Look at the clock no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _set(self, due: float) -> None:
        self.end()
        self._next = due
        self._timer = asyncio.get_running_loop().call_at(due, self._look)

    def _look(self) -> None:
        now, self._next, self._timer = self._next, float("inf"), None
        calls = [call for call in self._running() if not call.stopped]
        for call in calls:
            if call.due <= now:
                call.late()
        left = [call.due for call in calls if call.due > now]
        if left:
            self._set(min(left))
