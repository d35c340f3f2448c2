"""Who takes part, each with the same lists where it takes lists."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from agentdojo.task_suite.load_suites import get_suites

from agentserver.provenance.evidence.labels import Mode
from agentserver.provenance.policy.declarations import PlanSource, Policy
from agentserver.provenance.policy.file import read_policy
from benchmarks.agentdojo.defences import AgentSleuth, Defence, Ours

VERSION = "v1.2.2"
POLICY = Path(__file__).with_name("policy.yaml")


def contestants() -> list[Defence]:
    """All defences, in the order of the report."""
    from agent_sleuth import Sleuth

    declared = read_policy(POLICY.read_text(), POLICY.name)
    sources, sinks = [*(declared.sources or ())], [rule.name for rule in declared.sinks or ()]
    tools = [tool.name for suite in get_suites(VERSION).values() for tool in suite.tools]
    unused = declared.unused(tools)
    assert not unused, f"the policy declares what does not exist: {unused}"
    untrusted = [name for name in tools if any(fnmatchcase(name, entry) for entry in sources)]
    untrusted = [name for name in untrusted if name not in declared.trusted]

    def listed(*, plan: bool) -> Sleuth:
        return Sleuth(untrusted=untrusted, consequential=sinks, mode="enforce", plan_mode=plan)

    no_plan = replace(declared, plan=PlanSource.OFF)
    return [
        Defence(),
        AgentSleuth(
            "agent-sleuth 0.1.0, zero configuration", lambda: Sleuth(mode="enforce"), structured=True
        ),
        AgentSleuth(
            "agent-sleuth 0.1.0, zero conf., texts", lambda: Sleuth(mode="enforce"), structured=False
        ),
        Ours("zero configuration", Policy(mode=Mode.ENFORCE)),
        AgentSleuth("agent-sleuth 0.1.0, lists", lambda: listed(plan=False), structured=True),
        AgentSleuth("agent-sleuth 0.1.0, lists, plan mode", lambda: listed(plan=True), structured=True),
        Ours("zero configuration, run-level taint", Policy(mode=Mode.ENFORCE, strict=True)),
        Ours("declared roles, no field trust, no plan", replace(no_plan, fields=(), infer_fields=False)),
        Ours("declared roles and field trust, no plan", no_plan),
        Ours("declared roles, field trust and plan", declared),
        Ours("the same, confirm", replace(declared, mode=Mode.CONFIRM)),
    ]
