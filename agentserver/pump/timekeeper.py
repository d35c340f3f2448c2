"""Time of the pump: deadlines that survive a changed clock, and the end of idle conversations."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from agentserver.core.state.elapsed_time import Calendar
from agentserver.ports import EngineError, FencedError
from agentserver.pump.schedule import turn
from agentserver.supervision import EndEffect, start_errand

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from agentserver.core.state.conversation import Conversation
    from agentserver.ports import Clock, Engine
    from agentserver.pump.boundary import Boundary


logger = logging.getLogger("agentserver.pump")


KEPT_EVERY: Final = 60.0
"""Seconds after which the engine records that a server still runs."""


class Timekeeper:
    """Clock that decides deadlines across jumps of the machine's clock.

    Args:
        clock: the machine's.
        engine: keeps the calendar from one server to the next.
    """

    def __init__(self, clock: Clock, engine: Engine) -> None:
        self._clock, self._engine = clock, engine
        self._calendar = Calendar()
        self._stored_calendar = Calendar()
        self._steady = clock.steady()

    async def begin(self) -> None:
        """Load the calendar of earlier servers."""
        self._calendar = self._stored_calendar = await self._engine.calendar()
        self._steady = self._clock.steady()
        await self._turn(self._stored_calendar.resume(self._clock.moment().now))

    async def look(self) -> float:
        """Return the present time, and record a jump of the clock."""
        now, steady = self._clock.moment().now, self._clock.steady()
        passed, self._steady = steady - self._steady, steady
        await self._turn(self._calendar.observe(now, passed))
        return now

    async def time_before(self, limit: float) -> float:
        """Return the time before which everything is older than ``limit`` seconds."""
        now = await self.look()
        return self._calendar.cutoff(limit, now)

    def seconds_left(self, limit: float, at: float, now: float) -> float:
        """Return the most seconds that remain of a limit that began ``at``, at a time that may be long ago."""
        return at - self._calendar.cutoff(limit, now)

    async def expire(self) -> None:
        """Expire what the engine has kept long enough. Raises EngineError."""
        now = await self.look()
        await self._engine.expire(now, self._calendar)

    async def _turn(self, calendar: Calendar) -> None:
        jumped = calendar.jumps != self._calendar.jumps
        if jumped:
            at, to = calendar.jumps[-1]
            logger.error("the clock jumped from %.0f to %.0f: deadlines are extended by the jump", at, to)
        self._calendar = calendar
        last, recorded = calendar.last or 0.0, self._stored_calendar.last or 0.0
        if jumped or abs(last - recorded) >= KEPT_EVERY:
            try:
                await self._engine.keep_calendar(calendar)
            except EngineError as error:
                logger.error("the time cannot be kept: %s", error)  # noqa: TRY400 - the text says it all
            else:
                self._stored_calendar = calendar


TOGETHER: Final = 100
"""Sleeping conversations that are woken before the engine is asked for more."""

FARTHEST: Final = 30.0
"""Seconds after which the clock and the engine are looked at again: other processes set timers, too."""

AGAIN: Final = 1.0
"""Seconds after which a conversation is tried again that could not be woken."""


class Alarms:
    """Wakes conversations whose delayed messages are due.

    Args:
        time: of the pump.
        engine: lists the sleeping conversations, which need not be in memory.
    """

    def __init__(self, time: Timekeeper, engine: Engine) -> None:
        self._time, self._engine = time, engine
        self.due_times: dict[str, float] = {}
        """Time at which the first message of each conversation at work is due."""
        self._settled = asyncio.Event()
        self._next = 0.0
        self._news = asyncio.Event()
        self._tried: dict[str, float] = {}

    def note(self, conversation: Conversation) -> None:
        """Note the first timer of a conversation at work."""
        if not conversation.timers:
            self.due_times.pop(conversation.id, None)
            return
        due = self.due_times[conversation.id] = conversation.timers[0].due_at
        if due < self._next:
            self._news.set()

    def forget(self, conversation: str) -> None:
        """Forget a conversation that is no longer at work."""
        self.due_times.pop(conversation, None)

    async def settle(self) -> None:
        """Wait until all that are due by now have been woken."""
        self._settled.clear()
        self._news.set()
        await self._settled.wait()

    async def run(
        self,
        find: Callable[[str], Awaitable[object]],
        wake: Callable[[str, float], Awaitable[None]],
        stopping: Callable[[], bool],
    ) -> None:
        """Wake conversations in the order of their due times. Never returns.

        Args:
            find: loads and claims a conversation.
            wake: releases the messages of a conversation that are due at a time.
            stopping: whether nothing may be woken any longer.
        """
        while True:
            self._news.clear()
            now = await self._time.look()
            due = [] if stopping() else await self._list_due(now)
            if due:
                await self._wake(due, now, find, wake)
                continue
            if not self._news.is_set():  # who asked during this look waits for the next: it may see more
                self._settled.set()
            with anyio.move_on_after(min(max(self._next - now, 0.0), FARTHEST)):
                await self._news.wait()

    async def _list_due(self, now: float) -> list[str]:
        """List the first conversations that are due, and note the time of the next one."""
        try:
            sleeping = await self._engine.list_sleeping(TOGETHER)
        except EngineError as error:
            logger.error("sleeping conversations cannot be listed: %s", error)  # noqa: TRY400 - the text says it all
            self._next = now + AGAIN
            return []
        times = {one.id: one.due_at for one in sleeping} | self.due_times
        self._tried = {key: until for key, until in self._tried.items() if until > now and key in times}
        due = {key: max(at, self._tried.get(key, at)) for key, at in times.items()}
        self._next = min(due.values(), default=now + FARTHEST)
        ready = sorted((times[key], key) for key, at in due.items() if at <= now)
        return [key for _, key in ready[:TOGETHER]]

    async def _wake(
        self,
        due: Sequence[str],
        now: float,
        find: Callable[[str], Awaitable[object]],
        wake: Callable[[str, float], Awaitable[None]],
    ) -> None:
        """Load conversations, and then decide about them in their order, so that their commits share transactions."""

        async def release(key: str) -> None:
            try:
                await wake(key, now)
            except EngineError:  # another process has it, or nothing can be kept at present
                self._tried[key] = now + AGAIN

        for key in due:
            with suppress(EngineError):
                await find(key)
        async with anyio.create_task_group() as tasks:
            for key in due:
                start_errand(tasks, "wakes a conversation", EndEffect.SERVER, partial(release, key))


AT_ONCE = 500
"""Conversations that are checked before the event loop turns."""


LOOK = 3600.0
"""Seconds after which the clock is checked again."""


async def sweep(
    live: Mapping[str, Conversation],
    engine: Engine,
    boundary: Boundary,
    time: Timekeeper,
    limit: Callable[[], float],
) -> None:
    """Close idle conversations, those without a step for ``limit()`` seconds. Never returns."""
    while True:
        await anyio.sleep(min(limit() / 4, LOOK))
        await tidy(live, engine, boundary, time, limit())


async def tidy(
    live: Mapping[str, Conversation],
    engine: Engine,
    boundary: Boundary,
    time: Timekeeper,
    limit: float,
) -> None:
    """Close conversations without a step for ``limit`` seconds, also those that an earlier server left open.

    Expires those that were kept long enough.
    """
    before = await time.time_before(limit)

    def idle(conversation: Conversation) -> bool:
        return conversation.touched < before and not conversation.requests

    for number, conversation in enumerate(list(live.values())):
        if not number % AT_ONCE:
            await turn()
        if idle(conversation):
            await _close(boundary, conversation.id, idle)
    try:
        for key in await _list_idle(engine, before):
            if key not in live:
                await _close(boundary, key, idle, patient=False)
        await time.expire()
    except EngineError as error:
        logger.error("the journal could not be tidied: %s", error)  # noqa: TRY400 - the text says it all


async def _close(
    boundary: Boundary, conversation: str, idle: Callable[[Conversation], bool], *, patient: bool = True
) -> None:
    """Close a conversation that is still idle, and still this process's."""
    with suppress(FencedError):
        await boundary.close(conversation, "idle", idle, patient=patient)


async def _list_idle(engine: Engine, before: float) -> list[str]:
    found: list[str] = []
    async for key in engine.idle(before):
        found.append(key)
        if not len(found) % AT_ONCE:
            await turn()
    return found
