"""Who takes part, each with the same lists where it takes lists."""

from __future__ import annotations

from benchmarks.agentdojo.defences import AgentSleuth, Defence, Ours

from agentserver.provenance.labels import Mode
from agentserver.provenance.policy import Policy


def contestants() -> list[Defence]:
    """All defences, in the order of the report."""
    from agent_sleuth import Sleuth

    return [
        Defence(),
        AgentSleuth("agent-sleuth 0.1.0, zero configuration", lambda: Sleuth(mode="enforce")),
        Ours("zero configuration", Policy(mode=Mode.ENFORCE)),
    ]
