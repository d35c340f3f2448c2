"""A conversation with a typed plan, written in a few lines."""

from __future__ import annotations

from agentserver.provenance import Call, Mode, Policy, judge, leaves
from agentserver.provenance.evidence.labels import Role, Standing
from agentserver.provenance.policy.declarations import ArgumentRule, FieldRule, PlanSource, SinkRule
from agentserver.provenance.policy.plan import read_plan
from tests.provenance.scenes import Scenario

POLICY = Policy(
    mode=Mode.ENFORCE,
    sources=("inbox", "web", "search", "files"),
    trusted=("contacts",),
    sinks=(
        SinkRule(
            "send",
            (
                ArgumentRule("to", Role.DESTINATION),
                ArgumentRule("copy", Role.DESTINATION),
                ArgumentRule("body", Role.PAYLOAD),
            ),
        ),
        SinkRule("book", (ArgumentRule("*", Role.SELECTOR),)),
        SinkRule("remove", (ArgumentRule("*", Role.SELECTOR),)),
    ),
    plan=PlanSource.REQUIRED,
    fields=(FieldRule("*", "*", Standing.PROSE),),
)
CONTACTS = [
    {"name": "Kim", "email": "kim@corp.example"},
    {"name": "Eve", "email": "eve@evil.example"},
]


class PlannedScene(Scenario):
    """A scene under a plan."""

    def __init__(self, plan: str, query: str = "do it", policy: Policy = POLICY) -> None:
        super().__init__(policy, query)
        self.plan(plan)

    def plan(self, text: str) -> bool:
        """True when the plan counts."""
        found = self.ledger.adopt(read_plan(text), unexposed=True)
        self.ledger = self.ledger if found is None else found
        return found is not None

    def refusal(self, sink: str, **arguments: object) -> str | None:
        """The reason of the plan, with the roles of the policy."""
        assert self.ledger.plan is not None
        call = Call(sink, leaves(arguments), self.step)
        return self.ledger.plan.find_objection(
            call, self.ledger, lambda leaf: self.policy.argument_rule(call, leaf).role
        )

    def warrant(self, sink: str, name: str, **arguments: object) -> str | None:
        assert self.ledger.plan is not None
        call = Call(sink, leaves(arguments), self.step)
        leaf = next(each for each in call.arguments if each.path == name)
        return self.ledger.plan.warrants(self.ledger, call, leaf)

    def allowed(self, sink: str, **arguments: object) -> bool:
        return judge(self.ledger, self.policy, Call(sink, leaves(arguments), self.step)).allowed

    def done(self, sink: str, **arguments: object) -> bool:
        """True when the call is allowed; then it counts as made."""
        call = Call(sink, leaves(arguments), self.step)
        if not judge(self.ledger, self.policy, call).allowed:
            return False
        self.ledger = self.ledger.count_call(call)
        return True
