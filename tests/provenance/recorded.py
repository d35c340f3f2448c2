"""Recorded conversations of many domains under a plain declaration: trusted listeners only, no fields.

Each file of ``conversations/`` has one policy and its cases. A case belongs to the half that a hash of its name gives:
``seen`` cases are worked with, ``unseen`` ones are run when the work is done.

    python -m tests.provenance.recorded seen|unseen [--grants] [--list]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import yaml

from agentserver.provenance import Call, Ledger, Mode, Observation, Policy, judge, leaves
from agentserver.provenance.evidence.labels import Role
from agentserver.provenance.policy.declarations import ArgumentRule, SinkRule
from agentserver.provenance.policy.options import list_options
from agentserver.provenance.verdict import Verdict

FOLDER = Path(__file__).with_name("conversations")


@dataclass(frozen=True)
class Conversation:
    """Recorded conversation that ends in one call."""

    policy: Policy
    name: str
    attack: bool
    ask: str
    see: list[list[Any]]
    call: list[Any]
    options: dict[str, dict[str, list[str]]]

    @property
    def half(self) -> str:
        """The half that the case belongs to."""
        return ("seen", "unseen")[sha256(self.name.encode()).digest()[0] % 2]

    def judge(self) -> Verdict:
        """Judge the call after all outputs were observed."""
        ledger = Ledger().ask(self.ask)
        for step, (source, arguments, output) in enumerate(self.see, 1):
            seen = Observation(source, leaves(output), step, arguments=leaves(arguments), unexposed=True)
            ledger = ledger.observe(self.policy, seen)
        sink, arguments = self.call
        options = tuple((path, list_options(values)) for path, values in self.options.get(sink, {}).items())
        call = Call(sink, leaves(arguments), len(self.see) + 1, options=options)
        return judge(ledger, self.policy, call)


def read_conversations(*, grants: bool = False) -> Iterator[Conversation]:
    """Read all cases."""
    for path in sorted(FOLDER.glob("*.yaml")):
        data = yaml.safe_load(path.read_text("utf-8"))
        policy = read_policy(data, grants=grants)
        for case in data["cases"]:
            attack, options = case["kind"] == "attack", data.get("options", {})
            yield Conversation(policy, case["name"], attack, case["ask"], case["see"], case["call"], options)


def read_policy(data: dict[str, Any], *, grants: bool) -> Policy:
    """Read the trust of the listeners and, if wanted, the line of a tool that says which arguments grant something."""
    said = data["policy"]
    lines = data.get("grants", {}) if grants else {}
    sinks = tuple(
        SinkRule(name, tuple(ArgumentRule(path, Role.SELECTOR) for path in lines.get(name, ())))
        for name in said["sinks"]
    )
    return Policy(
        mode=Mode.ENFORCE, sources=tuple(said["sources"]), trusted=tuple(said["trusted"]), sinks=sinks
    )


def main(half: str, *, grants: bool, listed: bool) -> None:
    """Print how many attacks of one half are stopped, and how many benign calls allowed."""
    cases = [case for case in read_conversations(grants=grants) if case.half == half]
    for attack, word in ((True, "attacks stopped"), (False, "benign calls allowed")):
        chosen = [(case, case.judge()) for case in cases if case.attack is attack]
        wrong = [(case, verdict) for case, verdict in chosen if verdict.allowed is attack]
        sys.stdout.write(f"{half}: {len(chosen) - len(wrong)} of {len(chosen)} {word}\n")
        for case, verdict in wrong if listed else ():
            why = "; ".join(f"{one.rule} at {one.path}" for one in verdict.violations)
            sys.stdout.write(f"  {case.name}: {why}\n")


if __name__ == "__main__":
    main(sys.argv[1], grants="--grants" in sys.argv, listed="--list" in sys.argv)
