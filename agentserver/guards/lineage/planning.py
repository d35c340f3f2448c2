"""When a planner's plan counts, and the question to a person whether it may.

Owns both. Refuses to know what a plan allows: provenance does. A plan counts when nothing but the principal's words has
reached its planner, and it grows after more of those words alone.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from agentserver.core.guard import NeedsApproval, Noted
from agentserver.guards.lineage import plan as lineage_plan
from agentserver.provenance.evidence.labels import Mode
from agentserver.provenance.planned.wording import sentences
from agentserver.provenance.policy.declarations import PlanSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentserver.core.drafts.routing import Proposal
    from agentserver.core.guard import Verdict
    from agentserver.guards.lineage.reading import Readings
    from agentserver.provenance.policy.declarations import Policy

HEAD = "The plan of this conversation. These calls will run without another question, and no others:"
EMPTY = "The plan of this conversation: no sink may be used at all."


def question(
    policy: Policy, readings: Readings, proposal: Proposal, redact: Callable[[str], str] = str
) -> Verdict:
    """The question whether a plan may count; None where no person has to confirm it.

    It is asked of every plan that a planner sends, also of one that would not count as things stand: what stands may
    change before the plan is read.
    """
    if policy.plan is not PlanSource.CONFIRMED:
        return None
    steps = lineage_plan.steps(readings[proposal.root].codec.decode(proposal.element))
    told = "\n".join((HEAD, *sentences(steps, redact))) if steps else EMPTY
    if policy.mode is Mode.AUDIT:
        return Noted(told)
    about = sha256(f"plan\n{lineage_plan.ROOT}\n{sentences(steps)}".encode("utf-8", "surrogatepass"))
    return NeedsApproval(told, (about.hexdigest(),))
