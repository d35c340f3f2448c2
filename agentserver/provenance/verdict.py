"""Result of a judgement: the decision, and lazily computed findings with their evidence."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from agentserver.provenance.evidence.labels import Mode
from agentserver.provenance.observations.lazy import Lazy
from agentserver.provenance.policy.declarations import Effect

if TYPE_CHECKING:
    from agentserver.findings import Delegation
    from agentserver.provenance.evidence.labels import Call, Hop, Role, Text
    from agentserver.provenance.policy.declarations import Rule


class Decision(StrEnum):
    """Decision about a call."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class Evidence:
    """Stretch of an argument with the untrusted text that holds it.

    ``excerpt`` is spelled as in the argument, ``quoted`` as in the text; ``via`` names the encodings that were undone.
    """

    excerpt: str
    text: Text
    quoted: str
    via: str = ""
    hops: tuple[Hop, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """Rule that fired at one argument, with its effect, the reason and the evidence."""

    rule: Rule
    effect: Effect
    path: str
    value: str
    role: Role | None = None
    detail: str = ""
    evidence: Evidence | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """Decision about one call. The sender learns that it was refused, never why.

    Args:
        call: the call that was judged.
        mode: the mode of the sink.
        decision: the decision.
        weighed: findings that could affect the decision, computed when read.
        reported: findings that could not: untrusted words in the content of a call, if the policy only reports them.
        noticed: the reported findings that bounded work finds, in audit or if the policy declares an effect for
            content. They are for reporting each call that passes.
        delegation: the record that holds every questionable argument as a field, if a person is to be asked.
    """

    call: Call
    mode: Mode
    decision: Decision
    weighed: Lazy[tuple[Finding, ...]] = field(default=Lazy.ready(()))
    reported: Lazy[tuple[Finding, ...]] = field(default=Lazy.ready(()))
    noticed: Lazy[tuple[Finding, ...]] = field(default=Lazy.ready(()), compare=False)
    delegation: Lazy[Delegation | None] = field(default=Lazy.ready(None), compare=False)

    @property
    def allowed(self) -> bool:
        """True when the call may run without asking a person."""
        return self.decision is Decision.ALLOW

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, computed when read."""
        return (*self.weighed.value, *self.reported.value)

    @property
    def violations(self) -> tuple[Finding, ...]:
        """Findings that block, if the mode lets them."""
        if self.decision is Decision.ALLOW and self.mode is not Mode.AUDIT:
            return ()
        return tuple(finding for finding in self.weighed.value if finding.effect is Effect.BLOCK)
