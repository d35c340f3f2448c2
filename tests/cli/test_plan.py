"""``plan audit``: findings by line in three forms, and what each exit code means."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime

import pytest

from agentserver.cli import handoffs

FOLDER = "schemas/handoff-payloads"
SCHEMA = {
    "type": "object",
    "properties": {"x": {"type": "null"}},
    "required": ["x"],
    "additionalProperties": False,
}
FITS = f'1,,{FOLDER}/a.v1.schema.json,"two\nlines"\n2,{FOLDER}/a.v1.schema.json,,\n'
CLASHES = f'1,,{FOLDER}/a.v1.schema.json,"two\nlines"\n2,,{FOLDER}/a.v1.schema.json,\n3,{FOLDER}/a.v2.schema.json,,\n'


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / FOLDER).mkdir(parents=True)
    for version in ("v1", "v2"):
        text = json.dumps({**SCHEMA, "$id": f"a/{version}.schema.json"})
        (tmp_path / FOLDER / f"a.{version}.schema.json").write_text(text)
    return tmp_path


def test_text_of_a_plan_is_escaped_for_the_terminal(root, command):
    (root / "plan.csv").write_text(
        f"1,,{FOLDER}/\x1b[2J\u202e.v1.schema.json,\n2,{FOLDER}/a.v1.schema.json,,\n"
    )
    shown = command("plan", "audit", "plan.csv").output
    assert shown
    assert not set(shown) & {"\x1b", "\u202e"}


@pytest.fixture
def day(monkeypatch):
    """Sets the day of the audit."""

    def today(value):
        class Clock(datetime):
            @classmethod
            def now(cls, tz=None):
                assert tz is UTC
                return datetime.combine(value, datetime.min.time(), tz)

        monkeypatch.setattr(handoffs, "datetime", Clock)

    return today


def steps(root, rows):
    (root / "p.steps.csv").write_text(f"step,payload_schema_in,payload_schema_out,notes\n{rows}")
    return "p.steps.csv"


def test_a_plan_that_fits(command, root):
    result = command("plan", "audit", steps(root, FITS))
    assert (result.exit_code, result.output) == (0, "p.steps.csv: every handoff is typed and fits\n")


def test_findings_have_their_line_and_a_hard_one_fails(command, root, day):
    day(date(2026, 6, 30))
    result = command("plan", "audit", steps(root, CLASHES))
    first, second = result.output.splitlines()
    assert first.startswith("p.steps.csv:2: WARN PAYLOAD_UNTYPED: ")
    assert second.startswith("p.steps.csv:4: HARD PAYLOAD_MISMATCH: ")
    assert result.exit_code == 1


@pytest.mark.parametrize(("value", "code"), [(date(2026, 6, 30), 0), (date(2026, 7, 1), 1)])
def test_an_untyped_handoff_fails_from_its_day_on(command, root, day, value, code):
    day(value)
    result = command("plan", "audit", steps(root, "1,,,\n2,,,\n"))
    assert "PAYLOAD_UNTYPED" in result.output
    assert result.exit_code == code


def test_the_other_forms(command, root):
    path = steps(root, CLASHES)
    listed = command("plan", "audit", path, "--format", "json")
    assert [each["row"] for each in json.loads(listed.output)] == [2, 4]
    sarif = command("plan", "audit", path, "--format", "sarif")
    assert [each["ruleId"] for each in json.loads(sarif.output)["runs"][0]["results"]] == [
        "PAYLOAD_UNTYPED",
        "PAYLOAD_MISMATCH",
    ]
    assert (listed.exit_code, sarif.exit_code) == (1, 1)


def test_the_schemas_may_be_elsewhere(command, root, monkeypatch):
    path = str(root / steps(root, FITS))
    (root / "away").mkdir()
    monkeypatch.chdir(root / "away")
    away = command("plan", "audit", path)
    assert away.exit_code == 1
    assert "PAYLOAD_REJECTED" in away.output
    assert command("plan", "audit", path, "--root", str(root)).exit_code == 0


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("gone.csv",), "gone.csv: No such file or directory"),
        (("schemas",), "schemas: Is a directory"),
        (("empty.csv",), "empty.csv: line 1: the header must name distinct columns"),
        (("bytes.csv",), "bytes.csv: is not UTF-8 text"),
        (("empty.csv", "--root", "gone"), "'gone' does not exist"),
        (("empty.csv", "--format", "xml"), "'xml' is not one of"),
    ],
)
def test_an_invalid_plan_exits_2(command, root, args, said):
    (root / "empty.csv").write_text("")
    (root / "bytes.csv").write_bytes(b"\xff\xfe")
    result = command("plan", "audit", *args)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stdout == ""
