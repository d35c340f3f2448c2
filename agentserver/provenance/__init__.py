"""Value provenance: where the words of a call come from, and whether they may drive it.

The library face is here; the pure engine is in the modules it is made of (``ledger``, ``judge``, ``policy``).
"""

from __future__ import annotations

from agentserver.provenance.adapters.decorator import tracked_tool
from agentserver.provenance.confidentiality.readers import Readers
from agentserver.provenance.evidence.labels import Call, Leaf, Mode, Observation, Role, Standing, Trust
from agentserver.provenance.evidence.leaves import leaves
from agentserver.provenance.explain import explain
from agentserver.provenance.judge import judge
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
from agentserver.provenance.verdict import Decision, Verdict

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
