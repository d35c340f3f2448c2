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
from agentserver.ports import EngineError, NotStoredError, QuotaError, RejectReason
from agentserver.ports.schedules import MOST, Occasion, drop_paused, find_state, seconds_until
from agentserver.supervision import EndEffect, start_errand

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anyio.abc import TaskGroup

    from agentserver.ports import Answers, Ingress
    from agentserver.ports.schedules import Schedule, ScheduleOrder

logger = logging.getLogger("agentserver.schedules")

RETRY: Final = 5.0
"""Seconds between two attempts while the engine stores nothing."""

POLL: Final = 1.0
"""Seconds after which orders of operators are looked for again."""


class ScheduleRunner:
    """Helper that sends messages at their due times, and when operators order one.

    Args:
        server: takes the messages.
        now: seconds since the epoch.
        look: seconds after which the clock is read again: it may jump, and a machine may sleep.
        answers: has the orders of operators; None if no other process can leave one.
    """

    def __init__(
        self,
        server: Ingress,
        now: Callable[[], float],
        look: float = 30.0,
        answers: Answers | None = None,
    ) -> None:
        self._server, self._now, self._look, self._answers = server, now, look, answers
        self._schedules: frozenset[Schedule] = frozenset()
        self._changed = anyio.Event()
        self._ordered: frozenset[str] = frozenset()
        self._called = anyio.Event()

    def replace(self, schedules: Sequence[Schedule]) -> None:
        """Replace the schedules. One that has not changed keeps running."""
        self._schedules = frozenset(schedules)
        self._changed.set()

    async def run(self) -> None:
        """Run each schedule until cancelled."""
        running: dict[Schedule, anyio.CancelScope] = {}
        async with anyio.create_task_group() as tasks:
            if self._answers is not None:
                watching = partial(self._watch_orders, self._answers)
                start_errand(tasks, "looks for orders about schedules", EndEffect.SERVER, watching)
            while True:
                self._changed = anyio.Event()
                for removed in running.keys() - self._schedules:
                    running.pop(removed).cancel()
                for new in self._schedules - running.keys():
                    scope = running[new] = anyio.CancelScope()
                    work = partial(self._run_one, new, scope, tasks)
                    start_errand(tasks, f"sends {new.name} when it is due", EndEffect.SERVER, work)
                await self._changed.wait()

    async def _watch_orders(self, answers: Answers) -> None:
        """Wake the schedules with an order to run. Never returns."""
        while True:
            if self._schedules:
                with suppress(EngineError):
                    found = await answers.list_orders()
                    self._ordered = frozenset(each.schedule for each in found if each.kind == "run")
            if self._ordered:
                self._called.set()
                self._called = anyio.Event()
            await anyio.sleep(POLL)

    async def _run_one(self, schedule: Schedule, scope: anyio.CancelScope, tasks: TaskGroup) -> None:
        with scope:
            began = self._now()  # before the record is read: a time that is due meanwhile is sent
            sent = Occasion(schedule, await self._find_last(schedule))
            last = began if schedule.catch_up == "none" else sent.at
            while True:
                await self._wait_until(schedule.recurrence.next_after(last), schedule.name)
                self._ordered -= {schedule.name}
                now, orders = self._now(), await self._read_orders(schedule.name)
                for order in (each for each in orders if each.kind == "run"):
                    occasion = Occasion(schedule, order.at, order.by)
                    sent = await self._send_when_free(occasion, (sent, now), orders, tasks, waits=True)
                    await self._mark_ran(order)
                passed = schedule.list_due(last, now)
                chosen = self._choose(schedule, passed, orders, now)
                waits = schedule.overlap == "queue" or len(chosen) > 1
                for due in chosen:
                    occasion = Occasion(schedule, due)
                    sent = await self._send_when_free(occasion, (sent, due), orders, tasks, waits=waits)
                last = max((last, *passed))

    def _choose(
        self, schedule: Schedule, passed: Sequence[float], orders: Sequence[ScheduleOrder], now: float
    ) -> Sequence[float]:
        """Choose the due times to send. A pause drops its due times, and ``catch_up`` selects among the others."""
        state = find_state(orders)
        due = drop_paused(passed, state)
        if state is not None and len(due) < len(passed):
            count = len(passed) - len(due)
            logger.info("%s: %s by %s: %d due times are not sent", schedule.name, state.kind, state.by, count)
        chosen = schedule.choose(due, now)
        if len(chosen) < len(due):
            logger.warning("%s: %d due times have passed unsent", schedule.name, len(due) - len(chosen))
        return chosen

    async def _wait_until(self, due: float, schedule: str) -> None:
        """Wait for a time of the clock, which may jump meanwhile, or for an order to run."""
        while (now := self._now()) < due and schedule not in self._ordered:
            with anyio.move_on_after(seconds_until(due, now, self._look)):
                await self._called.wait()

    async def _read_orders(self, schedule: str) -> Sequence[ScheduleOrder]:
        """Read the orders about a schedule, oldest first."""
        while self._answers is not None:
            try:
                return [each for each in await self._answers.list_orders() if each.schedule == schedule]
            except EngineError:
                await anyio.sleep(RETRY)
        return ()

    async def _mark_ran(self, order: ScheduleOrder) -> None:
        """Mark an order as sent. If that fails, it is sent again soon, which the engine recognises by its key."""
        if self._answers is not None:
            with suppress(EngineError):
                await self._answers.mark_ran(order)

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
            except (EngineError, NotStoredError):
                await anyio.sleep(RETRY)

    async def _send_when_free(
        self,
        occasion: Occasion,
        since: tuple[Occasion, float],
        orders: Sequence[ScheduleOrder],
        tasks: TaskGroup,
        *,
        waits: bool,
    ) -> Occasion:
        """Send a message unless an earlier one is in progress, or once that is done.

        Args:
            occasion: of the message.
            since: the last message that was sent here, and the time up to which other servers may have sent one.
            orders: about the schedule.
            tasks: end the conversation.
            waits: whether to wait for the message in progress.

        Returns: the occasion of the message that may be in progress now.
        """
        running = await self._find_running(occasion, since, orders)
        if running is not None:
            earlier, conversation = running
            if not waits:
                logger.warning("%s: skipped, since %s is in progress", occasion.key, earlier.key)
                return earlier
            await end_when_done(self._server, earlier.principal.name, conversation)
        while True:
            if await self._send(occasion, tasks):
                return occasion
            await anyio.sleep(RETRY)

    async def _find_running(
        self, occasion: Occasion, since: tuple[Occasion, float], orders: Sequence[ScheduleOrder]
    ) -> tuple[Occasion, str] | None:
        """Find another message in progress, and its conversation.

        The due times after the last message were skipped here, and another server may have sent one.
        """
        schedule, (last, until) = occasion.schedule, since
        ordered = [Occasion(schedule, each.at, each.by) for each in orders if each.kind in ("run", "ran")]
        skipped = [Occasion(schedule, each) for each in schedule.list_due(last.at, until)]
        for each in (last, *reversed(ordered), *reversed(skipped)):
            if each != occasion and (found := await self._find_in_progress(each)):
                return each, found
        return None

    async def _find_in_progress(self, occasion: Occasion) -> str:
        """Find the conversation of a message in progress; empty without one.

        The message is submitted again, which returns the id of its request, and sends it if a crash came before.
        """
        name, key, schedule = occasion.principal.name, occasion.key, occasion.schedule
        with suppress(LookupError, ValueError, EngineError, NotStoredError):
            found = await self._server.find_opened(name, key)
            if found is not None and not found.over:
                conversation, message = found.conversation, schedule.message
                sent = await submit_event(self._server, name, conversation, message, schedule.listener, key)
                answer = next(iter(await self._server.find_events(name, conversation, sent.request)), None)
                return conversation if answer is None else ""
        return ""

    async def _send(self, occasion: Occasion, tasks: TaskGroup) -> bool:
        """Send one message. Returns False if the engine cannot store it at present."""
        key, principal, schedule = occasion.key, occasion.principal, occasion.schedule
        try:
            handle = await self._server.open(principal, key)
            handle.detach()
            sent = await submit_event(
                self._server, principal.name, handle.id, schedule.message, schedule.listener, key
            )
        except (EngineError, NotStoredError) as error:
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
            start_ending(tasks, key, self._server, principal.name, handle.id, sent.after)
        return True
