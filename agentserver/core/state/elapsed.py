"""Time that has really passed, as far as it is known, where the machine's clock was set meanwhile.

Times are seconds since the epoch as the clock gave them. Nothing is over because the clock jumped; where a jump
leaves it open, it is not over yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["STEADY", "Calendar", "Jump"]

TOLERANCE: Final = 60.0
"""Seconds by which the clock may part from the time that has passed between two looks before that is a jump."""

ABSENCE: Final = 92 * 86_400.0
"""Seconds for which no server may have run for its absence to count as time; more is a jump of the clock."""

JUMPS: Final = 64
"""Jumps that are kept apart. Older ones are taken together, so that nothing is over earlier for it."""


class Jump(NamedTuple):
    """The clock went from one time to another with nothing between."""

    at: float
    to: float


class Calendar(NamedTuple):
    """Knowledge of the clock.

    Args:
        jumps: in the order in which they happened.
        last: what the clock said when it was looked at last; None when it never was.
    """

    jumps: tuple[Jump, ...] = ()
    last: float | None = None

    def before(self, limit: float, now: float) -> float:
        """The time, by the clock, before which all that was done is at least ``limit`` seconds old.

        Args:
            limit: seconds.
            now: what the clock says.
        """
        border, known = now - limit, now - limit
        for at, to in reversed(self.jumps):
            if border >= to:
                break
            border -= to - at
            # Since a jump back the same times come twice: they are taken for the later ones.
            known = min(known, to, border)
        return known

    def resumed(self, now: float) -> Calendar:
        """The calendar of a server that begins: however long none ran, unless that cannot be believed."""
        if self.last is None or -TOLERANCE <= now - self.last <= ABSENCE:
            return self._replace(last=now)
        return self._jumped(Jump(self.last, now))

    def looked(self, now: float, passed: float) -> Calendar:
        """The calendar after another look.

        Args:
            now: what the clock says.
            passed: seconds since the look before, by a clock that cannot be set.
        """
        expected = now if self.last is None else self.last + passed
        if abs(now - expected) <= TOLERANCE:
            return self._replace(last=now)
        return self._jumped(Jump(expected, now))

    def _jumped(self, jump: Jump) -> Calendar:
        return Calendar(_merge_jumps((*self.jumps, jump)), jump.to)


STEADY: Final = Calendar()
"""The calendar of a clock that has never jumped."""


def _merge_jumps(jumps: Sequence[Jump]) -> tuple[Jump, ...]:
    if len(jumps) <= JUMPS:
        return tuple(jumps)
    first, second, *rest = jumps
    later = second.to - second.at
    skipped = max(0.0, later, later + first.to - first.at)
    to = max(first.to, second.to)
    return Jump(to - skipped, to), *rest
