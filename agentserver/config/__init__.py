"""Reads ``organism.yaml`` into frozen values, and names every mistake by file, line and path.

Its names are imported when they are first used: a walled worker needs a few modules of this folder and not the rest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentserver.config.findings import ConfigError
    from agentserver.config.loading import forget, load
    from agentserver.config.organism import Organism

__all__ = ["ConfigError", "Organism", "forget", "load"]

_HOMES = {"ConfigError": "findings", "Organism": "organism", "forget": "loading", "load": "loading"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
