"""Verdicts of provenance as verdicts of a guard, and the scope of an approval."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

from agentserver.contract import Code
from agentserver.core.guard import DenyVerdict, NeedsApproval, NoteVerdict
from agentserver.provenance.evidence.leaves import text_of
from agentserver.provenance.explanation import MOST, export_findings, redact_verdict
from agentserver.provenance.policy.declarations import Effect
from agentserver.provenance.verdict import Decision

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentserver.core.guard import Verdict
    from agentserver.findings import Delegation, Exposed
    from agentserver.provenance.evidence.labels import Call
    from agentserver.provenance.verdict import Finding
    from agentserver.provenance.verdict import Verdict as Judgement

_SERIOUS = (Effect.BLOCK, Effect.ASK)


def answered(
    verdict: Judgement, exposed: Exposed | None, approved: frozenset[str], redact: Callable[[str], str]
) -> Verdict:
    """The verdict as the pump understands it. Of a call that is let through only bounded work is told."""
    if verdict.allowed:
        if not (verdict.weighed.value or verdict.noticed.value):
            return None
        verdict = replace(verdict, reported=verdict.noticed)
    found = export_findings(redact_verdict(verdict, redact), most=MOST)._replace(exposed=exposed)
    if verdict.decision is Decision.DENY:
        return DenyVerdict(Code.DENIED, found)
    if verdict.decision is Decision.ASK:
        serious = [finding for finding in verdict.findings if finding.effect in _SERIOUS]
        record = verdict.delegation.value
        by_value = (_digest(verdict, finding) for finding in serious)
        about = tuple(dict.fromkeys(by_value)) if record is None else (_delegated(verdict.call, record),)
        if approved.issuperset(about):
            return NoteVerdict(found._replace(became="permitted"))
        return NeedsApproval(found, about)
    return NoteVerdict(found)


def _delegated(call: Call, record: Delegation) -> str:
    """The subject of an approval that delegates: these fields of such a record, for this very call."""
    fields = sorted((argument, one.field) for one in record.texts for argument in one.arguments)
    about = json.dumps([digest_call(call), record.source, fields], separators=(",", ":"))
    return sha256(about.encode()).hexdigest()


def _digest(verdict: Judgement, finding: Finding) -> str:
    """The subject of an approval: an argument's value at a sink, or the whole call where no argument is named."""
    if not finding.path:
        return digest_call(verdict.call)
    about = json.dumps([verdict.call.sink, finding.path, finding.value], separators=(",", ":"))
    return sha256(about.encode()).hexdigest()


def digest_call(call: Call) -> str:
    """Hash the sink and every argument in canonical form. An approval holds for one call with this digest."""
    said = [[leaf.path, type(leaf.value).__name__, text_of(leaf.value)] for leaf in call.arguments]
    body = json.dumps([call.sink, said], ensure_ascii=True, separators=(",", ":"))
    return sha256(body.encode("ascii")).hexdigest()
