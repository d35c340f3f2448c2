"""The pump's view of time: since when something counts as over, also when the machine's clock is set.

Owns the looks at the clock and the calendar that they give. Refuses to know what has a deadline.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from agentserver.core.state.elapsed import Calendar
from agentserver.ports import EngineError

if TYPE_CHECKING:
    from agentserver.ports import Clock, Engine

logger = logging.getLogger("agentserver.pump")

KEPT_EVERY: Final = 60.0
"""Seconds after which the engine is told that a server still runs."""


class Timekeeper:
    """Looks at the clock whenever a deadline is to be decided about.

    Args:
        clock: the machine's.
        engine: keeps the calendar from one server to the next.
    """

    def __init__(self, clock: Clock, engine: Engine) -> None:
        self._clock, self._engine = clock, engine
        self._calendar = Calendar()
        self._kept = Calendar()
        self._steady = clock.steady()

    async def begin(self) -> None:
        """Take up the calendar of the servers before."""
        self._calendar = self._kept = await self._engine.calendar()
        self._steady = self._clock.steady()
        await self._turn(self._kept.resumed(self._clock.moment().now))

    async def look(self) -> float:
        """The present time, by a clock that may just have jumped."""
        now, steady = self._clock.moment().now, self._clock.steady()
        passed, self._steady = steady - self._steady, steady
        await self._turn(self._calendar.looked(now, passed))
        return now

    async def before(self, limit: float) -> float:
        """The time before which all that was done is ``limit`` seconds old, and so over."""
        now = await self.look()
        return self._calendar.before(limit, now)

    def left(self, limit: float, at: float, now: float) -> float:
        """Seconds, at most, until the limit of what began ``at`` is over, seen at a time that may be long ago."""
        return at - self._calendar.before(limit, now)

    async def expire(self) -> None:
        """Have the engine forget what it has kept long enough. Raises EngineError."""
        now = await self.look()
        await self._engine.expire(now, self._calendar)

    async def _turn(self, calendar: Calendar) -> None:
        jumped = calendar.jumps != self._calendar.jumps
        if jumped:
            at, to = calendar.jumps[-1]
            logger.error(
                "the clock went from %.0f to %.0f at once: what has a deadline waits as if it had not", at, to
            )
        self._calendar = calendar
        last, kept = calendar.last or 0.0, self._kept.last or 0.0
        if jumped or abs(last - kept) >= KEPT_EVERY:
            try:
                await self._engine.keep_calendar(calendar)
            except EngineError as error:
                logger.error("the time cannot be kept: %s", error)  # noqa: TRY400 - the text says it all
            else:
                self._kept = calendar
