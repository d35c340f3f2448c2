"""What is compared: no defence, and this engine with and without a policy.

Owns the three methods that a run calls. Refuses to know a case.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentserver.provenance.evidence.labels import Call, Mode, Observation
from agentserver.provenance.evidence.leaves import leaves
from agentserver.provenance.judge import judge
from agentserver.provenance.ledger import Ledger
from agentserver.provenance.policy.declarations import Policy
from agentserver.provenance.policy.file import read_policy
from agentserver.provenance.verdict import Decision

if TYPE_CHECKING:
    from collections.abc import Mapping

POLICY = Path(__file__).with_name("policy.yaml")


class Defence:
    """No defence: every call runs.

    ``questions`` counts what a person was asked, who says ``answers``; ``asks`` is true where there is such a person.
    """

    name = "none"
    questions = 0
    answers = False
    asks = False

    def start(self, words: str, pasted: str = "") -> None:
        """A new conversation, opened by the user's words and a text that the user passes on."""

    def before(self, tool: str, arguments: Mapping[str, Any]) -> str | None:  # noqa: ARG002  the face of all
        """The reason why a call is refused, or ``None``."""
        return None

    def after(self, tool: str, arguments: Mapping[str, Any], result: Any) -> None:
        """The output of a call that ran."""


class Ours(Defence):
    """This engine with one policy."""

    def __init__(self, name: str, policy: Policy) -> None:
        self.name, self.policy, self.asks = name, policy, policy.mode is Mode.CONFIRM

    def start(self, words: str, pasted: str = "") -> None:
        self.ledger, self.step = Ledger().ask(f"{words}\n\n{pasted}" if pasted else words), 0

    def before(self, tool: str, arguments: Mapping[str, Any]) -> str | None:
        self.step += 1
        verdict = judge(self.ledger, self.policy, Call(tool, leaves(arguments), self.step))
        if verdict.allowed:
            return None
        if verdict.decision is Decision.ASK:
            self.questions += 1
            if self.answers:
                return None
        found = (
            f"{finding.rule} {finding.path}={finding.value[:60]!r} {finding.detail}"
            for finding in verdict.findings
        )
        return "; ".join(found)

    def after(self, tool: str, arguments: Mapping[str, Any], result: Any) -> None:
        seen = Observation(tool, leaves(result), self.step, arguments=leaves(arguments))
        self.ledger = self.ledger.observe(self.policy, seen)


def contestants() -> list[Defence]:
    """All defences, in the order of the report."""
    declared = read_policy(POLICY.read_text(), POLICY.name)
    return [
        Defence(),
        Ours("zero configuration", Policy(mode=Mode.ENFORCE)),
        Ours("general policy", declared),
        Ours("general policy, confirm", replace(declared, mode=Mode.CONFIRM)),
    ]
