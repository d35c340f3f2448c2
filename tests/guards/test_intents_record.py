"""The record of handoffs, taken from what the pump reports."""

from __future__ import annotations

import json

from agentserver.core.encoding.codecs import derive_stored
from agentserver.core.records.audit import AuditRecord, Event
from agentserver.core.records.details import HandoffAttempt
from agentserver.guards.intents import HandoffRecord
from agentserver.handoff.audit import HandoffEntry, Seal, seal_record
from tests.core.samples import handoff

HASH = "0" * 64

MEMBERS = {
    "timestamp": "2026-01-01T00:00:00.000+00:00",
    "source": "a",
    "target": {"len": 3, "sha256": HASH},
    "intent": "review",
    "result": "reject",
    "reason": "params_schema",
    "params_keys": ["ticket", {"len": 9, "sha256": HASH}, {"more": 7}],
    "raw_len": 10,
    "raw_event_len": 0,
    "sanitized_event_len": 0,
    "raw_sha256": HASH,
    "event_sha256": None,
    "note_len": 0,
    "note_sha256": None,
}
"""An attempt, by the keys of the record of handoffs."""


class Sink:
    def __init__(self):
        self.records = []

    def append(self, record):
        self.records.append(record)


def test_attempts_and_nothing_else_become_lines():
    sink = Sink()
    attempt = AuditRecord(Event.ATTEMPTED, 1.0, "c1", "t1", "a", "b", detail=handoff(MEMBERS))
    HandoffRecord(sink)((AuditRecord(Event.SENT, 1.0, "c1", "t1"), attempt))
    expected = {**MEMBERS, "conversation": "c1"}
    (found,) = sink.records
    assert dict(found.members) == expected
    assert list(dict(found.members)) == list(expected)


def test_a_line_of_the_chain_is_byte_for_byte_that_of_earlier_servers():
    """They took the members from JSON in the record's detail."""
    before = HandoffEntry(tuple({**json.loads(json.dumps(MEMBERS)), "conversation": "c1"}.items()))
    sink, codec = Sink(), derive_stored(HandoffAttempt)
    kept = codec.load(codec.dump(handoff(MEMBERS)))
    HandoffRecord(sink)((AuditRecord(Event.ATTEMPTED, 1.0, "c1", "t1", detail=kept),))
    assert seal_record(sink.records[0], Seal()) == seal_record(before, Seal())
