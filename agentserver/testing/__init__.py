"""The test kit for users: an organism in memory, script_model peers, a reproducible clock.

Everything is imported on first use, because pytest loads this package at every start.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentserver.core.state.approvals import Answer
    from agentserver.testing.clock import FakeClock
    from agentserver.testing.declared import listener, organism_of
    from agentserver.testing.kit import RefusalError, ScriptedCall, ShownApproval, Testbed, Trace, organism
    from agentserver.testing.models import script_model
    from agentserver.testing.plugin import Organisms
    from agentserver.testing.regressions import check_replay

__all__ = [
    "Answer",
    "FakeClock",
    "Organisms",
    "RefusalError",
    "ScriptedCall",
    "ShownApproval",
    "Testbed",
    "Trace",
    "check_replay",
    "listener",
    "organism",
    "organism_of",
    "script_model",
]

_HOMES = {
    "Answer": "kit",
    "ShownApproval": "kit",
    "ScriptedCall": "kit",
    "FakeClock": "clock",
    "Organisms": "plugin",
    "RefusalError": "kit",
    "Testbed": "kit",
    "Trace": "kit",
    "listener": "declared",
    "organism": "kit",
    "organism_of": "declared",
    "check_replay": "regressions",
    "script_model": "models",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
