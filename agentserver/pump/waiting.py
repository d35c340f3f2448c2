"""What waits for a person: who is shown it, and until when.

Owns the deadlines of approvals. Refuses to decide anything, and to keep what it knows: the conversations do.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import anyio

from agentserver.core.approvals import Answer, Decided
from agentserver.core.audit import Event

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from agentserver.core.approvals import Approval
    from agentserver.core.audit import Record
    from agentserver.ports import Approver, Clock

_OVER = {Event.APPROVED, Event.WITHDRAWN, Event.DROPPED}
_LONGEST_NAP = 60.0
"""Seconds after which the clock is looked at again, should it have been set meanwhile."""


class Waiting:
    """The approvals of the conversations at work.

    Args:
        limit: seconds that one may wait.
        approver: shown each; without one nobody is waited for.
    """

    def __init__(self, limit: float, approver: Approver | None) -> None:
        self._limit = limit if approver is not None else 0.0
        self._approver = approver
        self._known: dict[str, Approval] = {}
        self._news = asyncio.Event()

    def known(self) -> tuple[Approval, ...]:
        """What waits, the oldest first."""
        return tuple(self._known.values())

    def add(self, asked: Iterable[Approval]) -> None:
        """Show what has begun to wait."""
        for approval in asked:
            self._known[approval.delivery.id] = approval
            self._news.set()
            if self._approver is not None:
                self._approver.asked(approval)

    def settle(self, records: Iterable[Record]) -> None:
        """Forget what does not wait any more."""
        if self._known:
            for record in records:
                if record.event in _OVER:
                    self._known.pop(record.delivery, None)

    async def watch(self, clock: Clock, decide: Callable[[str, Decided], Awaitable[bool]]) -> None:
        """Answer no for whoever does not answer in time; never ends."""
        why = "no answer in time" if self._approver is not None else "nobody is there to ask"
        while True:
            self._news.clear()
            now = clock.moment().now
            for approval in [one for one in self._known.values() if one.at + self._limit <= now]:
                await decide(
                    approval.delivery.conversation, Decided(approval.id, approval.digest, Answer.DENY, why)
                )
                self._known.pop(approval.delivery.id, None)
            await self._sleep(min((one.at for one in self._known.values()), default=None), now)

    async def _sleep(self, oldest: float | None, now: float) -> None:
        left = None if oldest is None else min(oldest + self._limit - now, _LONGEST_NAP)
        with anyio.move_on_after(left):
            await self._news.wait()
