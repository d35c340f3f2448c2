"""Elapsed time despite jumps of the machine's clock.

Times are seconds since the epoch by that clock. A jump never expires anything; in doubt, time has not elapsed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["STEADY", "Calendar", "Jump"]

TOLERANCE: Final = 60.0
"""Seconds of difference between the clock and the elapsed time from which it is a jump."""

ABSENCE: Final = 92 * 86_400.0
"""Longest time without a server that counts as elapsed; more is a jump of the clock."""

JUMPS: Final = 64
"""Jumps that are kept. Older ones are merged, so that nothing expires early."""


class Jump(NamedTuple):
    """Jump of the clock from one time to another."""

    at: float
    to: float


class Calendar(NamedTuple):
    """Known jumps of the clock.

    Args:
        jumps: in the order in which they happened.
        last: the last observed time; None before the first.
    """

    jumps: tuple[Jump, ...] = ()
    last: float | None = None

    def cutoff(self, limit: float, now: float) -> float:
        """Return the clock time before which events are at least ``limit`` seconds old.

        Args:
            limit: seconds.
            now: the clock time.
        """
        border, latest = now - limit, now - limit
        for at, to in reversed(self.jumps):
            if border >= to:
                break
            border -= to - at
            # After a jump back the same times occur twice: assume the later ones.
            latest = min(latest, to, border)
        return latest

    def resume(self, now: float) -> Calendar:
        """Return the calendar at the start of a server. An implausibly long absence counts as a jump."""
        if self.last is None or -TOLERANCE <= now - self.last <= ABSENCE:
            return self._replace(last=now)
        return self._add_jump(Jump(self.last, now))

    def observe(self, now: float, passed: float) -> Calendar:
        """Return the calendar after another observation.

        Args:
            now: the clock time.
            passed: seconds since the previous one, by a monotonic clock.
        """
        expected = now if self.last is None else self.last + passed
        if abs(now - expected) <= TOLERANCE:
            return self._replace(last=now)
        return self._add_jump(Jump(expected, now))

    def _add_jump(self, jump: Jump) -> Calendar:
        return Calendar(_merge_jumps((*self.jumps, jump)), jump.to)


STEADY: Final = Calendar()
"""The calendar of a clock that has never jumped."""


def _merge_jumps(jumps: Sequence[Jump]) -> tuple[Jump, ...]:
    if len(jumps) <= JUMPS:
        return tuple(jumps)
    first, second, *rest = jumps
    second_length = second.to - second.at
    skipped = max(0.0, second_length, second_length + first.to - first.at)
    to = max(first.to, second.to)
    return Jump(to - skipped, to), *rest
