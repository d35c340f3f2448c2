"""Auditing a plan file: the schemas are opened, findings have lines, and there are three ways to write them."""

from __future__ import annotations

import json
from datetime import date

import pytest

from agentserver.handoff.plans.audit import TOLD, FindingsFormat, audit_plan, fails, write_findings
from agentserver.handoff.plans.chain import StepSeverity
from agentserver.handoff.plans.steps import StepsError
from agentserver.handoff.validation import payloads

DAY = date(2026, 7, 2)
FOLDER = "schemas/handoff-payloads"
GOOD = {
    "type": "object",
    "properties": {"x": {"type": "null"}},
    "required": ["x"],
    "additionalProperties": False,
}


@pytest.fixture
def root(tmp_path):
    (tmp_path / FOLDER).mkdir(parents=True)
    for name, own in (("a.v1", "a/v1"), ("a.v2", "a/v2"), ("b.v1", "c/v1")):
        (tmp_path / FOLDER / f"{name}.schema.json").write_text(
            json.dumps({**GOOD, "$id": f"{own}.schema.json"})
        )
    return tmp_path


def plan(root, *rows):
    path = root / "p.steps.csv"
    path.write_text("step,payload_schema_in,payload_schema_out,notes\n" + "".join(f"{row}\n" for row in rows))
    return path


def cell(name):
    return f"{FOLDER}/{name}.schema.json"


def found_flaws(root, *rows, day=DAY):
    return [(each.row, each.code, str(each.severity)) for each in audit_plan(plan(root, *rows), root, day)]


def test_a_plan_that_fits(root):
    rows = (f'1,,{cell("a.v1")},"two\nlines"', f"2,{cell('a.v1')},,")
    assert found_flaws(root, *rows) == []
    assert write_findings([], "p.csv", FindingsFormat.TEXT) == "p.csv: every handoff is typed and fits"


def test_findings_have_the_line_of_the_step_that_hands_over(root):
    rows = (
        f'1,,{cell("a.v1")},"two\nlines"',
        f"2,{cell('a.v2')},,",
        f"3,{cell('a.v1')},{cell('b.v1')},a,b",
        f"4,{cell('b.v1')},,",
    )
    assert found_flaws(root, *rows) == [
        (2, "PAYLOAD_MISMATCH", "HARD"),
        (4, "PAYLOAD_UNTYPED", "HARD"),
        (5, "ROW_OVERFLOW", "WARN"),
        (5, "PAYLOAD_REJECTED", "HARD"),
        (5, "PAYLOAD_REJECTED", "HARD"),
    ]


def test_equal_cells_are_no_proof(root):
    """The published comparison takes equal texts for equal schemas."""
    rows = (f"1,,{cell('b.v1')},", f"2,{cell('b.v1')},,")
    assert {code for _, code, _ in found_flaws(root, *rows)} == {"PAYLOAD_REJECTED"}
    gone = (f"1,,{cell('gone.v1')},", f"2,{cell('gone.v1')},,")
    assert {code for _, code, _ in found_flaws(root, *gone)} == {"PAYLOAD_REJECTED"}


@pytest.mark.parametrize(
    "named",
    [
        "https://x.example/schemas/handoff-payloads/a.v1.schema.json",
        "../schemas/handoff-payloads/a.v1.schema.json",
        "/etc/passwd",
        "schemas/other/a.v1.schema.json",
        "schemas/handoff-payloads/A.v1.schema.json",
        "schemas/handoff-payloads/gone.v1.schema.json",
        "gone/v1.schema.json",
    ],
)
def test_every_schema_that_is_named_is_opened_where_no_pair_compares_it_too(root, named):
    fits = f"2,{cell('a.v1')},{cell('a.v1')},"
    assert found_flaws(root, f"1,{named},{cell('a.v1')},", fits) == [(2, "PAYLOAD_REJECTED", "HARD")]
    assert found_flaws(root, f"1,,{cell('a.v1')},", f"2,{cell('a.v1')},{named},") == [
        (3, "PAYLOAD_REJECTED", "HARD")
    ]
    assert found_flaws(root, f"1,,{named},", "2,,,") == [
        (2, "PAYLOAD_UNTYPED", "HARD"),
        (2, "PAYLOAD_REJECTED", "HARD"),
    ]
    assert found_flaws(root, "1,,,", f"2,{named},,") == [
        (2, "PAYLOAD_UNTYPED", "HARD"),
        (3, "PAYLOAD_REJECTED", "HARD"),
    ]
    assert found_flaws(root, f"1,{named},{named},") == [(2, "PAYLOAD_REJECTED", "HARD")] * 2


