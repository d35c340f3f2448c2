"""Protocol of time and randomness."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from agentserver.core.messages import Moment


class Clock(Protocol):
    """Source of time and randomness."""

    def moment(self) -> Moment:
        """Return the present time with a new seed."""

    def steady(self) -> float:
        """Return seconds of a monotonic clock."""
