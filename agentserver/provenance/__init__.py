"""Value provenance: the origin of every value in a call, and whether it may drive the call.

Exports the library's public names; the pure engine is in ``ledger``, ``judgement`` and ``policy``. Every import is
lazy: marking a payload needs no extra package, the engine needs the extra ``provenance``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentserver.provenance.adapters.decorator import tracked_tool
    from agentserver.provenance.confidentiality.readers import Readers
    from agentserver.provenance.evidence.labels import Call, Leaf, Mode, Observation, Role, Standing, Trust
    from agentserver.provenance.evidence.leaves import leaves
    from agentserver.provenance.judgement import judge
    from agentserver.provenance.ledger import Ledger
    from agentserver.provenance.library.compat import (
        IFCPolicy,
        TaintedValue,
        TaintStore,
        TaintViolationError,
        Violation,
    )
    from agentserver.provenance.library.session import Engine
    from agentserver.provenance.policy.declarations import Policy
    from agentserver.provenance.policy.file import PolicyError, read_policy
    from agentserver.provenance.policy.marks import Amount, Destination, Id, Link, Secret
    from agentserver.provenance.sleuth import Sleuth
    from agentserver.provenance.verdict import Decision, Verdict, explain

__all__ = [
    "Amount",
    "Call",
    "Decision",
    "Destination",
    "Engine",
    "IFCPolicy",
    "Id",
    "Leaf",
    "Ledger",
    "Link",
    "Mode",
    "Observation",
    "Policy",
    "PolicyError",
    "Readers",
    "Role",
    "Secret",
    "Sleuth",
    "Standing",
    "TaintStore",
    "TaintViolationError",
    "TaintedValue",
    "Trust",
    "Verdict",
    "Violation",
    "explain",
    "judge",
    "leaves",
    "read_policy",
    "tracked_tool",
]

_HOMES = {
    "Amount": "policy.marks",
    "Call": "evidence.labels",
    "Decision": "verdict",
    "Destination": "policy.marks",
    "Engine": "library.session",
    "IFCPolicy": "library.compat",
    "Id": "policy.marks",
    "Leaf": "evidence.labels",
    "Ledger": "ledger",
    "Link": "policy.marks",
    "Mode": "evidence.labels",
    "Observation": "evidence.labels",
    "Policy": "policy.declarations",
    "PolicyError": "policy.file",
    "Readers": "confidentiality.readers",
    "Role": "evidence.labels",
    "Secret": "policy.marks",
    "Sleuth": "sleuth",
    "Standing": "evidence.labels",
    "TaintStore": "library.compat",
    "TaintViolationError": "library.compat",
    "TaintedValue": "library.compat",
    "Trust": "evidence.labels",
    "Verdict": "verdict",
    "Violation": "library.compat",
    "explain": "verdict",
    "judge": "judgement",
    "leaves": "evidence.leaves",
    "read_policy": "policy.file",
    "tracked_tool": "adapters.decorator",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
