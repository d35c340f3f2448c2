"""Search for the poison message: the delivery whose handler ends the process.

After an unexpected end every delivery that ran is a suspect. Suspects run alone, one after another, before everything
else. A delivery that ran alone when the process ended is the culprit, and is given up if that happens too often.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from agentserver.ports import NO_PREVIOUS_RUN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from anyio import CancelScope

    from agentserver.core.messages import Delivery
    from agentserver.ports import Marks, PreviousRun
    from agentserver.pump.schedule import Ticket


logger = logging.getLogger("agentserver.pump")


class SuspectVerdict(NamedTuple):
    """Verdict on the suspects.

    Args:
        dead: deliveries that are given up.
        isolated: deliveries that run alone, in this order, known culprits first.
        ends: for each of these, how often the process ended while it ran alone.
    """

    dead: tuple[str, ...]
    isolated: tuple[str, ...]
    ends: Mapping[str, int]


def judge(past: PreviousRun, queued: Sequence[str], fatal: int) -> SuspectVerdict:
    """Decide about the deliveries that ran when the last server ended.

    Args:
        past: marks of the last server.
        queued: deliveries that may run now; others are done, or wait behind one of these.
        fatal: ends after which a delivery is given up.
    """
    known = {key: past.ends[key] for key in queued if key in past.ends}
    culprit = past.blocking_delivery or (min(past.running) if len(past.running) == 1 else "")
    if culprit:
        ends = {key: number for key, number in known.items() if number}
        if culprit in queued:
            ends[culprit] = known.get(culprit, 0) + 1
    else:
        ends = known | {key: known.get(key, 0) for key in queued if key in past.running}
    dead = tuple(key for key, number in ends.items() if number >= fatal)
    alone = sorted((key for key in ends if key not in dead), key=lambda key: -ends[key])
    return SuspectVerdict(dead, tuple(alone), ends)


class Probation:
    """Runs suspects alone, then everything else.

    Suspects that arrive with gained conversations while other deliveries run wait until these are done; later
    deliveries wait for the suspects.

    Args:
        marks: where an acquittal is recorded.
        hand_on: receives each delivery that may run.
    """

    def __init__(self, marks: Marks, hand_on: Callable[[Ticket], None]) -> None:
        self._marks = marks
        self._hand_on = hand_on
        self._suspects: deque[Ticket] = deque()
        self._queued: list[Ticket] = []
        self._out: dict[str, Delivery] = {}
        self._holding = False
        self._now: str | None = None

    async def look(
        self, previous: int, queued: Sequence[str], fatal: int, calls: int, *, starting: bool
    ) -> SuspectVerdict:
        """Decide about the deliveries of another server; none of them may run yet. Raises EngineError.

        Args:
            previous: the lease of that server; 0 without an earlier server.
            queued: deliveries that may run now.
            fatal: ends after which a delivery is given up.
            calls: how many may run at once.
            starting: whether this server starts.
        """
        past = (
            await self._marks.previous_run(previous) if previous and (queued or starting) else NO_PREVIOUS_RUN
        )
        verdict = judge(past, queued, fatal)
        if starting or verdict.ends:
            await self._marks.begin(verdict.ends, calls)
        return verdict

    def begin(self, verdict: SuspectVerdict, queued: Iterable[Ticket]) -> tuple[list[Ticket], list[Ticket]]:
        """Start the suspects. Returns the deliveries to give up, and all others."""
        known = {ticket.delivery.id: ticket for ticket in queued}
        dead, alone = (
            [known.pop(key) for key in keys if key in known] for keys in (verdict.dead, verdict.isolated)
        )
        self._suspects += alone
        for ticket in alone:
            to, key = ticket.delivery.to, ticket.delivery.id
            text = "%s was at work on %s when the process ended, %s alone: it runs alone now"
            logger.warning(text, to, key, "once" if verdict.ends[key] == 1 else f"{verdict.ends[key]} times")
        if alone:
            self._holding = True
            self._run_next()
        return dead, list(known.values())

    def put(self, ticket: Ticket) -> None:
        """Pass a delivery on, or hold it while there are suspects."""
        if self._holding:
            self._queued.append(ticket)
        else:
            self._out[ticket.delivery.id] = ticket.delivery
            self._hand_on(ticket)

    def finish(self, delivery: Delivery) -> None:
        """Acquit a delivery that ran while the process survived.

        A delivery whose conversation was lost and that runs again since is another one.
        """
        if self._holding and self._now == delivery.id and self._out.get(delivery.id) is delivery:
            self._marks.acquit(delivery.id)
        self.withdraw(delivery)

    def withdraw(self, delivery: Delivery) -> None:
        """Forget a delivery that does not run here: its conversation is closed, or another process owns it."""
        if self._out.get(delivery.id) is delivery:
            del self._out[delivery.id]
            if self._holding:
                self._run_next()

    def drop(self, conversations: set[str]) -> None:
        """Forget the deliveries of conversations that another process owns."""
        self._suspects = deque(
            one for one in self._suspects if one.delivery.conversation not in conversations
        )
        self._queued = [one for one in self._queued if one.delivery.conversation not in conversations]
        self._out = {key: one for key, one in self._out.items() if one.conversation not in conversations}
        if self._holding:
            self._run_next()

    def _run_next(self) -> None:
        """Run the next suspect once nothing else runs, or pass on all held deliveries after the last."""
        if self._out:
            return
        if self._suspects:
            suspect = self._suspects.popleft()
            self._now = suspect.delivery.id
            self._out[self._now] = suspect.delivery
            self._hand_on(suspect)
            return
        self._holding, self._now = False, None
        others, self._queued = self._queued, []
        for ticket in others:
            self.put(ticket)


class NoMarks:
    """Marks of an engine that does not outlive the process."""

    at_once = True

    async def previous_run(self, previous: int) -> PreviousRun:  # noqa: ARG002 - the port's signature
        """Return an empty past."""
        return NO_PREVIOUS_RUN

    async def begin(self, suspects: Mapping[str, int], calls: int) -> None:
        """Do nothing."""

    def enter(self, delivery: str, conversation: str) -> int:  # noqa: ARG002 - the port's signature
        """Return slot 0."""
        return 0

    async def wait_until_marked(self, slot: int) -> None:
        """Do nothing."""

    def leave(self, slot: int) -> None:
        """Do nothing."""

    def acquit(self, delivery: str) -> None:
        """Do nothing."""

    def hold(self, delivery: str) -> None:
        """Do nothing."""

    def end(self) -> None:
        """Do nothing."""


@contextmanager
def mark_requested_end(marks: Marks, work: CancelScope) -> Iterator[None]:
    """Mark a requested end of the server as no delivery's fault.

    An end is requested if the block returns or raises, or is cancelled alone or with everything around the server. It
    is not if a worker has failed, or the whole loop is shut down, which a handler can cause: it may raise SystemExit,
    stop the loop or cancel every task.

    Args:
        marks: record it.
        work: scope of the workers, which is cancelled here only if one of them has failed.
    """
    bystander = asyncio.create_task(asyncio.Event().wait(), name="bystander")
    taken_down = False
    try:
        yield
    except asyncio.CancelledError:
        # The one reason to cancel a task that none knows and that is in no scope is to cancel all there are.
        taken_down = work.cancel_called or bool(bystander.cancelling())
        raise
    finally:
        if not taken_down:
            marks.end()
        bystander.cancel()
