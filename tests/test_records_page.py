"""docs/records.md describes each member and each kind of the stream, without omissions or extras."""

from __future__ import annotations

import json
import re
from pathlib import Path

from agentserver.core.records.audit import AuditRecord, Event
from agentserver.core.records.details import NAMES, GuardNote
from agentserver.findings import (
    Delegation,
    EndorsedRow,
    EndorsementTerms,
    FindingFacts,
    Findings,
    FixedArgument,
    RecordText,
    SenderExposure,
    Trail,
    TrailHop,
)
from agentserver.provenance.verdict import MOST
from agentserver.trace.text import iter_json_lines

PAGE = (Path(__file__).parents[1] / "docs" / "records.md").read_text("utf-8")


def rows(heading):
    """Read the rows of the table under a line of headings: the code in each cell."""
    _, _, table = PAGE.partition(f"| {heading} |")
    lines = [line for line in table.partition("\n\n")[0].split("\n")[2:] if line.startswith("|")]
    return [[re.findall(r"`([^`]+)`", cell) for cell in line.strip("|").split("|")] for line in lines]


def show_record(record):
    return json.loads(next(iter_json_lines([record])))


def test_each_member_of_a_record_is_documented():
    members = show_record(AuditRecord(Event.SENT, 1.0, "c", "t"))
    assert [row[0][0] for row in rows("member | type | meaning")] == list(members)


def test_each_kind_is_documented_with_its_members():
    told = {row[0][0]: row[1] for row in rows("kind | members | meaning")}
    assert told == {name: list(kind._fields) for kind, name in NAMES.items()}
    assert list(told) == sorted(told)


def test_the_parts_of_findings_are_documented():
    told = [row[1] for row in rows("in | members")]
    kinds = (FindingFacts, Trail, TrailHop, SenderExposure, Delegation, RecordText)
    kinds = (*kinds, EndorsementTerms, EndorsedRow, FixedArgument)
    assert told == [list(part._fields) for part in kinds]
    assert list(Findings._fields) in [row[1] for row in rows("kind | members | meaning")]
    assert f"at most {MOST}" in PAGE


def test_the_example_is_the_real_output():
    example = json.loads(re.search(r"```json\n(.*?)```", PAGE, re.DOTALL).group(1))
    note = GuardNote("hours", "closed\nuntil nine", "notes")
    record = AuditRecord(
        Event.FLAGGED, 1767225600.5, "7b1c", "t2", "router", "outbox", detail=note, request="r1"
    )
    assert {**example, "depth": 0} == show_record(record)
