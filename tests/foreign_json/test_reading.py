"""Reading foreign JSON: counted and refused parts, and cheap counting."""

from __future__ import annotations

import json
import tracemalloc
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.foreign_json.reading import (
    NO_JSON,
    PIECE,
    JsonCounter,
    JsonLimits,
    RefusedJson,
    count_json,
    parse_json,
)
from tests.foreign_json.bombs import PLAIN

LIMITS = JsonLimits()
SMALL = JsonLimits(bytes=1000, values=10, depth=4, members=5, digits=6)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from('"\\[]{},:'), max_size=12),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(st.sampled_from('ab"\\[{,'), max_size=4), inner, max_size=6),
    max_leaves=30,
)  # fmt: skip


def values(value):
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(values, inner))


def depth(value):
    if not isinstance(value, dict | list):
        return 0
    return 1 + max(map(depth, value.values() if isinstance(value, dict) else value), default=0)


@given(VALUES, st.booleans())
def test_json_within_the_limits_is_read_verbatim(value, ascii_only):
    data = json.dumps(value, ensure_ascii=ascii_only).encode()
    exact = JsonLimits(values=values(value), depth=depth(value))
    assert parse_json(data, exact) == value
    assert parse_json(data.decode(), exact) == value


@given(VALUES)
def test_the_counts_of_values_and_of_depth_are_exact(value):
    data = json.dumps(value).encode()
    assert count_json(data, JsonLimits(values=values(value) - 1)) is not None
    assert count_json(data, JsonLimits(values=values(value), depth=0)) != RefusedJson(
        f"must have at most {values(value)} values"
    )
    if depth(value):
        assert count_json(data, JsonLimits(depth=depth(value) - 1)) == RefusedJson(
            f"must nest at most {depth(value) - 1} objects and arrays"
        )
    assert count_json(data, JsonLimits(depth=depth(value))) is None


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (" " * 1001, "must have at most 1000 bytes"),
        ("[0,0,0,0,0,0,0,0,0,0]", "must have at most 10 values"),
        ("[[[[[]]]]]", "must nest at most 4 objects and arrays"),
        ('{"a":0,"b":0,"c":0,"d":0,"e":0,"f":0}', "must have objects of at most 5 members"),
        ('{"a":0,"\\u0061":0}', "must name each member of an object once"),
        ("1234567", "must have numbers of at most 6 digits"),
        ("0.23456", "must have numbers of at most 6 digits"),
        ("1e9999", "must hold no number too large for a binary64"),
        ("NaN", "must hold no NaN and no Infinity, which JSON has not"),
        ("-Infinity", "must hold no NaN and no Infinity, which JSON has not"),
        ('"\\ud800"', NO_JSON),
        ('"\ud800"', NO_JSON),
        ("\ufeff1", NO_JSON),
        ("[1,]", NO_JSON),
        ('"a', NO_JSON),
        ("", NO_JSON),
    ],
)
def test_each_limit_is_refused_by_its_rule(text, rule):
    assert parse_json(text, SMALL) == RefusedJson(rule)


def test_marks_inside_texts_count_for_nothing_wherever_the_text_is_cut():
    for shift in (0, 1, 2, PIECE - 2, PIECE - 1, PIECE):
        text = '{"' + "a" * shift + '": "' + "[{," * PIECE + '\\"[[[\\\\"}'
        assert parse_json(text, LIMITS) == json.loads(text)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-16", "utf-32"])
def test_a_text_that_other_parsers_read_as_utf_16_is_refused_before_them(encoding):
    data = f'["\\"", {"1, " * 100}"last"]'.encode(encoding)
    assert len(json.loads(data)) > SMALL.values
    assert JsonCounter(SMALL).feed(data) == RefusedJson(NO_JSON)


@given(VALUES, st.integers(1, 9))
def test_the_count_is_the_same_in_pieces_of_any_size(value, size):
    data = json.dumps(value, ensure_ascii=False).encode()
    for limits in (
        JsonLimits(values=values(value), depth=depth(value)),
        JsonLimits(values=values(value) - 1),
    ):
        counter = JsonCounter(limits)
        found = [counter.feed(data[at : at + size]) for at in range(0, len(data), size)]
        # An empty container that is cut in two counts as one that has a value.
        empty = json.dumps(value).count("[]") + json.dumps(value).count("{}")
        if limits.values == values(value) - 1:
            assert found[-1] is not None
        else:
            assert empty or found[-1] is None
            assert counter.end() is None


def test_a_number_with_a_point_can_be_exact():
    assert parse_json("[0.1, 1]", LIMITS, number=Decimal) == [Decimal("0.1"), 1]
    for text in ("1e999999999", "1e-999999999"):
        assert isinstance(parse_json(text, LIMITS, number=Decimal), RefusedJson)


def test_a_pair_of_surrogates_is_one_character():
    assert parse_json('"\\ud83d\\ude00"', LIMITS) == "\U0001f600"


@pytest.mark.parametrize("name", PLAIN)
def test_a_bomb_is_refused_and_builds_nothing(name):
    data = PLAIN[name]
    tracemalloc.start()
    try:
        found = parse_json(data, LIMITS)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(found, RefusedJson)
    assert (
        peak < 4 * len(data) + 1_000_000
    )  # a copy or two of its marks; values would take 50 to 500 bytes each
