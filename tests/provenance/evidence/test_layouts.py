from __future__ import annotations

import csv
import io
import json
from datetime import datetime
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from agentserver.provenance.evidence.layouts import LONGEST, TextLayout, parse_layout

RECORDS = [{"name": "Kim Lee", "age": 41}, {"name": "Bob", "age": 7}]

_TEXTS = st.text(max_size=30)
_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    _TEXTS,
    st.datetimes().map(lambda at: at.replace(microsecond=0)),
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXTS, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        (TextLayout.JSON, '{"name": "Kim Lee", "age": 41}\n{"name": "Bob", "age": 7}\n'),
        (TextLayout.YAML, "- age: 41\n  name: Kim Lee\n- {name: 'Bob', age: 7}"),
        (TextLayout.LINES, "name: Kim Lee\nage: 41\n\nname = Bob\nage = 7"),
        (TextLayout.TABLE, "| name | age |\n|:---|---:|\n| Kim Lee | 41 |\n| Bob | 7 |"),
        (TextLayout.TABLE, "name,age\nKim Lee,41\nBob,7"),
        (TextLayout.TABLE, "name\tage\nKim Lee\t41\nBob\t7"),
    ],
)
def test_a_text_in_a_layout_is_taken_apart(layout: TextLayout, text: str) -> None:
    assert parse_layout(text, layout) == RECORDS


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        (TextLayout.YAML, "just words"),
        (TextLayout.YAML, "a: 1\na: 2"),
        (TextLayout.YAML, "a: &x [1]\nb: *x"),
        (TextLayout.YAML, "!!python/name:os.system x"),
        (TextLayout.YAML, "--- [a]\n--- [b]"),
        (TextLayout.YAML, "? [a]\n: b"),
        (TextLayout.YAML, "[" * 50 + "]" * 50),
        (TextLayout.YAML, "\ud800: x"),
        (TextLayout.YAML, f"a: {'x' * LONGEST}"),
        (TextLayout.JSON, '"a word"'),
        (TextLayout.JSON, "{}\nwords"),
        (TextLayout.JSON, "[" * 100_000),
        (TextLayout.JSON, f"[{'9' * 5000}]\n[1]"),
        (TextLayout.LINES, "Note: it is late"),
        (TextLayout.LINES, "name: Kim\nand some words\nage: 41"),
        (TextLayout.TABLE, "a,b\n1,2,3"),
        (TextLayout.TABLE, "a,a\n1,2"),
        (TextLayout.TABLE, 'a,b\n"1,2'),
        (TextLayout.TABLE, "a\n1"),
        (TextLayout.TABLE, "|---|---|\n|---|---|"),
    ],
)
def test_a_text_that_is_in_none_as_a_whole_stays_one(layout: TextLayout, text: str) -> None:
    assert parse_layout(text, layout) is None


@given(st.lists(_VALUES, min_size=1, max_size=4) | st.dictionaries(_TEXTS, _VALUES, min_size=1, max_size=4))
def test_serialised_text_is_read_back(value: Any) -> None:
    """No line end, quotation mark or key inside a value makes another field: that is what a declaration relies on."""
    for text in (yaml.safe_dump(value), yaml.safe_dump(value, allow_unicode=True)):
        found = parse_layout(text, TextLayout.YAML)
        assert found is None or _shape(found) == _shape(value)
    plain = json.loads(json.dumps(value, default=str))
    assert parse_layout(json.dumps(plain), TextLayout.JSON) == plain
    lines = "\n".join(json.dumps({"of": plain}, ensure_ascii=False) for _ in range(2))
    assert parse_layout(lines, TextLayout.JSON) == [{"of": plain}, {"of": plain}]


def _shape(value: Any) -> Any:
    """A structure without the spaces in its texts: YAML takes some of the rarer line ends for spaces."""
    if isinstance(value, dict):
        return sorted(((_shape(key), _shape(each)) for key, each in value.items()), key=repr)
    return [*map(_shape, value)] if isinstance(value, list) else "".join(str(value).split())


@given(st.lists(st.tuples(_TEXTS, _TEXTS), min_size=1, max_size=5))
def test_a_cell_of_a_table_makes_no_row(rows: list[tuple[str, str]]) -> None:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([("one", "two"), *rows])
    found = parse_layout(out.getvalue(), TextLayout.TABLE)
    assert found is None or len(found) == len(rows)


@given(st.lists(st.text(st.characters(exclude_characters="\n\r"), max_size=20), min_size=2, max_size=5))
def test_a_value_of_a_line_makes_no_line(values: list[str]) -> None:
    found = parse_layout(
        "".join(f"k{number}: {value}\n" for number, value in enumerate(values)), TextLayout.LINES
    )
    assert found is None or len(found) == len(values)


@given(
    st.sampled_from(TextLayout),
    st.text(st.sampled_from("ab:=-|,\t\n \"'[]{}#&*!1.~?%\\\x00\ud800\u2028é"), max_size=60),
)
def test_reading_is_total(layout: TextLayout, text: str) -> None:
    found = parse_layout(text, layout)
    assert found is None or (isinstance(found, dict | list) and found)


def test_a_plain_word_means_itself_and_nothing_is_rounded() -> None:
    said = "a: 007\nb: 1.50\nc: 2024-05-01 10:00:00\nd: 2024-13-01 10:00:00\ne: ~\nf: yes\ng: '7'"
    assert parse_layout(said, TextLayout.YAML) == {
        "a": "007",
        "b": "1.50",
        "c": datetime.fromisoformat("2024-05-01 10:00"),
        "d": "2024-13-01 10:00:00",
        "e": None,
        "f": "yes",
        "g": "7",
    }
