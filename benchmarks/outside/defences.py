"""The compared defences: none, and this engine with and without a policy.

Owns the three methods that a run calls. Independent of cases.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentserver.provenance.evidence.labels import Mode
from agentserver.provenance.library.compat import TaintViolationError
from agentserver.provenance.library.session import ALWAYS, Engine
from agentserver.provenance.policy.declarations import Policy, SinkRule
from agentserver.provenance.policy.file import read_policy
from benchmarks.outside.services.base import NOW

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from agentserver.provenance.library.compat import Violation

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

    def judge_call(self, tool: str, arguments: Mapping[str, Any]) -> str | None:  # noqa: ARG002  the face of all
        """The reason why a call is refused, or ``None``."""
        return None

    def observe_output(self, tool: str, arguments: Mapping[str, Any], result: Any) -> None:
        """The output of a call that ran."""


class Ours(Defence):
    """This engine with one policy, driven as the adapters of the library drive it."""

    def __init__(self, name: str, policy: Policy, *, consent: bool | str = True, now: datetime = NOW) -> None:
        self.name, self.policy, self.asks = name, policy, policy.mode is Mode.CONFIRM
        self.now = now
        self.consent = consent
        logging.getLogger("agentserver.provenance").setLevel(logging.CRITICAL)  # the report has every refusal

    def start(self, words: str, pasted: str = "") -> None:
        self.engine = Engine(self.policy, confirm_callback=self._asked, clock=self.now.timestamp)
        self.engine.set_query(f"{words}\n\n{pasted}" if pasted else words)

    def _asked(self, violation: Violation, explanation: str) -> bool | str:  # noqa: ARG002  the face of a callback
        self.questions += 1
        return self.consent if self.answers else False

    def judge_call(self, tool: str, arguments: Mapping[str, Any]) -> str | None:
        try:
            self.engine.on_tool_call(tool, arguments)
        except TaintViolationError as refused:
            findings = refused.violation.verdict.findings
            return "; ".join(f"{one.rule} {one.path}={one.value[:60]!r} {one.detail}" for one in findings)
        return None

    def observe_output(self, tool: str, arguments: Mapping[str, Any], result: Any) -> None:
        self.engine.on_tool_result(tool, result, arguments=arguments)


TRUSTED = ("people_searchContacts", "list_payment_methods", "get_current_time")
"""Tools that the account holder alone fills, as the plain policy has it."""


def reduce_to_trust(declared: Policy, trusted: tuple[str, ...]) -> Policy:
    """Keep of a policy which tools are sources, sinks and trusted, without any field or argument."""
    sources = tuple(name for name in declared.sources if name not in trusted)
    sinks = tuple(SinkRule(rule.name) for rule in declared.sinks)
    return replace(declared, fields=(), sources=sources, trusted=trusted, sinks=sinks)


def contestants() -> list[Defence]:
    """All defences, in the order of the report."""
    declared = read_policy(POLICY.read_text(), POLICY.name)
    plain = replace(reduce_to_trust(declared, TRUSTED), mode=Mode.CONFIRM)
    return [
        Defence(),
        Ours("zero configuration", Policy(mode=Mode.ENFORCE)),
        Ours("plain policy", reduce_to_trust(declared, TRUSTED)),
        Ours("general policy", declared),
        Ours("general policy, confirm", replace(declared, mode=Mode.CONFIRM)),
        Ours("zero configuration, confirm", Policy(mode=Mode.CONFIRM)),
        Ours("zero configuration, endorsing", Policy(mode=Mode.CONFIRM), consent=ALWAYS),
        Ours("plain policy, confirm", plain),
        Ours("plain policy, endorsing", plain, consent=ALWAYS),
    ]
