"""The rate at which each principal may make requests.

Owns the buckets, and that servers which share a database add theirs up. Refuses to know what a request is.
"""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from agentserver.gateways.principals.refusals import RefusedAddresses
from agentserver.ports.principals import UnusableError
from agentserver.supervision import Ending, start_helper

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from agentserver.gateways.principals.callers import Caller
    from agentserver.ports.principals import PaceStore

PERIOD: Final = 0.25
"""Seconds between two exchanges with the other servers."""

_LOG: Final = logging.getLogger(__name__)

_TIDY: Final = 3600.0
"""Seconds after which buckets that are full are forgotten: who is revoked leaves nothing behind for good."""


class Rates:
    """The buckets of all principals: each holds what its rate allows at once, and fills steadily.

    Args:
        steady: a clock that cannot be set, in seconds.
        shared: where several servers add up; None where there is one server.

    A bucket is one number: the time from which it is full. A principal that has not called for that long has none.
    Servers exchange what was taken, so that the rate holds for all of them together; until the next exchange each of
    them may give what its bucket holds.
    """

    def __init__(self, steady: Callable[[], float], shared: PaceStore | None = None) -> None:
        self._steady, self._shared = steady, shared
        self._full: dict[str, float] = {}
        self._spent: dict[str, float] = {}
        self._refused = RefusedAddresses()
        self._tidied = 0.0
        self._away = False

    def take(self, caller: Caller) -> float:
        """Take a request out of the caller's bucket. Gives 0.0, or the seconds until there is one."""
        now, rate = self._steady(), caller.rate
        wait, full = rate.taken(self._full.get(caller.name, now), now)
        if wait:
            return wait
        self._tidy(now)
        self._full[caller.name] = full
        if self._shared is not None:
            self._spent[caller.name] = self._spent.get(caller.name, 0.0) + rate.each
        return 0.0

    def refuse(self, address: str) -> float:
        """Count a refused request of an address, on this server. Gives 0.0, or the seconds until there may be one."""
        return self._refused.take(address, self._steady())

    @asynccontextmanager
    async def sharing(self, period: float = PERIOD) -> AsyncIterator[None]:
        """Exchange with the other servers every ``period`` seconds for as long as this lasts, where there are some."""
        if self._shared is None:
            yield
            return
        async with anyio.create_task_group() as tasks:
            exchange = partial(self._exchange_often, self._shared, period)
            start_helper(tasks, "adds up rates with other servers", Ending.RESTART, exchange)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()

    async def _exchange_often(self, shared: PaceStore, period: float) -> None:
        while True:
            await anyio.sleep(period)
            await self.exchange(shared)

    async def exchange(self, shared: PaceStore) -> None:
        """Tell the other servers what was taken here, and learn what was taken there of the same buckets."""
        spent, self._spent = self._spent, {}
        if not spent:
            return
        try:
            found = await anyio.to_thread.run_sync(shared.exchange, spent)
        except UnusableError as error:
            if not self._away:
                self._away = True
                _LOG.warning("rates are counted by this server alone: %s", error)
            self._spent = {
                name: spent.get(name, 0.0) + self._spent.get(name, 0.0) for name in {*spent, *self._spent}
            }
            return
        self._away = False
        now = self._steady()
        for name, seconds in found.items():
            self._full[name] = now + seconds + self._spent.get(name, 0.0)

    def __len__(self) -> int:
        """Principals whose bucket is not known to be full."""
        return len(self._full)

    def _tidy(self, now: float) -> None:
        if now - self._tidied >= _TIDY:
            self._tidied = now
            self._full = {name: full for name, full in self._full.items() if full > now}
