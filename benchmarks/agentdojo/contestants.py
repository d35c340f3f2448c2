"""Who takes part, each with the same lists where it takes lists."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from agentdojo.task_suite.load_suites import get_suites

from agentserver.provenance.evidence.labels import Mode
from agentserver.provenance.policy.declarations import PlanSource, Policy
from agentserver.provenance.policy.file import read_policy
from benchmarks.agentdojo.defences import AgentSleuth, Defence, Ours, PlannedEngine
from benchmarks.agentdojo.referred import ReferenceAgent
from benchmarks.agentdojo.variations.guise import write_policy
from benchmarks.outside.defences import reduce_to_trust

if TYPE_CHECKING:
    from benchmarks.agentdojo.variations.guise import Guise

VERSION = "v1.2.2"
GENERAL = Path(__file__).with_name("general.yaml")


def contestants(guise: Guise) -> list[Defence]:
    """All defences, in the order of the report, for a suite in a guise."""
    from agent_sleuth import Sleuth

    declared = policy(GENERAL, guise)
    sources, sinks = [*declared.sources], [rule.name for rule in declared.sinks]
    untrusted = [name for name in tools(guise) if any(fnmatchcase(name, entry) for entry in sources)]
    untrusted = [name for name in untrusted if name not in declared.trusted]

    def build_sleuth(*, plan: bool) -> Sleuth:
        return Sleuth(untrusted=untrusted, consequential=sinks, mode="enforce", plan_mode=plan)

    return [
        Defence(),
        AgentSleuth(
            "agent-sleuth 0.1.0, zero configuration", lambda: Sleuth(mode="enforce"), structured=True
        ),
        AgentSleuth(
            "agent-sleuth 0.1.0, zero conf., texts", lambda: Sleuth(mode="enforce"), structured=False
        ),
        Ours("zero configuration", Policy(mode=Mode.ENFORCE)),
        AgentSleuth("agent-sleuth 0.1.0, lists", lambda: build_sleuth(plan=False), structured=True),
        AgentSleuth("agent-sleuth 0.1.0, lists, plan mode", lambda: build_sleuth(plan=True), structured=True),
        Ours("zero configuration, run-level taint", Policy(mode=Mode.ENFORCE, strict=True)),
        Ours("declared roles, no field trust", replace(declared, fields=())),
        Ours("general policy", declared),
        Ours("general policy, confirm", replace(declared, mode=Mode.CONFIRM)),
    ]


def columns(guise: Guise) -> list[Defence]:
    """The defences for which variations are reported, for a suite in a guise."""
    from agent_sleuth import Sleuth

    general = policy(GENERAL, guise)
    required = replace(general, plan=PlanSource.REQUIRED)
    return [
        Defence(),
        AgentSleuth("agent-sleuth 0.1.0", lambda: Sleuth(mode="enforce"), structured=True),
        Ours("zero configuration", Policy(mode=Mode.ENFORCE)),
        Ours("plain policy", reduce_to_trust(general, general.trusted)),
        Ours("general policy", general),
        PlannedEngine("general policy and plans", required, guise),
        ReferenceAgent("general policy, plans and references", required, guise),
    ]


COLUMNS = (
    "zero configuration",
    "plain policy",
    "general policy",
    "general policy and plans",
    "general policy, plans and references",
)
"""The columns of the report that are shown unless others are asked for."""


def tools(guise: Guise) -> list[str]:
    """The names of all tools, of every suite."""
    return [guise.tool(tool.name) for suite in get_suites(VERSION).values() for tool in suite.tools]


def policy(path: Path, guise: Guise) -> Policy:
    """A policy file, about the tools under the names of a guise."""
    declared = _load_policy(write_policy(guise, _text(path), path.name), path.name)
    unused = declared.find_unused(tools(guise))
    assert not unused, f"the policy declares what does not exist: {unused}"
    return declared


@cache
def _text(path: Path) -> str:
    return path.read_text("utf-8")


@cache
def _load_policy(text: str, name: str) -> Policy:
    """A policy, each text read once: guises that rename nothing share it."""
    return read_policy(text, name)
