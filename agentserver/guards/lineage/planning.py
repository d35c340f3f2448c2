"""Decides when a planner's plan counts, and asks a person to confirm it.

A plan counts if its planner has read only the principal's words. It is extended only after further words of the
principal.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from agentserver.contract import Code
from agentserver.core.guard import DenyVerdict, NeedsApproval, NoteVerdict
from agentserver.guards.lineage import plan as lineage_plan
from agentserver.guards.lineage.reading import list_texts
from agentserver.provenance.evidence.folding import fold_bytes
from agentserver.provenance.evidence.labels import Mode
from agentserver.provenance.plans.descriptions import describe_steps
from agentserver.provenance.policy.declarations import PlanSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentserver.core.drafts.routing import Proposal
    from agentserver.core.guard import Verdict
    from agentserver.guards.lineage.memory import Memory
    from agentserver.guards.lineage.reach import Reach
    from agentserver.guards.lineage.reading import ObservedMessage, Readings
    from agentserver.guards.lineage.trust import Parties, TrustSettings
    from agentserver.provenance.plans.arguments import AllowedStep

HEAD = "The plan of this conversation. These calls will run without another question, and no others:"
EMPTY = "The plan of this conversation: no sink may be used at all."
COUNTED = "The plan allows so many calls of it, and this is one of them."
LOST = "This plan does not count: "


class Planning:
    """Tracker of planners and their plans.

    Args:
        trusted: the settings of trust.
        parties: the classification of listeners and principals.
        readings: the readers of payloads.
        reach: the tracker of untrusted text.
        redact: removes secrets from texts for people.
    """

    def __init__(
        self,
        trusted: TrustSettings,
        parties: Parties,
        readings: Readings,
        reach: Reach,
        redact: Callable[[str], str] = str,
    ) -> None:
        self._trusted, self._parties, self._readings = trusted, parties, readings
        self._reach, self._redact = reach, redact

    def track_input(self, memory: Memory, said: ObservedMessage) -> Memory:
        """Dismiss a planner that receives words of any party but the principal.

        The principal's own words may be passed on to it, whole or in pieces. After other words its plans do not count
        in this conversation. Its messages to itself are its own.
        """
        if said.to not in self._trusted.planners or said.sender == said.to:
            return memory
        asked = memory.ledger.asked
        forms = filter(None, map(fold_bytes, list_texts(said.leaves)))
        return memory if all(map(asked.says, forms)) else memory.grow(memory.ledger.dismiss(said.to))

    def adopt(self, memory: Memory, said: ObservedMessage) -> Memory:
        """Adopt a planner's plan, if it counts."""
        if said.root != lineage_plan.ROOT or said.sender not in self._trusted.planners:
            return memory
        if self._find_loss(memory, said.sender, said.thread):
            return memory
        plan = lineage_plan.read_steps(self._readings[said.root].codec.decode(said.element))
        grown = memory.ledger.adopt(plan, unexposed=True)
        return memory if grown is None else memory.grow(grown)

    def judge(self, memory: Memory, proposal: Proposal) -> Verdict:
        """Judge a message that holds a planner's plan; None for other messages, or without remarks.

        A person is asked about every plan that may come to count, even if it would not count at present.
        """
        sender = proposal.sender.name
        if proposal.root != lineage_plan.ROOT or sender not in self._trusted.planners:
            return None
        if lost := self._find_loss(memory, sender, proposal.thread):
            return NoteVerdict(f"{LOST}{lost}")
        policy, plan = self._trusted.policy, memory.ledger.plan
        if policy.plan is PlanSource.CONFIRMED:
            steps = lineage_plan.read_steps(self._readings[proposal.root].codec.decode(proposal.element))
            return self._ask_about(steps)
        if plan is not None and plan.queries >= len(memory.ledger.queries):
            return NoteVerdict(f"{LOST}the principal has said nothing new since the one before it")
        return None

    def is_counted(self, memory: Memory, proposal: Proposal) -> bool:
        """Check whether the plan bounds the number of messages to a listener. The principal's own are orders."""
        plan = memory.ledger.plan
        if plan is None or self._parties.is_principal(proposal.sender.name):
            return False
        return any(step.sink == proposal.to and step.times is not None for step in plan.steps)

    def _ask_about(self, steps: tuple[AllowedStep, ...]) -> Verdict:
        told = "\n".join((HEAD, *describe_steps(steps, self._redact))) if steps else EMPTY
        if self._trusted.policy.mode is Mode.AUDIT:
            return NoteVerdict(told)
        about = sha256(repr(describe_steps(steps)).encode("utf-8", "surrogatepass"))
        return NeedsApproval(told, (about.hexdigest(),))

    def _find_loss(self, memory: Memory, planner: str, thread: str) -> str:
        """Find the reason why a planner's plans no longer count; empty while they do."""
        text = self._reach.find_exposure(memory, planner, thread)
        if text is not None:
            return f"untrusted text of {text.source or 'an unknown source'} reached {planner} before"
        if planner in memory.ledger.dismissed:
            return f"{planner} received words of others than the principal"
        return ""


def combine_verdicts(planned: Verdict, found: Verdict) -> Verdict:
    """Combine the verdict on a plan with that on the message that holds it.

    A plan that needs confirmation, in a message that needs approval for another reason, is denied: one answer would
    count for two questions.
    """
    if isinstance(planned, NeedsApproval) and isinstance(found, NeedsApproval):
        return DenyVerdict(Code.DENIED, "a plan that waits for a person drives nothing itself")
    if isinstance(found, DenyVerdict | NeedsApproval):
        return found
    return planned if isinstance(planned, NeedsApproval) or found is None else found
