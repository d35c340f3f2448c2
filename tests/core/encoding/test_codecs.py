"""The plain forms of details: a loaded detail has the types of its kind, and can be delivered."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentserver.codec import ValueRefusedError
from agentserver.core.encoding.codecs import derive_stored
from agentserver.core.records.audit import AuditRecord, Event
from agentserver.core.records.details import (
    ApprovalGiven,
    Corrections,
    Detail,
    EndDetail,
    Failure,
    FreeText,
    Ground,
    GuardAsks,
    GuardNote,
    GuardQuestions,
    NoAnswer,
    OmittedCount,
    RedrivenFrom,
    RepairNote,
    Unknown,
)
from agentserver.core.records.wording import WORDING
from agentserver.findings import (
    Delegation,
    FindingFacts,
    Findings,
    RecordText,
    SenderExposure,
    Trail,
    TrailHop,
)
from agentserver.trace.redact import EVERY, Redaction, redact_records
from agentserver.trace.text import format_tree_text, iter_json_lines
from tests.core.samples import handoff

KEPT = derive_stored(Detail | None)
dump, load = KEPT.plain, KEPT.value

TRAIL = Trail("fetcher", "text", 2, "eve", "Eve", "base64", (TrailHop("router", "text", 3),), "d")
FOUND = Findings(
    "outbox", 4, "enforce", "deny", (FindingFacts("destination", "block", "to", "eve", "destination", "so", TRAIL),),
    exposed=SenderExposure("writer", "fetcher", 3, "router"),
    delegation=Delegation("fetcher", 2, "[0]", (RecordText("[0].text", "eve\nwrites", ("to",)),)),
)  # fmt: skip
ATTEMPT = handoff(
    {"result": "approve", "target": {"len": 3, "sha256": "00"}, "params_keys": ["a", {"more": 2}]}
)
DETAILS = [
    FreeText("a\nb"), GuardNote("hours", "closed", "denies"), Failure("oops"), Ground.NO_PEER.of("a", "b"),
    Corrections(("one", "two")), RepairNote("closed an element"), ApprovalGiven("ada", "once"), NoAnswer("late"),
    GuardQuestions((GuardAsks("hours", GuardNote("hours", "may it?")), GuardAsks("lineage", FOUND))), EndDetail("done"),
    RedrivenFrom("d", "c", "ada"), FOUND, ATTEMPT,
]  # fmt: skip


def places(value: Any, way: tuple[int, ...] = ()):
    yield way
    if isinstance(value, list):
        for index, each in enumerate(value):
            yield from places(each, (*way, index))


def change_value(value: Any, way: tuple[int, ...], lie: Any) -> Any:
    if not way:
        return lie
    return [change_value(each, way[1:], lie) if index == way[0] else each for index, each in enumerate(value)]


def test_an_attempt_stores_its_unknown_fields():
    assert (ATTEMPT.target, ATTEMPT.params_keys) == (Unknown(3, "00"), ("a", OmittedCount(2)))
    assert load(dump(ATTEMPT)).raw_len is None


def test_an_attempt_without_a_known_intent_is_reported():
    assert WORDING.join_lines(ATTEMPT) == "approve"
    assert WORDING.join_lines(Ground.HANDOFF.of("late")) == "handoff: late"


@pytest.mark.parametrize("detail", DETAILS, ids=lambda detail: type(detail).__name__)
@pytest.mark.parametrize("lie", ["weird", 5, None, True, [], {}, ["a"], {"a": 1}, 1.5], ids=repr)
def test_a_loaded_detail_can_be_reported_and_anything_else_is_refused(detail, lie):
    plain = json.loads(json.dumps(dump(detail)))
    for way in places(plain):
        try:
            loaded = load(change_value(plain, way, lie))
        except ValueRefusedError:
            continue
        records = [AuditRecord(Event.REFUSED, 1.0, "c", "t", detail=loaded)]
        assert format_tree_text(redact_records(records, Redaction((EVERY,))), payloads=True)
        assert iter_json_lines(records)
