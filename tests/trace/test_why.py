"""The codes that a record is about."""

from __future__ import annotations

import pytest

from agentserver.contract import Code
from agentserver.core.records.audit import AuditRecord, Event
from agentserver.core.records.details import (
    ApprovalGiven,
    Failure,
    Ground,
    GuardAsks,
    GuardNote,
    GuardQuestions,
    NoAnswer,
)
from agentserver.findings import FindingFacts, Findings
from agentserver.remedies import find_remedy
from agentserver.trace.why import is_asked_about, list_grounds

BROKEN = tuple(FindingFacts(rule, "block", "to", "x") for rule in ("destination", "content", "destination"))


def record(detail, code="", event=Event.REFUSED):
    return AuditRecord(event, 0.0, "c", "t", code=code, detail=detail)


@pytest.mark.parametrize(
    ("detail", "code", "keys"),
    [
        (None, "", ()),
        (None, Code.BUSY, (("code", "busy"),)),
        (Ground.NO_PEER.of("a", "b"), Code.ROUTING, (("ground", "no peer"), ("code", "routing"))),
        (Ground.HANDOFF.of("not_a_peer"), Code.ROUTING, (("handoff", "not_a_peer"), ("code", "routing"))),
        (Ground.HANDOFF.of(""), "", (("ground", "handoff"),)),
        (
            Findings("outbox", 3, "enforce", "deny", BROKEN),
            "",
            (("rule", "destination"), ("rule", "content")),
        ),
        (GuardNote("hours", "closed", "denies"), "", (("guard", "note"),)),
        (GuardNote("hours", "boom", "failed"), "", (("guard", "failed"),)),
        (
            GuardQuestions((GuardAsks("approval", Ground.APPROVAL.of("a", "b")),)),
            "",
            (("ground", "approval"),),
        ),
        (ApprovalGiven("ada", "deny"), "", (("approval", "deny"),)),
        (ApprovalGiven("ada", "once"), "", ()),
        (NoAnswer("late"), "", (("approval", "late"),)),
        (Failure("boom"), Code.INTERNAL, (("code", "internal"),)),
    ],
)
def test_a_record_names_its_codes(detail, code, keys):
    assert list_grounds(record(detail, code)) == keys
    assert all(find_remedy(*key) for key in keys)


def test_only_requested_decisions_are_explained():
    assert is_asked_about(record(None))
    assert is_asked_about(record(None, Code.BUDGET, Event.ENDED))
    assert not is_asked_about(record(None, event=Event.ENDED))
    assert not is_asked_about(record(None, event=Event.SENT))
