"""Sends the messages of schedules at their due times, each once over all servers.

Every server runs every schedule. The key of a message is made of its due time, so that the engine takes it from one.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

import anyio

from agentserver.contract import Code
from agentserver.gateways.endings import end_when_done, start_ending, submit_event
from agentserver.ports import EngineError, QuotaError, RejectReason, UnkeptError
from agentserver.ports.schedules import MOST, seconds_until
from agentserver.supervision import EndEffect, start_errand

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anyio.abc import TaskGroup

    from agentserver.ports import Ingress
    from agentserver.ports.schedules import Schedule

logger = logging.getLogger("agentserver.schedules")

RETRY: Final = 5.0
"""Seconds between two attempts while the engine stores nothing."""


class ScheduleRunner:
    """Helper that sends what is due.

    Args:
        server: takes the messages.
        now: seconds since the epoch.
        look: seconds after which the clock is read again: it may jump, and a machine may sleep.
    """

    def __init__(self, server: Ingress, now: Callable[[], float], look: float = 30.0) -> None:
        self._server, self._now, self._look = server, now, look
        self._wanted: frozenset[Schedule] = frozenset()
        self._changed = anyio.Event()

    def replace(self, schedules: Sequence[Schedule]) -> None:
        """Replace the schedules. One that has not changed keeps running."""
        self._wanted = frozenset(schedules)
        self._changed.set()

    async def run(self) -> None:
        """Run each schedule until cancelled."""
        running: dict[Schedule, anyio.CancelScope] = {}
        async with anyio.create_task_group() as tasks:
            while True:
                self._changed = anyio.Event()
                for gone in running.keys() - self._wanted:
                    running.pop(gone).cancel()
                for new in self._wanted - running.keys():
                    scope = running[new] = anyio.CancelScope()
                    work = partial(self._run_one, new, scope, tasks)
                    start_errand(tasks, f"sends {new.name} when it is due", EndEffect.SERVER, work)
                await self._changed.wait()

    async def _run_one(self, schedule: Schedule, scope: anyio.CancelScope, tasks: TaskGroup) -> None:
        with scope:
            began = self._now()  # before the record is read: a time that is due meanwhile is sent
            sent = await self._find_last(schedule)
            last = began if schedule.catch_up == "none" else sent
            while True:
                due = schedule.recurrence.next_after(last)
                now = await self._wait_until(due)
                passed = schedule.list_due(last, now)
                chosen = schedule.choose(passed, now)
                if len(chosen) < len(passed):
                    logger.warning(
                        "%s: %d due times have passed unsent", schedule.name, len(passed) - len(chosen)
                    )
                waits = schedule.overlap == "queue" or len(chosen) > 1
                for each in chosen:
                    sent = await self._send_when_free(schedule, (sent, each), tasks, waits=waits)
                last = max(last, *passed)

    async def _wait_until(self, due: float) -> float:
        """Wait for a time of the clock, which may jump meanwhile. Returns the present time."""
        while True:
            now = self._now()
            if now >= due:
                return now
            await anyio.sleep(seconds_until(due, now, self._look))

    async def _find_last(self, schedule: Schedule) -> float:
        """Find the last due time that was sent; the present time if none is known, as for a new schedule."""
        now = self._now()
        for due in islice(schedule.recurrence.back_from(now), MOST):
            if await self._was_sent(schedule, due):
                return due
        return now

    async def _was_sent(self, schedule: Schedule, due: float) -> bool:
        while True:
            try:
                return (
                    await self._server.find_opened(schedule.principal.name, schedule.key_of(due)) is not None
                )
            except (EngineError, UnkeptError):
                await anyio.sleep(RETRY)

    async def _send_when_free(
        self, schedule: Schedule, pair: tuple[float, float], tasks: TaskGroup, *, waits: bool
    ) -> float:
        """Send the second message of a pair unless one that was due since the first is in progress, or once it is done.

        Returns the due time of the message that may be in progress now.
        """
        sent, due = pair
        running = await self._find_running(schedule, sent, due)
        if running is not None:
            sent, conversation = running
            if not waits:
                logger.warning(
                    "%s: skipped, since %s is in progress", schedule.key_of(due), schedule.key_of(sent)
                )
                return sent
            await end_when_done(self._server, schedule.principal.name, conversation)
        while True:
            if await self._send(schedule, due, tasks):
                return due
            await anyio.sleep(RETRY)

    async def _find_running(self, schedule: Schedule, sent: float, due: float) -> tuple[float, str] | None:
        """Find the due time and the conversation of a message in progress that was due from ``sent`` to before ``due``.

        Those after ``sent`` were skipped here, and another server may have sent one.
        """
        if found := await self._find_in_progress(schedule, sent):
            return sent, found
        for each in reversed(schedule.list_due(sent, due)[:-1]):
            if found := await self._find_in_progress(schedule, each):
                return each, found
        return None

    async def _find_in_progress(self, schedule: Schedule, due: float) -> str:
        """Find the conversation of a due time whose message is in progress; empty without one.

        The message is submitted again, which returns the id of its request, and sends it if a crash came before.
        """
        name, key = schedule.principal.name, schedule.key_of(due)
        with suppress(LookupError, ValueError, EngineError, UnkeptError):
            found = await self._server.find_opened(name, key)
            if found is not None and not found.over:
                conversation, message = found.conversation, schedule.message
                sent = await submit_event(self._server, name, conversation, message, schedule.listener, key)
                answer = await self._server.find_answer(name, conversation, sent.request)
                return conversation if answer is None else ""
        return ""

    async def _send(self, schedule: Schedule, due: float, tasks: TaskGroup) -> bool:
        """Send one message. Returns False if the engine cannot store it at present."""
        key, who = schedule.key_of(due), schedule.principal
        try:
            handle = await self._server.open(who, key)
            handle.detach()
            sent = await submit_event(
                self._server, who.name, handle.id, schedule.message, schedule.listener, key
            )
        except (EngineError, UnkeptError) as error:
            logger.warning("%s: not sent yet: %s", key, error)
            return False
        except (QuotaError, ValueError, LookupError) as error:
            logger.error("%s: not sent: %s", key, error)  # noqa: TRY400 - the text says it all
            return True
        if isinstance(sent.code, RejectReason):
            return sent.code is RejectReason.OVER
        if sent.code is Code.BUSY:
            logger.warning("%s: not sent yet: the queue of %s is full", key, schedule.listener)
            return False
        if isinstance(sent.code, Code):
            logger.error("%s: refused: %s", key, sent.code)
        elif not sent.again:
            logger.info("%s: sent to %s", key, schedule.listener)
        if not sent.again:
            start_ending(tasks, key, self._server, who.name, handle.id, sent.after)
        return True
