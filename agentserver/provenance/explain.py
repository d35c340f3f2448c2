"""The reasons why a call was refused, told so that a person can act on them: as text and as data.

Owns wording. Refuses to be shown to the sender of the call: who is refused learns only that he is, or a probe
would learn the policy. For operators, reports and the approver's question.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from agentserver.characters.printing import CUT, replaced
from agentserver.provenance.labels import Mode, Role
from agentserver.provenance.leaves import text_of
from agentserver.provenance.policy import Effect, Rule
from agentserver.provenance.verdict import Decision

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentserver.provenance.verdict import Evidence, Finding, Verdict

_HEAD: Final = {
    Decision.DENY: "BLOCKED",
    Decision.ASK: "ASKED",
    Decision.ALLOW: "SEEN",
}
_REMEDY: Final = {
    Rule.DESTINATION: "if this recipient is wanted, allow '{value}' or declare its field a directory",
    Rule.UNKNOWN_DESTINATION: "nobody named this recipient; if it is wanted, allow '{value}'",
    Rule.SELECTOR: "if this field may choose, declare it a record, or let the argument accept it",
    Rule.UNKNOWN_SELECTOR: "no record and no request holds this choice; look it up first, or name it",
    Rule.PLAN: "ask for the action in the request, or put it into the plan",
    Rule.DENIED: "the deny list wins over everything else",
    Rule.EXIT: "fetch only links that a text, a record or the request holds",
    Rule.STRICT: "strict mode refuses every sink once untrusted text was read",
    Rule.BOUND: "raise the limit, or split the conversation",
    Rule.BUDGET: "the quarantined channel has told as much as it may",
}


def explain(verdict: Verdict, *, decided: str | None = None) -> str:
    """The whole story of a verdict, one block for each finding. ``decided`` tells what became of the call."""
    call = verdict.call
    head = _HEAD[verdict.decision]
    tainted = any(finding.evidence for finding in verdict.findings)
    with_what = "with tainted inputs" if tainted else "against the policy"
    lines = [f"{head}: {call.sink}() called {with_what}"]
    for finding in sorted(verdict.findings, key=_weight):
        lines += _told(verdict, finding)
    lines.append(f"Action: {decided or _action(verdict)}")
    return "\n".join(lines)


def without(verdict: Verdict, redact: Callable[[str], str]) -> Verdict:
    """The verdict as it may be told: nothing in it that ``redact`` takes out. It decides nothing any more."""
    call = verdict.call
    arguments = tuple(replace(leaf, value=redact(text_of(leaf.value))) for leaf in call.arguments)
    findings = tuple(_cleaned(finding, redact) for finding in verdict.findings)
    return replace(verdict, call=replace(call, arguments=arguments), findings=findings)


def _cleaned(finding: Finding, redact: Callable[[str], str]) -> Finding:
    found = finding.evidence
    if found is not None:
        found = replace(found, excerpt=redact(found.excerpt), quoted=redact(found.quoted))
    return replace(finding, value=redact(finding.value), detail=redact(finding.detail), evidence=found)


def _weight(finding: Finding) -> tuple[bool, bool]:
    """The order of findings: those that block first, and of them those that show where a value came from."""
    return finding.effect is not Effect.BLOCK, finding.evidence is None


def _told(verdict: Verdict, finding: Finding) -> list[str]:
    lines = []
    place = f"{finding.path}={_quoted(finding.value)}" if finding.path else verdict.call.sink
    if finding.evidence:
        origin = finding.evidence.text.origin
        lines.append(f"Taint source: {origin.source}() at step {origin.step}{_in_field(origin.path)}")
        lines.append(f"{_label(finding)} detected in argument: {place}")
        lines.append(f"Lineage: {lineage(verdict, finding, finding.evidence)}")
        lines.append(f"It was read as: {_quoted(finding.evidence.quoted)}")
    else:
        lines.append(f"Reason: {finding.rule}: {place}")
    if finding.detail:
        lines.append(f"Detail: {finding.detail}")
    remedy = _REMEDY.get(finding.rule)
    if remedy and finding.effect is Effect.BLOCK:
        lines.append(f"Remedy: {remedy.format(value=_flat(finding.value))}")
    return lines


def lineage(verdict: Verdict, finding: Finding, evidence: Evidence) -> str:
    """The way of one value, hop by hop, on one line."""
    origin = evidence.text.origin
    steps = [f"{origin.source}{_field(origin.path)} (step {origin.step}, untrusted)"]
    if evidence.via:
        steps.append(f"undone: {evidence.via}")
    steps.append(f"value {_quoted(evidence.excerpt)}")
    steps += dict.fromkeys(f"{hop.listener} (step {hop.step})" for hop in evidence.hops)
    steps.append(f"{verdict.call.sink}.{finding.path} (step {verdict.call.step})")
    return " → ".join(steps)


def as_data(verdict: Verdict) -> dict[str, Any]:
    """The verdict as plain data for JSON."""
    return {
        "sink": verdict.call.sink,
        "step": verdict.call.step,
        "mode": verdict.mode.value,
        "decision": verdict.decision.value,
        "findings": [_finding(finding) for finding in verdict.findings],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    found: dict[str, Any] = {
        "rule": finding.rule.name.lower(),
        "reason": finding.rule.value,
        "effect": finding.effect.value,
        "argument": finding.path,
        "value": finding.value,
        "role": finding.role.value if finding.role else None,
        "detail": finding.detail,
    }
    if finding.evidence:
        origin = finding.evidence.text.origin
        found["evidence"] = {
            "excerpt": finding.evidence.excerpt,
            "quoted": finding.evidence.quoted,
            "via": finding.evidence.via,
            "source": origin.source,
            "field": origin.path,
            "step": origin.step,
            "time": origin.time,
            "trace": origin.trace,
            "hops": [
                {"listener": hop.listener, "field": hop.path, "step": hop.step}
                for hop in finding.evidence.hops
            ],
        }
    return found


def _label(finding: Finding) -> str:
    return "Untrusted content" if finding.role is Role.PAYLOAD else "Injected value"


def _action(verdict: Verdict) -> str:
    if verdict.decision is Decision.DENY:
        return "blocked, user notified"
    if verdict.decision is Decision.ASK:
        return "waits for an approval"
    return "logged, call proceeds (audit)" if verdict.mode is Mode.AUDIT else "reported, call proceeds"


def _field(path: str) -> str:
    return f".{path}" if path and not path.startswith("[") else path


def _in_field(path: str) -> str:
    return f", field {path}" if path else ""


def _quoted(text: str) -> str:
    return f'"{_flat(text)}"'


def _flat(text: str) -> str:
    """One line of a terminal, of the beginning: a value may be as long as a message."""
    begun = text[:1000]
    flat = " ".join(replaced(begun, lambda _: " ").split())
    whole = len(flat) <= 120 and len(text) == len(begun)  # noqa: PLR2004  one line of a terminal
    return flat if whole else f"{flat[:119]}{CUT}"
