"""The test kit for users: an organism in memory, scripted peers, a clock that repeats itself.

Owns the names. Everything is imported when it is first used, because pytest loads this package at every start.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentserver.core.state.approvals import Answer
    from agentserver.testing.approvals import ShownApproval
    from agentserver.testing.clock import FakeClock
    from agentserver.testing.declared import listener, organism_of
    from agentserver.testing.kit import Refused, Testbed, Trace, organism
    from agentserver.testing.models import scripted
    from agentserver.testing.peers import ScriptedCall
    from agentserver.testing.plugin import Organisms
    from agentserver.testing.regressions import replayed

__all__ = [
    "Answer",
    "FakeClock",
    "Organisms",
    "Refused",
    "ScriptedCall",
    "ShownApproval",
    "Testbed",
    "Trace",
    "listener",
    "organism",
    "organism_of",
    "replayed",
    "scripted",
]

_HOMES = {
    "Answer": "approvals",
    "ShownApproval": "approvals",
    "ScriptedCall": "peers",
    "FakeClock": "clock",
    "Organisms": "plugin",
    "Refused": "kit",
    "Testbed": "kit",
    "Trace": "kit",
    "listener": "declared",
    "organism": "kit",
    "organism_of": "declared",
    "replayed": "regressions",
    "scripted": "models",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
