from __future__ import annotations

import json

from agentserver.core.audit import Event, Record
from agentserver.guards.intents_record import HandoffRecord


class Sink:
    def __init__(self):
        self.records = []

    def append(self, record):
        self.records.append(dict(record.members))


def test_attempts_and_nothing_else_become_lines():
    sink = Sink()
    attempt = Record(
        Event.ATTEMPTED, 1.0, "c1", "t1", "a", "b", detail=json.dumps({"timestamp": "t", "reason": None})
    )
    HandoffRecord(sink).observe((Record(Event.SENT, 1.0, "c1", "t1"), attempt))
    assert sink.records == [{"timestamp": "t", "reason": None, "conversation": "c1"}]
    assert list(sink.records[0]) == ["timestamp", "reason", "conversation"]
