"""The reasons why a call was refused, as values and as a text on which a person can act.

Owns what of a verdict is told; ``findings`` has the words. Refuses to be shown to the sender of the call: it learns
only that it is refused, or a probe would learn the policy. For operators, reports and the approver's question.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from agentserver.characters.printing import CUT, replace_unseen
from agentserver.findings import Delegation, FindingFacts, Findings, RecordText, Telling, Trail, TrailHop
from agentserver.provenance.evidence.leaves import text_of
from agentserver.provenance.policy.declarations import Effect
from agentserver.provenance.seen.derived import Later

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentserver.provenance.verdict import Evidence, Finding, Verdict

MOST: Final = 40
"""Findings of one judgement that are kept and told; more are counted."""


def facts(verdict: Verdict, *, became: str = "", most: int | None = None) -> Findings:
    """The verdict as values: each text on one line and cut, the weightiest finding first, none twice.

    Args:
        verdict: what is told.
        became: what became of the call; see ``Findings``.
        most: findings that are kept; None for all.
    """
    found: dict[tuple[object, ...], FindingFacts] = {}
    for finding in sorted(verdict.findings, key=_weight):
        one = _facts(finding)
        found.setdefault(one if one.trail is None else (*one[:-1], *one.trail[:-1]), one)
    kept = tuple(found.values())[:most]
    call, decision = verdict.call, verdict.decision.value
    more = len(found) - len(kept)
    record = verdict.delegation.value
    shown = None if record is None else _flattened(record)
    sink, mode = _flat(call.sink), verdict.mode.value
    return Findings(sink, call.step, mode, decision, kept, became, more, delegation=shown)


def _flattened(record: Delegation) -> Delegation:
    """The record with its texts as they are, but for what a terminal would not show as a sign of its own."""
    texts = tuple(
        RecordText(_flat(one.field), _printable(one.text), tuple(map(_flat, one.arguments)))
        for one in record.texts
    )
    return record._replace(source=_flat(record.source), record=_flat(record.record), texts=texts)


def _printable(text: str) -> str:
    return "\n".join(replace_unseen(line, lambda _: "\ufffd") for line in text.split("\n"))


def explain(verdict: Verdict, *, became: str = "") -> str:
    """The whole story of a verdict, one block for each finding; ``became`` as of ``Findings``."""
    return "\n".join(Telling().full(facts(verdict, became=became), hops=False))


def without(verdict: Verdict, redact: Callable[[str], str]) -> Verdict:
    """The verdict as it may be told: nothing in it that ``redact`` takes out. It decides nothing any more."""
    call = verdict.call
    arguments = tuple(replace(leaf, value=redact(text_of(leaf.value))) for leaf in call.arguments)
    weighed, reported = (
        Later.of(tuple(_cleaned(finding, redact) for finding in found.value))
        for found in (verdict.weighed, verdict.reported)
    )
    record = verdict.delegation.value
    if record is not None:
        record = record._replace(texts=tuple(one._replace(text=redact(one.text)) for one in record.texts))
    call = replace(call, arguments=arguments)
    return replace(verdict, call=call, weighed=weighed, reported=reported, delegation=Later.of(record))


def _cleaned(finding: Finding, redact: Callable[[str], str]) -> Finding:
    found = finding.evidence
    if found is not None:
        found = replace(found, excerpt=redact(found.excerpt), quoted=redact(found.quoted))
    return replace(finding, value=redact(finding.value), detail=redact(finding.detail), evidence=found)


def _weight(finding: Finding) -> tuple[bool, bool]:
    """The order of findings: those that block first, and of them those that show where a value came from."""
    return finding.effect is not Effect.BLOCK, finding.evidence is None


def _facts(finding: Finding) -> FindingFacts:
    found = finding.evidence
    return FindingFacts(
        finding.rule.name.lower(),
        finding.effect.value,
        _flat(finding.path),
        _flat(finding.value),
        finding.role.value if finding.role else "",
        _flat(finding.detail),
        None if found is None else _trail(found),
    )


def _trail(evidence: Evidence) -> Trail:
    origin = evidence.text.origin
    hops = tuple(TrailHop(_flat(hop.listener), _flat(hop.path), hop.step) for hop in evidence.hops)
    excerpt, quoted = _flat(evidence.excerpt), _flat(evidence.quoted)
    place = (_flat(origin.source), _flat(origin.path), origin.step)
    return Trail(*place, excerpt, quoted, evidence.via, hops, origin.trace)


def _flat(text: str) -> str:
    """One line of a terminal, of the beginning: a value may be as long as a message."""
    begun = text[:1000]
    flat = " ".join(begun.split())
    if not (flat.isascii() and flat.isprintable()):
        flat = " ".join(replace_unseen(flat, lambda _: " ").split())
    whole = len(flat) <= 120 and len(text) == len(begun)  # noqa: PLR2004  one line of a terminal
    return flat if whole else f"{flat[:119]}{CUT}"
