"""Ready-made listeners for agents: pages, files, mail, arithmetic.

Internal; each tool is a public module of its own.
"""

from __future__ import annotations

from typing import TypeVar

from agentserver.contract import invocation

T = TypeVar("T")


def require_settings(kind: type[T]) -> T:
    """Return the settings of the running listener. Raises TypeError, naming what to declare, for another class."""
    settings = invocation().settings
    if not isinstance(settings, kind):
        raise TypeError(f"this listener needs settings_class: {kind.__module__}.{kind.__qualname__}")
    return settings
