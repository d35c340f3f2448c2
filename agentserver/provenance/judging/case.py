"""One call under judgement: what is known, what is declared, and each argument with its part.

Owns what every question of a judgement looks at, and how a finding of it is made. Refuses to ask any question.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from agentserver.provenance.evidence.leaves import text_of
from agentserver.provenance.policy.declarations import Effect, PlanSource, Rule
from agentserver.provenance.policy.paths import bare
from agentserver.provenance.verdict import Finding

if TYPE_CHECKING:
    from agentserver.provenance.evidence.destinations import Destination
    from agentserver.provenance.evidence.labels import Call, Leaf, Role
    from agentserver.provenance.ledger import Ledger
    from agentserver.provenance.policy.declarations import ArgumentRule, ListenerClass, Policy
    from agentserver.provenance.policy.plan import Plan
    from agentserver.provenance.verdict import Evidence


@dataclass(frozen=True, slots=True)
class Argument:
    """One scalar of the call: its rule, and how it would be written."""

    leaf: Leaf
    rule: ArgumentRule
    body: str


class Case:
    """A call under judgement, for as long as it is judged.

    Args:
        ledger: what the conversation has seen.
        policy: what is declared.
        call: what is judged.
    """

    def __init__(self, ledger: Ledger, policy: Policy, call: Call) -> None:
        self.ledger, self.policy, self.call = ledger, policy, call
        self.brief = False
        self.places: dict[int, tuple[Argument, tuple[Destination, ...]]] = {}
        self.listener: ListenerClass = policy.classify(call.sink)
        bodies = ((leaf, text_of(leaf.value)) for leaf in call.arguments)
        self.arguments = tuple(
            Argument(leaf, policy.argument(call, leaf), body) for leaf, body in bodies if body.strip()
        )

    def briefly(self) -> Case:
        """The same case where the decision is all that is asked for."""
        case = copy(self)
        case.brief = True
        return case

    @cached_property
    def _by_leaf(self) -> dict[int, Argument]:
        return {id(argument.leaf): argument for argument in self.arguments}

    def argument(self, leaf: Leaf | None) -> Argument | None:
        """The argument that a leaf of the call is; None for none and for a blank one."""
        return None if leaf is None else self._by_leaf.get(id(leaf))

    def role(self, leaf: Leaf) -> Role:
        """The role of an argument."""
        known = self._by_leaf.get(id(leaf))
        return (self.policy.argument(self.call, leaf) if known is None else known.rule).role

    @cached_property
    def plan(self) -> Plan | None:
        """The plan that counts."""
        return None if self.policy.plan is PlanSource.OFF else self.ledger.plan

    def warranted(self, argument: Argument) -> bool:
        """True when the plan itself answers for an argument, or its value is the one that the type fills in."""
        if argument.leaf.path in self.call.filled:
            return True
        return self.plan is not None and self.plan.warrants(self.ledger, self.call, argument.leaf) is not None

    @cached_property
    def exposed(self) -> bool:
        """True when something in the call may be what a stranger made its sender say."""
        return self.call.exposed and self.ledger.tainted

    @cached_property
    def steered(self) -> bool:
        """True when a stranger may have made the sender call at all: then nothing in the call is the sender's own."""
        return self.exposed and not self.call.put_in

    def suspects(self, argument: Argument) -> bool:
        """True when a stranger may have made the sender say an argument: then it is suspect without an author."""
        return self.exposed and (self.steered or argument.leaf.path in self.call.put_in)

    @cached_property
    def telling(self) -> bool:
        """True where untrusted content is only told: it decides nothing."""
        effects = {self.policy.effect(rule, self.call.sink) for rule in (Rule.CONTENT, Rule.LINK)}
        return effects.isdisjoint({Effect.BLOCK, Effect.ASK})

    def settled(self, *rules: Rule) -> bool:
        """True when it makes no difference which of some rules is broken, since only the decision is asked for."""
        return self.brief and len({self.policy.effect(rule, self.call.sink) for rule in rules}) == 1

    def finding(
        self, rule: Rule, argument: Argument | None, detail: str = "", evidence: Evidence | None = None
    ) -> Finding:
        """A finding about an argument, or about the call as a whole."""
        effect = self.policy.effect(rule, self.call.sink)
        if argument is None:
            return Finding(rule, effect, "", "", None, detail, evidence)
        path = bare(argument.leaf.path)
        return Finding(rule, effect, path, argument.body, argument.rule.role, detail, evidence)
