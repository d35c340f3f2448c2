"""Reading plans from CSV."""

from __future__ import annotations

import warnings

import pytest

from agentserver.handoff.plans import steps
from agentserver.handoff.plans.steps import StepsError, StepsWarning, read_rows, read_steps

TEXT = (
    "step,actor,payload_schema_in,payload_schema_out,notes\r\n"
    '1,@x,,foo/v1.schema.json,"line one\nline ""two"""\r\n'
    "\r\n"
    "2,@y,foo/v1.schema.json\r\n"
    ",@z,a,b,no number\r\n"
)


@pytest.fixture
def plan(tmp_path):
    def write(text):
        path = tmp_path / "x.steps.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def test_quoted_cells_may_span_lines_and_no_row_is_lost(plan):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = read_steps(plan("\ufeff" + TEXT))
    assert [row["step"] for row in rows] == ["1", "2", ""]
    assert rows[0]["notes"] == 'line one\nline "two"'
    assert rows[1]["payload_schema_out"] == ""


def test_rows_know_their_lines(plan):
    assert [row.line for row in read_rows(plan(TEXT))] == [2, 5, 6]


def test_an_overflowing_row_is_warned_about(plan):
    path = plan("step,notes\n1,unquoted, comma splits\n2,clean\n")
    with pytest.warns(StepsWarning, match="line 2: row has more fields than the header") as caught:
        rows = read_steps(path)
    assert len(caught) == 1
    assert None not in rows[0]
    assert rows == [{"step": "1", "notes": "unquoted"}, {"step": "2", "notes": "clean"}]


@pytest.mark.parametrize(
    "text", ["", "\n\n", "a,a\n1,2\n", b"a\n\xff\n", 'a\n"open\n', 'a\n"x"y\n', "a\n" + "x" * 200_000 + "\n"]
)
def test_an_invalid_plan_is_refused(plan, text):
    with pytest.raises(StepsError, match=r"x\.steps\.csv"):
        read_rows(plan(text))


@pytest.mark.parametrize(
    ("text", "line"), [('a\n1\n"open\n', 3), ("a\n1\n" + "x" * 200_000 + "\n", 3), ('a\n"x"y\n', 2)]
)
def test_a_mistake_in_the_form_of_a_plan_has_its_line(plan, text, line):
    with pytest.raises(StepsError, match=rf"x\.steps\.csv: line {line}: "):
        read_rows(plan(text))


def test_a_plan_has_a_size(plan, monkeypatch):
    monkeypatch.setattr(steps, "MOST", 10)
    with pytest.raises(StepsError, match="10 bytes"):
        read_rows(plan(TEXT))


def test_a_missing_file_is_the_outside_worlds_fault(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_steps(tmp_path / "gone.csv")
