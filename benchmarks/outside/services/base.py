"""A service: state in memory, and methods marked as tools.

Owns the mark, the error of a tool, and ids and times that are the same in each run. Independent of the services.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    Function = TypeVar("Function", bound=Callable[..., Any])

NOW = datetime(2026, 3, 10, 9, 0, tzinfo=UTC)
"""The time in the world: a Tuesday."""


class ToolError(Exception):
    """A tool's own refusal: no such thing, or a malformed request."""


def tool(function: Function) -> Function:
    """Marks a method as a tool; its signature and docstring are what an agent is shown."""
    function.__dict__["is_tool"] = True
    return function


class Service:
    """State in memory. A subclass adds its data and the tools."""

    prefix = "x"

    def __init__(self) -> None:
        self.made = 0

    def mint(self, length: int = 16) -> str:
        """The next id: hexadecimal, without a visible order."""
        self.made += 1
        return hashlib.sha256(f"{self.prefix}{self.made}".encode()).hexdigest()[:length]

    def digits(self, length: int = 13) -> str:
        """The next id made of digits."""
        return str(int(self.mint(32), 16))[:length]

    def moment(self) -> datetime:
        """A time in the past, later for each thing made."""
        return NOW - timedelta(days=60) + timedelta(hours=7 * self.made)


def tools_of(service: Service) -> dict[str, Callable[..., Any]]:
    """The tools of a service by name, in the order of their definition."""
    names = [name for kind in reversed(type(service).__mro__) for name in vars(kind)]
    return {name: getattr(service, name) for name in names if hasattr(getattr(service, name), "is_tool")}


def stamp(moment: datetime) -> str:
    """A time as RFC 3339 has it, in UTC."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
