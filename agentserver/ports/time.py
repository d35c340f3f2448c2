"""The seam to time and randomness. Refuses to hold any implementation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from agentserver.core.messages import Moment


class Clock(Protocol):
    """The entrance of time and randomness."""

    def moment(self) -> Moment:
        """The present time with a fresh seed."""
        ...

    def steady(self) -> float:
        """Seconds, since some time or other, by a clock that cannot be set."""
        ...
