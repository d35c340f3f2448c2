"""Result of a judgement: the decision, and lazily computed findings with their evidence.

Never show an explanation to the sender of the call: a probe could learn the policy from it. It is for operators,
reports and the approver's question.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.characters.printing import CUT, replace_unseen
from agentserver.findings import (
    DeferredFindings,
    Delegation,
    EndorsedRow,
    EndorsementTerms,
    FindingFacts,
    Findings,
    FindingsOutline,
    FindingsWriter,
    FixedArgument,
    RecordText,
    Trail,
    TrailHop,
)
from agentserver.provenance.evidence.labels import Mode
from agentserver.provenance.evidence.leaves import format_text
from agentserver.provenance.observations.lazy import Lazy
from agentserver.provenance.policy.declarations import Effect, Rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentserver.findings import Delegation
    from agentserver.provenance.endorsements import EndorsedPattern
    from agentserver.provenance.evidence.labels import Call, Hop, Role, Text


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


NO_FINDINGS: Final[Lazy[tuple[Finding, ...]]] = Lazy.ready(())


class Outline(NamedTuple):
    """Finding that would decide a call, and whether there is any finding; made without the others.

    Args:
        decisive: the first finding that blocks, or else the first that asks; its evidence may lack the words.
        quiet: True when nothing was found that could affect the decision.
        repeated: if it is quiet, an untrusted text that content of the call is; then there are ``noticed`` findings.
    """

    decisive: Finding | None = None
    quiet: bool = True
    repeated: Text | None = None


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
        pattern: the endorsement that would cover the call and those like it, if a person is to be asked.
        endorsed: whether a person endorsed the document of the call.
        row: the digest by which endorsements count the call.
        outline: what would decide the call, in audit.
    """

    call: Call
    mode: Mode
    decision: Decision
    weighed: Lazy[tuple[Finding, ...]] = NO_FINDINGS
    reported: Lazy[tuple[Finding, ...]] = NO_FINDINGS
    noticed: Lazy[tuple[Finding, ...]] = field(default=NO_FINDINGS, compare=False)
    delegation: Lazy[Delegation | None] = field(default=Lazy.ready(None), compare=False)
    pattern: Lazy[EndorsedPattern | None] = field(default=Lazy.ready(None), compare=False)
    endorsed: Lazy[bool] = field(default=Lazy.ready(False), compare=False)
    row: Lazy[str] = field(default=Lazy.ready(""), compare=False)
    outline: Outline = field(default=Outline(), compare=False)

    @property
    def allowed(self) -> bool:
        """True when the call may run without asking a person."""
        return self.decision is Decision.ALLOW

    @property
    def violated(self) -> bool:
        """True when there are violations; known without them in audit, and if the call is allowed or denied."""
        if self.mode is not Mode.AUDIT:
            return self.decision is Decision.DENY or bool(self.violations)
        found = self.outline.decisive
        return found is not None and found.effect is Effect.BLOCK

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


MOST: Final = 40
"""Maximum findings of one judgement that are stored and shown. The rest are counted."""


def export_findings(verdict: Verdict, *, became: str = "", limit: int | None = None) -> Findings:
    """Export a verdict as values: each text cut to one line, duplicates removed, findings that block first.

    Args:
        verdict: the verdict to export.
        became: the outcome of the call; see ``Findings``.
        limit: maximum findings to keep; None for all.
    """
    found: dict[tuple[object, ...], FindingFacts] = {}
    for finding in sorted(verdict.findings, key=_sort_key):
        one = _export_finding(finding)
        found.setdefault(one if one.trail is None else (*one[:-1], *one.trail[:-1]), one)
    exported = tuple(found.values())[:limit]
    call, decision = verdict.call, verdict.decision.value
    omitted = len(found) - len(exported)
    record = verdict.delegation.value
    shown = None if record is None else _flatten_record(record)
    sink, mode = _to_one_line(call.sink), verdict.mode.value
    pattern = None if verdict.endorsed.value else verdict.pattern.value
    terms = None if pattern is None else _flatten_terms(pattern.terms)
    return Findings(sink, call.step, mode, decision, exported, became, omitted, None, shown, terms)


UNSETTLED: Final = frozenset({Rule.UNKNOWN_DESTINATION, Rule.UNKNOWN_SELECTOR})
"""Rules whose findings become others, with the same effect, if a search finds evidence; a decision does without it."""


def defer_findings(verdict: Verdict, compute: Callable[[], Findings]) -> DeferredFindings:
    """Return the findings of a call that passes in audit, which are computed when they are read.

    Args:
        verdict: the verdict, with its outline.
        compute: exports the findings.
    """
    decisive, quiet, repeated = verdict.outline
    effect = "" if decisive is None else decisive.effect.value
    rule = "" if decisive is None or decisive.rule in UNSETTLED else decisive.rule.name.lower()
    shown = verdict.noticed.value[0] if quiet and repeated is None else decisive
    traced = repeated is not None or (shown is not None and shown.evidence is not None)
    tainted = True if traced else None
    sink, mode, decision = _to_one_line(verdict.call.sink), verdict.mode.value, verdict.decision.value
    return DeferredFindings(FindingsOutline(sink, mode, decision, effect, rule, tainted), compute)


