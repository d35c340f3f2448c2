"""A small way to write scenarios: what was asked, what was read, what is called."""

from __future__ import annotations

from typing import Any

from agentserver.provenance import Call, Ledger, Mode, Observation, Policy, judge, leaves
from agentserver.provenance.policy.declarations import Rule
from agentserver.provenance.verdict import Verdict


class Scenario:
    """One conversation under one policy."""

    def __init__(self, policy: Policy | None = None, query: str = "") -> None:
        self.policy = policy or Policy(mode=Mode.ENFORCE)
        self.ledger = Ledger().ask(query) if query else Ledger()
        self.step = 0

    def read(self, source: str, output: Any, **arguments: Any) -> Scenario:
        self.step += 1
        seen = Observation(source, leaves(output), self.step, arguments=leaves(arguments))
        self.ledger = self.ledger.observe(self.policy, seen)
        return self

    def call(self, sink: str, **arguments: Any) -> Verdict:
        self.step += 1
        return judge(self.ledger, self.policy, Call(sink, leaves(arguments), self.step))

    def rules(self, sink: str, **arguments: Any) -> set[Rule]:
        return {finding.rule for finding in self.call(sink, **arguments).findings}
