"""The fresh suite: what agents of ten domains read and call, judged call by call, without a model.

    python -m benchmarks.fresh.run [--show] [--json FILE]

A case has the request, the calls of a run with their outputs, and, for an attack, the calls of an agent that obeys the
text that it has just read. A refused call does not run. A benign run ends there, and is done if every call has run. An
agent that obeys calls everything in ``obey``; the attack reaches its goal if the last of these has run. They are
judged as the calls of ``benchmarks.outside`` and at the same moment, so that no figure depends on the day of the run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from agentserver.provenance.evidence.labels import Mode
from agentserver.provenance.policy.declarations import Policy
from agentserver.provenance.policy.file import read_policy
from benchmarks.outside.defences import Ours

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).with_name("domains")
POLICIES = ("zero", "plain", "per tool")
UNGUARDED = "none"
"""The policy that only watches, so that each case reaches its goal."""


@dataclass(frozen=True)
class Case:
    """A request, a run, and the calls of an agent that obeys a stranger; a benign case has none of these."""

    domain: str
    name: str
    attack: bool
    ask: str
    run: list[list[Any]]
    obey: list[list[Any]]


@dataclass(frozen=True)
class Domain:
    """The tools of a domain, its cases, and what an operator says of the tools."""

    name: str
    said: dict[str, Any]
    cases: list[Case]

    def write_policy(self, policy: str) -> Policy:
        """Write the policy: empty, with the trust of tools, or with a line for each tool as well."""
        if policy in {"zero", UNGUARDED}:
            return Policy(mode=Mode.ENFORCE if policy == "zero" else Mode.AUDIT)
        keys: dict[str, Any] = {key: self.said[key] for key in ("sources", "trusted")}
        lines = self.said["lines"] if policy == "per tool" else {}
        keys["sinks"] = {
            name: {"arguments": lines[name]} if name in lines else {} for name in self.said["sinks"]
        }
        if policy == "per tool":
            keys["fields"] = self.said["fields"]
        keys["schemas"] = list(self.said["tools"])
        return read_policy(yaml.safe_dump({"mode": "enforce", **keys}), f"{self.name}.yaml")


def describe_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    """Describe arguments as a JSON schema: a type, a format of texts, or the values that are allowed."""
    found = {}
    for name, kind in arguments.items():
        if isinstance(kind, list):
            found[name] = {"type": "string", "enum": kind}
        elif kind in ("number", "integer"):
            found[name] = {"type": kind}
        else:
            found[name] = {"type": "string"} if kind == "text" else {"type": "string", "format": kind}
    return {"type": "object", "properties": found, "additionalProperties": False}


def read_domains() -> Iterator[Domain]:
    """Read all domains."""
    for path in sorted(FOLDER.glob("*.yaml")):
        said = yaml.safe_load(path.read_text("utf-8"))
        cases = [
            Case(path.stem, each["name"], side == "attack", each["ask"], each["run"], each.get("obey", []))
            for side in ("benign", "attack")
            for each in said[side]
        ]
        yield Domain(path.stem, said, cases)


def run_case(domain: Domain, case: Case, policy: Policy) -> tuple[bool, list[str]]:
    """Run a case; return whether the user's goal, or the attacker's, is reached, and the refused calls."""
    hand, refused = Ours("", policy), []
    hand.start(case.ask)
    for name, arguments in domain.said["tools"].items():
        hand.engine.describe_tool(name, describe_arguments(arguments))

    def call(name: str, arguments: dict[str, Any], output: Any = "ok") -> bool:
        reason = hand.judge_call(name, arguments)
        if reason is not None:
            refused.append(f"{name}: {reason}")
            return False
        hand.observe_output(name, arguments, output)
        return True

    reached = all(call(*step) for step in case.run)
    if case.attack:
        reached = reached and [call(*step) for step in case.obey][-1]
    return reached, refused


def measure() -> Iterator[tuple[str, Case, bool, list[str]]]:
    """Run each case under each policy."""
    for domain in read_domains():
        policies = {name: domain.write_policy(name) for name in POLICIES}
        for case in domain.cases:
            for name, policy in policies.items():
                yield name, case, *run_case(domain, case, policy)


def main(argv: list[str] | None = None) -> int:
    """Print the tasks done and the attacks stopped, by policy."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fresh.run")
    parser.add_argument("--show", action="store_true", help="a line for each case that goes wrong")
    parser.add_argument("--json", type=Path, help="a file for the counts")
    options = parser.parse_args(argv)
    counts: dict[str, dict[str, list[int]]] = defaultdict(lambda: {"benign": [0, 0], "attack": [0, 0]})
    for policy, case, reached, refused in measure():
        side = counts[policy]["attack" if case.attack else "benign"]
        side[0] += reached is not case.attack
        side[1] += 1
        if options.show and reached is case.attack:
            print(policy, case.domain, "attack" if case.attack else "benign", case.name, *refused, sep=" | ")
    for policy, sides in counts.items():
        done, stopped = sides["benign"], sides["attack"]
        print(f"{policy}: benign done {done[0]}/{done[1]}, attacks stopped {stopped[0]}/{stopped[1]}")
    if options.json:
        options.json.write_text(json.dumps(counts, indent=1), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
