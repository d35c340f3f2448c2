from __future__ import annotations

from agentserver.core.records.details import GuardNote
from agentserver.observers import AuditRecord, Event, describe, fields


def test_an_observer_gets_a_detail_by_name_and_as_text():
    record = AuditRecord(Event.FLAGGED, 1.0, "c", "t", detail=GuardNote("hours", "closed\nuntil nine"))
    assert fields(record.detail) == {
        "kind": "note",
        "guard": "hours",
        "text": "closed\nuntil nine",
        "effect": "",
    }
    assert describe(record) == "closed\nuntil nine"
    assert describe(record._replace(detail=None)) == ""
