"""The contents of a judgement: findings with their evidence, and the decision that the mode makes of them.

Owns the result values. Refuses to reach them: ``judge`` does.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from agentserver.provenance.policy.declarations import Effect

if TYPE_CHECKING:
    from agentserver.provenance.evidence.labels import Call, Hop, Mode, Role, Text
    from agentserver.provenance.policy.declarations import Rule


class Decision(StrEnum):
    """The fate of the call."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class Evidence:
    """A stretch of an argument and the untrusted text it occurs in.

    ``excerpt`` is as the argument spells it, ``quoted`` as the text does; ``via`` names what was undone.
    """

    excerpt: str
    text: Text
    quoted: str
    via: str = ""
    hops: tuple[Hop, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """One rule that fired at one argument, with what it does, why, and the evidence for it."""

    rule: Rule
    effect: Effect
    path: str
    value: str
    role: Role | None = None
    detail: str = ""
    evidence: Evidence | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision about one call. The sender learns that it was refused, never why."""

    call: Call
    mode: Mode
    decision: Decision
    findings: tuple[Finding, ...] = ()

    @property
    def allowed(self) -> bool:
        """True when the call may run without a question to a person."""
        return self.decision is Decision.ALLOW

    @property
    def violations(self) -> tuple[Finding, ...]:
        """The findings that block where the mode lets them."""
        return tuple(finding for finding in self.findings if finding.effect is Effect.BLOCK)
