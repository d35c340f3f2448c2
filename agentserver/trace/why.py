"""Finds the remedies' codes that apply to a record. Pure."""

from __future__ import annotations

from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from agentserver.core.records.audit import Event
from agentserver.core.records.details import (
    ApprovalGiven,
    Ground,
    Grounds,
    GuardNote,
    GuardQuestions,
    HandoffAttempt,
    NoAnswer,
)
from agentserver.findings import Findings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentserver.core.records.audit import AuditRecord
    from agentserver.core.records.details import Detail

REFUSALS: Final = frozenset(
    {
        Event.REFUSED,
        Event.FAILED,
        Event.WITHDRAWN,
        Event.ASKED,
        Event.FLAGGED,
        Event.RETRIED,
        Event.DROPPED,
        Event.DISCARDED,
    }
)
"""Events that people ask about."""


_NOTED: Final = MappingProxyType({"failed": "failed"})
_REFUSING: Final = frozenset({"deny", "undone"})


def is_asked_about(record: AuditRecord) -> bool:
    """Check for a record of a refusal, a failure, a question, or a finding of a guard."""
    attempt = isinstance(record.detail, HandoffAttempt) and record.detail.reason is not None
    return record.event in REFUSALS or attempt or (record.event is Event.ENDED and bool(record.code))


def list_grounds(record: AuditRecord) -> tuple[tuple[str, str], ...]:
    """List the codes of a record as (family, name), nearest reason first and without repetition."""
    codes = (("code", record.code),) if record.code else ()
    return tuple(dict.fromkeys((*_iter_grounds(record.detail), *codes)))


def _iter_grounds(detail: Detail | None) -> Iterator[tuple[str, str]]:
    match detail:
        case Grounds(ground=Ground.HANDOFF, names=(str(token), *_)) if token:
            yield "handoff", token
        case Grounds(ground=ground):
            yield "ground", str(ground)
        case Findings(findings=findings):
            yield from (("rule", one.rule) for one in findings)
        case GuardNote(effect=how):
            yield "guard", _NOTED.get(how, "note")
        case GuardQuestions(questions=asked):
            yield from chain.from_iterable(_iter_grounds(one.reason) for one in asked)
        case ApprovalGiven(answer=answer) if answer in _REFUSING:
            yield "approval", answer
        case NoAnswer(reason=why):
            yield "approval", why
        case HandoffAttempt(reason=str(reason)):
            yield "handoff", reason
        case _:
            return
