"""The time, in the manner of the MCP time server."""

from __future__ import annotations

from typing import Any

from benchmarks.outside.services.base import NOW, Service, tool


class Clock(Service):
    """A clock that does not move."""

    @tool
    def get_current_time(self, timezone: str = "Europe/Lisbon") -> Any:
        """Get current time in a specific timezone.

        Args:
            timezone: IANA timezone name.
        """
        return {
            "timezone": timezone,
            "datetime": NOW.isoformat(),
            "day_of_week": NOW.strftime("%A"),
            "is_dst": False,
        }
