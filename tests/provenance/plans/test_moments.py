"""Dates, moments, times of day and durations. Moments without a zone are what people write."""
# ruff: noqa: DTZ001

from __future__ import annotations

from datetime import date, datetime, time, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.provenance.plans.moments import (
    format_duration,
    is_same_moment,
    parse_duration,
    parse_moment,
    subtract,
)


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("2 days", timedelta(days=2)),
        ("1 hour 30 minutes", timedelta(minutes=90)),
        ("1 hour and 30 minutes", timedelta(minutes=90)),
        ("-1 week", timedelta(days=-7)),
        ("PT90M", timedelta(minutes=90)),
        ("P1DT2H", timedelta(hours=26)),
        ("-P3W", timedelta(days=-21)),
    ],
)
def test_a_duration_has_two_spellings(text: str, length: timedelta) -> None:
    assert parse_duration(text) == length


@pytest.mark.parametrize("text", ["", "P", "PT", "1 month", "P1M", "P1Y", "two days", "2 days later", "2"])
def test_a_value_without_length_is_no_duration(text: str) -> None:
    assert parse_duration(text) is None


@given(st.integers(min_value=-(10**8), max_value=10**8))
def test_a_duration_is_read_back_from_its_words(seconds: int) -> None:
    assert parse_duration(format_duration(timedelta(seconds=seconds))) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("2024-05-16", date(2024, 5, 16)),
        ("2024-05-16 10:00", datetime(2024, 5, 16, 10)),
        ("2024-05-16T10:00:30", datetime(2024, 5, 16, 10, 0, 30)),
        ("9:05", time(9, 5)),
        ("20240516", None),
        ("2024-05", None),
        ("2024-02-30", None),
        ("may 16", None),
        ("10:00 and then eve@evil.example", None),
    ],
)
def test_a_moment_is_read_strictly(text: str, read: object) -> None:
    assert parse_moment(text) == read


def test_a_moment_is_moved_within_its_form() -> None:
    assert subtract(date(2024, 5, 16), timedelta(days=1)) == date(2024, 5, 15)
    assert subtract(date(2024, 5, 16), timedelta(hours=1)) is None
    assert subtract(time(10), timedelta(hours=1)) == time(9)
    assert subtract(time(0, 30), timedelta(hours=1)) is None
    assert subtract(date(1, 1, 1), timedelta(days=1)) is None


def test_a_date_is_its_midnight_and_no_other_time_of_that_day() -> None:
    assert is_same_moment(date(2024, 5, 16), datetime(2024, 5, 16))
    assert not is_same_moment(date(2024, 5, 16), datetime(2024, 5, 16, 10))
    assert not is_same_moment(time(), date(2024, 5, 16))
