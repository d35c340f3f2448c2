"""A reproducible clock: the same calls give the same times and ids."""

from __future__ import annotations

from dataclasses import dataclass

from agentserver.core.messages import Moment


@dataclass
class FakeClock:
    """Clock that counts.

    Args:
        now: current time, in seconds since the epoch.
        step: seconds from one moment to the next.
        jumped: seconds that it was set forward.
    """

    now: float = 1_000_000_000.0
    step: float = 0.001
    count: int = 0
    jumped: float = 0.0

    def moment(self) -> Moment:
        """Return the next moment."""
        self.count += 1
        self.now += self.step
        return Moment(self.now, self.count.to_bytes(16))

    def steady(self) -> float:
        """Return the elapsed time, regardless of jumps."""
        return self.now - self.jumped

    def jump(self, seconds: float) -> None:
        """Set the clock forward or back, without elapsed time."""
        self.now += seconds
        self.jumped += seconds

    def advance(self, seconds: float) -> None:
        """Let time pass for decisions. Sleeping tasks keep sleeping; ``Testbed.advance`` wakes timers as well."""
        self.now += seconds