def _flatten_record(record: Delegation) -> Delegation:
    """Replace characters in a record that a terminal would interpret; texts keep their lines."""
    return record._replace(
        source=_to_one_line(record.source),
        record=_to_one_line(record.record),
        texts=tuple(map(_flatten_text, record.texts)),
    )


def _flatten_text(one: RecordText) -> RecordText:
    arguments = tuple(map(_to_one_line, one.arguments))
    return RecordText(_to_one_line(one.field), _make_printable(one.text), arguments)


def _flatten_terms(terms: EndorsementTerms) -> EndorsementTerms:
    """Replace what a terminal would interpret; values are shown whole, without line breaks."""
    return terms._replace(
        source=_to_one_line(terms.source),
        arguments=tuple(map(_to_one_line, terms.arguments)),
        fields=tuple(map(_to_one_line, terms.fields)),
        rows=tuple(EndorsedRow(tuple(map(_make_flat, row.values))) for row in terms.rows),
        fixed=tuple(FixedArgument(_to_one_line(one.argument), _make_flat(one.value)) for one in terms.fixed),
        records=tuple(map(_flatten_text, terms.records)),
    )


def _make_flat(text: str) -> str:
    return replace_unseen(text, lambda _: "\ufffd")


def _make_printable(text: str) -> str:
    return "\n".join(replace_unseen(line, lambda _: "\ufffd") for line in text.split("\n"))


def explain(verdict: Verdict, *, became: str = "") -> str:
    """Explain a verdict in full, one block for each finding; see ``Findings`` for ``became``."""
    return "\n".join(FindingsWriter().describe_all(export_findings(verdict, became=became), hops=False))


def redact_verdict(verdict: Verdict, redact: Callable[[str], str]) -> Verdict:
    """Redact every text in a verdict. The result is for display only."""
    call = verdict.call
    arguments = tuple(replace(leaf, value=redact(format_text(leaf.value))) for leaf in call.arguments)
    weighed, reported = (
        Lazy.ready(tuple(_redact_finding(finding, redact) for finding in found.value))
        for found in (verdict.weighed, verdict.reported)
    )
    record = verdict.delegation.value
    if record is not None:
        record = record._replace(texts=tuple(one._replace(text=redact(one.text)) for one in record.texts))
    pattern = verdict.pattern.value
    if pattern is not None:
        pattern = pattern._replace(terms=_redact_terms(pattern.terms, redact))
    return replace(
        verdict,
        call=replace(call, arguments=arguments),
        weighed=weighed,
        reported=reported,
        delegation=Lazy.ready(record),
        pattern=Lazy.ready(pattern),
    )


def _redact_terms(terms: EndorsementTerms, redact: Callable[[str], str]) -> EndorsementTerms:
    return terms._replace(
        rows=tuple(EndorsedRow(tuple(map(redact, row.values))) for row in terms.rows),
        fixed=tuple(one._replace(value=redact(one.value)) for one in terms.fixed),
        records=tuple(one._replace(text=redact(one.text)) for one in terms.records),
    )


def _redact_finding(finding: Finding, redact: Callable[[str], str]) -> Finding:
    found = finding.evidence
    if found is not None:
        shown = redact(found.excerpt), redact(found.quoted)
        if shown != (found.excerpt, found.quoted):
            found = replace(found, excerpt=shown[0], quoted=shown[1])
    texts = redact(finding.value), redact(finding.detail)
    if found is finding.evidence and texts == (finding.value, finding.detail):
        return finding
    return replace(finding, value=texts[0], detail=texts[1], evidence=found)


def _sort_key(finding: Finding) -> tuple[bool, bool]:
    """Order findings by weight: blocking ones first, then those with evidence."""
    return finding.effect is not Effect.BLOCK, finding.evidence is None


def _export_finding(finding: Finding) -> FindingFacts:
    found = finding.evidence
    return FindingFacts(
        finding.rule.name.lower(),
        finding.effect.value,
        _to_one_line(finding.path),
        _to_one_line(finding.value),
        finding.role.value if finding.role else "",
        _to_one_line(finding.detail),
        None if found is None else _export_evidence(found),
    )


def _export_evidence(evidence: Evidence) -> Trail:
    origin = evidence.text.origin
    hops = tuple(
        TrailHop(_to_one_line(hop.listener), _to_one_line(hop.path), hop.step) for hop in evidence.hops
    )
    excerpt, quoted = _to_one_line(evidence.excerpt), _to_one_line(evidence.quoted)
    place = (_to_one_line(origin.source), _to_one_line(origin.path), origin.step)
    return Trail(*place, excerpt, quoted, evidence.via, hops, origin.trace)


def _to_one_line(text: str) -> str:
    """Format the beginning of a text as one terminal line; values can be as long as a message."""
    beginning = text[:1000]
    flat = " ".join(beginning.split())
    if not (flat.isascii() and flat.isprintable()):
        flat = " ".join(replace_unseen(flat, lambda _: " ").split())
    fits = len(flat) <= 120 and len(text) == len(beginning)  # noqa: PLR2004  one line of a terminal
    return flat if fits else f"{flat[:119]}{CUT}"
