"""The contents of a judgement: the decision, and the findings with their evidence, found when somebody reads them.

Owns the result values. Refuses to reach them: ``judge`` does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from agentserver.provenance.evidence.labels import Mode
from agentserver.provenance.policy.declarations import Effect
from agentserver.provenance.seen.derived import Later

if TYPE_CHECKING:
    from agentserver.findings import Delegation
    from agentserver.provenance.evidence.labels import Call, Hop, Role, Text
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
    """The decision about one call. The sender learns that it was refused, never why.

    Args:
        call: what was judged.
        mode: of the sink.
        decision: what becomes of the call.
        weighed: findings that could decide something, found when they are read.
        reported: findings that could not: untrusted words in what is said, where these are only told.
        noticed: those of them that bounded work finds, in audit or where the policy says what is done about content,
            for telling of each call that is let through.
        delegation: the record of which every argument in question is a field, where a person is to be asked.
    """

    call: Call
    mode: Mode
    decision: Decision
    weighed: Later[tuple[Finding, ...]] = field(default=Later.of(()))
    reported: Later[tuple[Finding, ...]] = field(default=Later.of(()))
    noticed: Later[tuple[Finding, ...]] = field(default=Later.of(()), compare=False)
    delegation: Later[Delegation | None] = field(default=Later.of(None), compare=False)

    @property
    def allowed(self) -> bool:
        """True when the call may run without a question to a person."""
        return self.decision is Decision.ALLOW

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings. They follow from what was judged, whenever they are read."""
        return (*self.weighed.value, *self.reported.value)

    @property
    def violations(self) -> tuple[Finding, ...]:
        """The findings that block where the mode lets them."""
        if self.decision is Decision.ALLOW and self.mode is not Mode.AUDIT:
            return ()
        return tuple(finding for finding in self.weighed.value if finding.effect is Effect.BLOCK)