def test_cells_may_hold_the_ids_that_the_document_compares(root):
    assert found_flaws(root, "1,,a/v1.schema.json,", "2,a/v1.schema.json,,") == []
    assert found_flaws(root, "1,,a/v1.schema.json,", f"2,{cell('a.v1')},,") == []
    assert found_flaws(root, "1,,a/v1.schema.json,", "2,a/v2.schema.json,,") == [
        (2, "PAYLOAD_MISMATCH", "HARD")
    ]
    other = found_flaws(root, "1,,b/v1.schema.json,", "2,b/v1.schema.json,,")
    assert {code for _, code, _ in other} == {"PAYLOAD_REJECTED"}
    assert {code for _, code, _ in found_flaws(root, "1,,a/v1,", "2,a/v1,,")} == {"PAYLOAD_REJECTED"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("step;payload_schema_in;payload_schema_out\n1;;\n", "separated by commas"),
        ("step\tpayload_schema_in\tpayload_schema_out\n1\t\t\n", "separated by commas"),
        ("step,payload_schema_in\n1,\n", "no column payload_schema_out"),
        ("step,notes\n", "no column payload_schema_in and no column payload_schema_out"),
    ],
)
def test_a_file_without_the_columns_of_a_plan_is_not_a_plan(root, text, said):
    path = root / "p.steps.csv"
    path.write_text(text)
    with pytest.raises(StepsError, match=said):
        audit_plan(path, root, DAY)


def test_hard_findings_fail(root):
    rows = ("1,,,", "2,,,")
    early = audit_plan(plan(root, *rows), root, date(2026, 6, 30))
    assert [each.severity for each in early] == [StepSeverity.WARN]
    assert not fails(early)
    assert fails(audit_plan(plan(root, *rows), root, DAY))


def test_each_schema_is_opened_once(root, monkeypatch):
    opened = []
    admit = payloads.admit
    monkeypatch.setattr(payloads, "admit", lambda value, at: opened.append(value) or admit(value, at))
    found_flaws(root, *(f"{n},{cell('a.v1')},{cell('a.v1')}," for n in range(9)))
    assert opened == [cell("a.v1")]


def test_the_three_forms(root):
    findings = audit_plan(plan(root, "1,,,", "2,,,"), root, DAY)
    assert write_findings(findings, "p.csv", FindingsFormat.TEXT).startswith(
        "p.csv:2: HARD PAYLOAD_UNTYPED: step 1->step 2"
    )
    assert json.loads(write_findings(findings, "p.csv", FindingsFormat.JSON))[0]["row"] == 2
    sarif = json.loads(write_findings(findings, "p.csv", FindingsFormat.SARIF))
    (run,) = sarif["runs"]
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} == set(TOLD)
    (result,) = run["results"]
    assert result["level"] == "error"
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 2
    spaced = json.loads(write_findings(findings, "a plan/p#1.csv", FindingsFormat.SARIF))["runs"][0][
        "results"
    ][0]
    assert spaced["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "a%20plan/p%231.csv"
    warned = audit_plan(plan(root, "1,,,", "2,,,"), root, date(2026, 1, 1))
    assert (
        json.loads(write_findings(warned, "p", FindingsFormat.SARIF))["runs"][0]["results"][0]["level"]
        == "warning"
    )


def test_an_invalid_plan_is_reported(root):
    path = root / "p.steps.csv"
    path.write_text("")
    with pytest.raises(StepsError):
        audit_plan(path, root, DAY)
