"""The rate at which each principal may make requests.

Owns the buckets. Refuses to know what a request is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentserver.gateways.principals.callers import Caller

_TIDY: Final = 3600.0
"""Seconds after which buckets that are full are forgotten: who is revoked leaves nothing behind for good."""


class Rates:
    """The buckets of all principals: each holds what its rate allows at once, and fills steadily.

    Args:
        steady: a clock that cannot be set, in seconds.

    A bucket is one number: the time from which it is full. A principal that has not called for that long has none.
    """

    def __init__(self, steady: Callable[[], float]) -> None:
        self._steady = steady
        self._full: dict[str, float] = {}
        self._tidied = 0.0

    def take(self, caller: Caller) -> float:
        """Take a request out of the caller's bucket. Gives 0.0, or the seconds until there is one."""
        now, rate = self._steady(), caller.rate
        full = max(self._full.get(caller.name, now), now) + rate.each
        wait = full - now - rate.each * rate.count
        if wait > rate.each * 1e-9:  # sums of floats are not exact
            return wait
        self._tidy(now)
        self._full[caller.name] = full
        return 0.0

    def __len__(self) -> int:
        """Principals whose bucket is not known to be full."""
        return len(self._full)

    def _tidy(self, now: float) -> None:
        if now - self._tidied >= _TIDY:
            self._tidied = now
            self._full = {name: full for name, full in self._full.items() if full > now}
