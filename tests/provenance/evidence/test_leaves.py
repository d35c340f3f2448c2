from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from agentserver.provenance import leaves as face
from agentserver.provenance.evidence.leaves import (
    DEPTH,
    build_typed_key,
    find_typed_keys,
    format_text,
    leaves,
)


class Colour(Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    name: str


class Model(BaseModel):
    inner: list[dict[str, str]]


def pairs(value: Any) -> list[tuple[str, Any]]:
    return [(leaf.path, leaf.value) for leaf in leaves(value)]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("x", [("", "x")]),
        (3, [("", 3)]),
        (None, [("", None)]),
        ({"a": [1, {"b": "c"}]}, [("a[0]", 1), ("a[1].b", "c")]),
        ({"two words": 1}, [("{}", "two words"), ("two words", 1)]),
        (Point(1, "p"), [("x", 1), ("name", "p")]),
        (Model(inner=[{"k": "v"}]), [("inner[0].k", "v")]),
        (Colour.RED, [("", "red")]),
        (b"ab\xff", [("", "ab\ufffd")]),
        ('{"a": "b"}', [("a", "b")]),
        ("{}", [("", "{}")]),
        ("[broken]", [("", "[broken]")]),
        (frozenset({"s"}), [("[0]", "s")]),
        (1j, [("", "1j")]),
    ],
)
def test_values_are_taken_apart(value: Any, found: list[tuple[str, Any]]) -> None:
    assert pairs(value) == found


def test_too_deep_a_value_becomes_one_text() -> None:
    value: Any = "secret"
    for _ in range(DEPTH + 5):
        value = [value]
    [leaf] = leaves(value)
    assert "secret" in format_text(leaf.value)


def test_a_value_too_deep_to_be_written_is_one_text_as_well() -> None:
    value: Any = {"key": "secret"}
    for _ in range(5000):
        value = [value]
    [leaf] = leaves(value)
    assert leaf.value == "key secret"


def test_a_recursive_value_ends() -> None:
    value: list[Any] = ["secret", 10**5000]
    value.append(value)
    assert "secret" in " ".join(format_text(leaf.value) for leaf in leaves(value))


def test_too_many_values_become_one_text(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setattr(sys.modules["agentserver.provenance.evidence.leaves"], "COUNT", 3)
    found = leaves(["a", "b", "c", "d", "secret"])
    assert len(found) == 4
    assert "secret" in format_text(found[-1].value)
    assert face is not None


@given(
    st.recursive(
        st.none() | st.text() | st.integers(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_no_text_is_lost(value: Any) -> None:
    import json

    said = "\n".join(format_text(leaf.value) for leaf in leaves(json.loads(json.dumps(value))))

    def check(inner: Any) -> None:
        if isinstance(inner, dict):
            for each in inner.values():
                check(each)
        elif isinstance(inner, list):
            for each in inner:
                check(each)
        elif isinstance(inner, str) and inner[:1] not in {"[", "{"} and inner.strip() == inner:
            assert inner in said

    check(value)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1,000.00", 1000),
        ("1 000", Decimal(1000)),
        (1.50, "1.5"),
        ("2025-1-2", date(2025, 1, 2)),
        ("2025-01-02 10:30", datetime(2025, 1, 2, 9, tzinfo=UTC)),
    ],
)
def test_typed_values_compare_by_value(one: Any, other: Any) -> None:
    assert build_typed_key(one) == build_typed_key(other) is not None


@pytest.mark.parametrize("value", [True, None, time(1), "words", "2025-13-45", "1,00", float("nan")])
def test_words_have_no_typed_key(value: Any) -> None:
    assert build_typed_key(value) is None


def test_numbers_and_dates_in_a_text() -> None:
    found = set(
        find_typed_keys(
            "pay 1,200.50 by January 2nd, 2025 or the 3 of Feb; not 2025-02-30 but 2025-03-01, 31 June 2024"
        )
    )
    assert {"number 1200.5", "date 2025-01-02", "day 02-03", "date 2025-03-01"} <= found
    assert not any("02-30" in key or "06-31" in key for key in found)


@pytest.mark.parametrize(
    "value",
    [10**5000, -(10**9000), Decimal("1E+999999999"), Decimal("-1E-999999999"), Decimal("1E+400")],
    ids=["long", "longer", "large", "small", "within"],
)
def test_a_number_beyond_all_bounds_is_compared_and_written(value: Any) -> None:
    assert len(build_typed_key(value) or "") < 20_100
    assert format_text(value)
    assert [leaf.path for leaf in leaves({value: value})]


def test_scalars_as_text() -> None:
    assert format_text(datetime(2025, 1, 2, 3, 4, tzinfo=UTC)).startswith("2025-01-02 03:04")
    assert format_text(None) == ""


@pytest.mark.parametrize(
    "text",
    [
        "5 May 2024",
        "Sunday, May 5th, 2024 at 10:00",
        "5 May 2024 10:00 am",
        "05.05.2024",
        "5/5/2024",
        "2024-05-05T10:00",
    ],
)
def test_a_date_is_one_however_it_is_written(text: str) -> None:
    assert build_typed_key(text) == "date 2024-05-05"
    assert "date 2024-05-05" in {*find_typed_keys(f"from {text} on")}


@pytest.mark.parametrize(
    "text", ["05/06/2024", "31.02.2024", "5 May", "5 May 2024 or later", "1.2.3.2024", "May 2024"]
)
def test_an_ambiguous_day_is_no_date(text: str) -> None:
    assert not (build_typed_key(text) or "").startswith("date ")


@given(st.text(st.sampled_from("0159 .,/-:TMayon,satpm"), max_size=60))
def test_a_text_that_is_a_date_contains_it(text: str) -> None:
    kind = build_typed_key(text) or ""
    if kind.startswith("date "):
        assert kind in {*find_typed_keys(text)}
