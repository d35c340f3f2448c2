"""A clock that repeats itself.

Owns moments from a counter: the same calls give the same times and the same ids. Ids made from it can be foretold.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentserver.core.messages import Moment


@dataclass
class FakeClock:
    """Counts.

    Args:
        now: the present time, in seconds since the epoch.
        step: seconds from one moment to the next.
        jumped: seconds by which it was set forward.
    """

    now: float = 1_000_000_000.0
    step: float = 0.001
    count: int = 0
    jumped: float = 0.0

    def moment(self) -> Moment:
        """The next moment."""
        self.count += 1
        self.now += self.step
        return Moment(self.now, self.count.to_bytes(16))

    def steady(self) -> float:
        """The time that has passed, however the clock was set."""
        return self.now - self.jumped

    def jump(self, seconds: float) -> None:
        """Set the clock forward, or back, with no time between."""
        self.now += seconds
        self.jumped += seconds

    def advance(self, seconds: float) -> None:
        """Let time pass. What sleeps meanwhile sleeps on: only the times of decisions change."""
        self.now += seconds
