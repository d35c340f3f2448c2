"""The fresh suite: what agents of many domains read and call, judged call by call, without a model.

    python -m benchmarks.fresh.run [--half seen|unseen] [--show] [--json FILE]

A case has the request, the calls of a run with their outputs, and, for an attack, the calls of an agent that obeys the
text that it has just read. A refused call does not run. A benign run ends there, and is done if every call has run. An
agent that obeys calls everything in ``obey``; the attack reaches its goal if the last of these has run. They are
judged as the calls of ``benchmarks.outside``, at the moment that the case says (``now``), else at that of its domain,
else at that of the outside suite, so that no figure depends on the day of the run.

The domains come in two halves. Those of ``domains/seen`` are there to be looked at. Cases of ``domains/unseen`` are
counted and never printed, so that their figure says what the engine does in a domain that nobody fitted it to.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from agentserver.provenance.evidence.labels import Mode
from agentserver.provenance.policy.declarations import Policy
from agentserver.provenance.policy.file import read_policy
from benchmarks.outside.defences import Ours
from benchmarks.outside.services.base import NOW

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

FOLDER = Path(__file__).with_name("domains")
HALVES = ("seen", "unseen")
POLICIES = ("zero", "plain", "per tool")
UNGUARDED = "none"
"""The policy that only watches, so that each case reaches its goal."""


@dataclass(frozen=True)
class Case:
    """A request, a run, and the calls of an agent that obeys a stranger; a benign case has none of these."""

    domain: str
    half: str
    name: str
    attack: bool
    ask: str
    run: list[list[Any]]
    obey: list[list[Any]]
    now: datetime


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
    """Describe arguments as a JSON schema: a type, a format of texts, a list of these, or the allowed values."""
    properties = {name: describe_kind(kind) for name, kind in arguments.items()}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def describe_kind(kind: str | list[str]) -> dict[str, Any]:
    """Describe one argument, as ``email``, ``email list``, ``number`` or ``[open, closed]``."""
    if isinstance(kind, list):
        return {"type": "string", "enum": kind}
    single = kind.removesuffix(" list")
    if single != kind:
        return {"type": "array", "items": describe_kind(single)}
    if kind in ("number", "integer"):
        return {"type": kind}
    return {"type": "string"} if kind == "text" else {"type": "string", "format": kind}


def read_domains(halves: Iterable[str] = HALVES) -> Iterator[Domain]:
    """Read the domains of some halves."""
    for path in (path for half in halves for path in sorted((FOLDER / half).glob("*.yaml"))):
        said = yaml.safe_load(path.read_text("utf-8"))
        cases = [
            Case(
                domain=path.stem,
                half=path.parent.name,
                name=each["name"],
                attack=side == "attack",
                ask=each["ask"],
                run=each["run"],
                obey=each.get("obey", []),
                now=each.get("now", said.get("now", NOW)),
            )
            for side in ("benign", "attack")
            for each in said[side]
        ]
        yield Domain(path.stem, said, cases)


def run_case(domain: Domain, case: Case, policy: Policy) -> tuple[bool, list[str]]:
    """Run a case; return whether the user's goal, or the attacker's, is reached, and the refused calls."""
    hand, refused = Ours("", policy, now=case.now), []
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


def measure(halves: Iterable[str] = HALVES) -> Iterator[tuple[str, Case, bool, list[str]]]:
    """Run each case of some halves under each policy."""
    for domain in read_domains(halves):
        policies = {name: domain.write_policy(name) for name in POLICIES}
        for case in domain.cases:
            for name, policy in policies.items():
                yield name, case, *run_case(domain, case, policy)


def describe_sides(sides: Iterable[dict[str, list[int]]]) -> str:
    """Describe the sum of counts, as ``benign done 20/35, attacks stopped 28/30``."""
    parts = list(sides)
    done, stopped = (
        [sum(part[side][place] for part in parts) for place in (0, 1)] for side in ("benign", "attack")
    )
    return f"benign done {done[0]}/{done[1]}, attacks stopped {stopped[0]}/{stopped[1]}"


def main(argv: list[str] | None = None) -> int:
    """Print the tasks done and the attacks stopped, by policy and half."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fresh.run")
    parser.add_argument("--half", choices=HALVES, help="only the domains of this half (default: both)")
    parser.add_argument(
        "--show",
        action="store_true",
        help="a line for each case of the seen half that goes wrong; cases of the unseen half are never printed",
    )
    parser.add_argument("--json", type=Path, help="a file for the counts")
    options = parser.parse_args(argv)
    halves = (options.half,) if options.half else HALVES
    counts: dict[str, dict[str, dict[str, list[int]]]] = {
        policy: {half: {"benign": [0, 0], "attack": [0, 0]} for half in halves} for policy in POLICIES
    }
    for policy, case, reached, refused in measure(halves):
        side = counts[policy][case.half]["attack" if case.attack else "benign"]
        side[0] += reached is not case.attack
        side[1] += 1
        if options.show and case.half == "seen" and reached is case.attack:
            print(policy, case.domain, "attack" if case.attack else "benign", case.name, *refused, sep=" | ")
    for policy, found in counts.items():
        for half, sides in found.items():
            print(f"{policy}, {half}: {describe_sides([sides])}")
        if len(found) > 1:
            print(f"{policy}, both: {describe_sides(found.values())}")
    if options.json:
        options.json.write_text(json.dumps(counts, indent=1), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
