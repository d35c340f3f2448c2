"""When a planner's plan counts, and the question to a person whether it may.

A plan counts when nothing but the principal's words has reached its planner, and it grows after more of those words
alone.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from agentserver.contract import Code
from agentserver.core.guard import DenyVerdict, NeedsApproval, NoteVerdict
from agentserver.guards.lineage import plan as lineage_plan
from agentserver.guards.lineage.reading import words
from agentserver.provenance.evidence.folding import fold_bytes
from agentserver.provenance.evidence.labels import Mode
from agentserver.provenance.plans.descriptions import describe_steps
from agentserver.provenance.policy.declarations import PlanSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentserver.core.drafts.routing import Proposal
    from agentserver.core.guard import Verdict
    from agentserver.guards.lineage.memory import Memory
    from agentserver.guards.lineage.parties import Parties
    from agentserver.guards.lineage.reach import Reach
    from agentserver.guards.lineage.reading import Readings, Said
    from agentserver.guards.lineage.trusted import Trusted
    from agentserver.provenance.plans.arguments import AllowedStep

HEAD = "The plan of this conversation. These calls will run without another question, and no others:"
EMPTY = "The plan of this conversation: no sink may be used at all."
COUNTED = "The plan allows so many calls of it, and this is one of them."
LOST = "This plan does not count: "


class Planning:
    """The planners of an organism, and what becomes of their plans.

    Args:
        trusted: whom the organism trusts with what.
        parties: what the words of each are worth.
        readings: the ways to read payloads.
        reach: whom untrusted text reached.
        redact: takes secrets out of what is told.
    """

    def __init__(
        self,
        trusted: Trusted,
        parties: Parties,
        readings: Readings,
        reach: Reach,
        redact: Callable[[str], str] = str,
    ) -> None:
        self._trusted, self._parties, self._readings = trusted, parties, readings
        self._reach, self._redact = reach, redact

    def told(self, memory: Memory, said: Said) -> Memory:
        """The memory after a planner was told something by another than the principal.

        The principal's own words may be passed on to it, whole or in pieces. After anything else its plans do not
        count in this conversation. What it told itself is its own.
        """
        if said.to not in self._trusted.planners or said.sender == said.to:
            return memory
        asked = memory.ledger.asked
        forms = filter(None, map(fold_bytes, words(said.leaves)))
        return memory if all(map(asked.says, forms)) else memory.grown(memory.ledger.dismiss(said.to))

    def adopted(self, memory: Memory, said: Said) -> Memory:
        """The memory with a planner's plan, if it counts."""
        if said.root != lineage_plan.ROOT or said.sender not in self._trusted.planners:
            return memory
        if self._lost(memory, said.sender, said.thread):
            return memory
        plan = lineage_plan.steps(self._readings[said.root].codec.decode(said.element))
        grown = memory.ledger.adopt(plan, unexposed=True)
        return memory if grown is None else memory.grown(grown)

    def judged(self, memory: Memory, proposal: Proposal) -> Verdict:
        """The note about a planner's plan on its way; None where there is nothing to say, or it is no plan.

        A person is asked about every plan that may come to count, also of one that would not as things stand.
        """
        sender = proposal.sender.name
        if proposal.root != lineage_plan.ROOT or sender not in self._trusted.planners:
            return None
        if lost := self._lost(memory, sender, proposal.thread):
            return NoteVerdict(f"{LOST}{lost}")
        policy, plan = self._trusted.policy, memory.ledger.plan
        if policy.plan is PlanSource.CONFIRMED:
            steps = lineage_plan.steps(self._readings[proposal.root].codec.decode(proposal.element))
            return self._question(steps)
        if plan is not None and plan.queries >= len(memory.ledger.queries):
            return NoteVerdict(f"{LOST}the principal has said nothing new since the one before it")
        return None

    def counts(self, memory: Memory, proposal: Proposal) -> bool:
        """True for a message to a listener of which the plan allows so many calls; the principal's own are orders."""
        plan = memory.ledger.plan
        if plan is None or self._parties.principal(proposal.sender.name):
            return False
        return any(step.sink == proposal.to and step.times is not None for step in plan.steps)

    def _question(self, steps: tuple[AllowedStep, ...]) -> Verdict:
        told = "\n".join((HEAD, *describe_steps(steps, self._redact))) if steps else EMPTY
        if self._trusted.policy.mode is Mode.AUDIT:
            return NoteVerdict(told)
        about = sha256(repr(describe_steps(steps)).encode("utf-8", "surrogatepass"))
        return NeedsApproval(told, (about.hexdigest(),))

    def _lost(self, memory: Memory, planner: str, thread: str) -> str:
        """The reason why nothing that a planner plans counts any more; empty while it does."""
        text = self._reach.exposed(memory, planner, thread)
        if text is not None:
            return f"untrusted text of {text.source or 'somebody'} reached {planner} before"
        if planner in memory.ledger.dismissed:
            return f"{planner} was told other words than the principal's"
        return ""


def both(planned: Verdict, found: Verdict) -> Verdict:
    """The verdict on a plan on its way together with that on the message which it is.

    A plan that a person has to confirm, in a message that has to be approved for another reason, is denied: one answer
    would count for two questions.
    """
    if isinstance(planned, NeedsApproval) and isinstance(found, NeedsApproval):
        return DenyVerdict(Code.DENIED, "a plan that waits for a person drives nothing itself")
    if isinstance(found, DenyVerdict | NeedsApproval):
        return found
    return planned if isinstance(planned, NeedsApproval) or found is None else found
