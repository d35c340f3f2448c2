"""Auditing a plan file: its steps, their schemas, and what does not fit, by line."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from agentserver.characters.printing import escape_unseen
from agentserver.handoff.plans import chain, steps
from agentserver.handoff.plans.chain import StepMistake, StepSeverity
from agentserver.handoff.validation import payloads
from agentserver.hygiene.objections import Objection

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date
    from pathlib import Path

OVERFLOW: Final = "ROW_OVERFLOW"
TOLD: Final = {
    "PAYLOAD_UNTYPED": "One of two adjacent steps does not say which payload schema it hands over or takes.",
    "PAYLOAD_MISMATCH": "A step hands over a payload by another schema, or version, than the next one takes.",
    "PAYLOAD_REJECTED": "A schema that a step names cannot be opened or is not admitted.",
    OVERFLOW: "A row has more fields than the header: an unquoted comma may have shifted its cells.",
}
"""The codes of a plan's findings, for people."""


class FindingsFormat(StrEnum):
    """The form in which findings are written."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"


@dataclass(frozen=True, slots=True)
class PlanFinding:
    """Something wrong with a plan.

    Args:
        row: the line of the step concerned, from 1; of a pair the step that hands over.
        code: a key of the table of messages.
        severity: whether the plan may continue.
        message: the same for people.
    """

    row: int
    code: str
    severity: StepSeverity
    message: str


def audit_plan(path: Path, root: Path, today: date) -> tuple[PlanFinding, ...]:
    """Return the mistakes of a plan, by line. Every schema that it names is opened.

    Args:
        path: the plan.
        root: the directory below which its schemas are.
        today: the day that decides how grave an untyped handoff is.

    Raises:
        steps.StepsError: when the file is no plan: no CSV, or one without the columns of a plan.
        OSError: when it cannot be read.
    """
    rows = steps.read_rows(path, (chain.IN, chain.OUT))
    known: dict[str, str | Objection] = {}

    def identify(cell: str) -> str | Objection:
        if cell not in known:
            known[cell] = payloads.identity(cell, root)
        return known[cell]

    shifted = [
        PlanFinding(row.line, OVERFLOW, StepSeverity.WARN, f"{len(row.overflow)} fields beyond the header")
        for row in rows
        if row.overflow
    ]
    broken = [
        PlanFinding(rows[each.pair].line, str(each.code), each.severity, each.message)
        for each in chain.audit([row.cells for row in rows], today, identify)
    ]
    alone = [
        PlanFinding(
            rows[at].line, str(StepMistake.REJECTED), StepSeverity.HARD, f"step {at + 1}: {column}: {reason}"
        )
        for at, column, cell in chain.iter_unpaired([row.cells for row in rows])
        if isinstance(reason := identify(cell), Objection)
    ]
    return tuple(sorted((*shifted, *broken, *alone), key=lambda finding: finding.row))


def fails(findings: Sequence[PlanFinding]) -> bool:
    """Check whether the plan has to stop."""
    return any(finding.severity is StepSeverity.HARD for finding in findings)


def write_findings(findings: Sequence[PlanFinding], path: str, form: FindingsFormat) -> str:
    """Return the findings as text: a line each, a JSON list, or SARIF 2.1.0."""
    if form is FindingsFormat.TEXT:
        lines = [f"{path}:{each.row}: {each.severity} {each.code}: {each.message}" for each in findings]
        return "\n".join(map(escape_unseen, lines or [f"{path}: every handoff is typed and fits"]))
    rows = (
        [asdict(finding) for finding in findings]
        if form is FindingsFormat.JSON
        else _build_sarif(findings, path)
    )
    return json.dumps(rows, indent=2)


def _build_sarif(findings: Sequence[PlanFinding], path: str) -> dict[str, Any]:
    driver = {
        "name": "agentserver",
        "rules": [{"id": code, "shortDescription": {"text": text}} for code, text in TOLD.items()],
    }
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": [_build_result(each, path) for each in findings]}],
    }


def _build_result(finding: PlanFinding, path: str) -> dict[str, Any]:
    region = {"artifactLocation": {"uri": quote(path)}, "region": {"startLine": finding.row}}
    return {
        "ruleId": finding.code,
        "level": "error" if finding.severity is StepSeverity.HARD else "warning",
        "message": {"text": finding.message},
        "locations": [{"physicalLocation": region}],
    }
