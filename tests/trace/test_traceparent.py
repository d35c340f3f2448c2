from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.trace.traceparent import Traceparent, find_caller, link_requests, parse_traceparent

GOOD = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_a_traceparent_names_a_span():
    expected = Traceparent(bytes.fromhex(GOOD[3:35]), bytes.fromhex(GOOD[36:52]))
    assert parse_traceparent(GOOD) == expected
    assert parse_traceparent(GOOD.replace("00-4", "01-4") + "-more") == expected


@pytest.mark.parametrize(
    "text",
    [
        None, 7, b"x", "", GOOD.upper(), GOOD + "-more", GOOD + "\n", "ff" + GOOD[2:], GOOD[:3] + "0" * 32 + GOOD[35:],
        GOOD[:36] + "0" * 16 + GOOD[52:], GOOD.replace("0", "\uff10"), GOOD[:-1], "01" + GOOD[2:] + "-" + "x" * 300,
    ],
)  # fmt: skip
def test_an_invalid_traceparent_is_ignored(text):
    assert parse_traceparent(text) is None


@given(st.text() | st.binary() | st.none() | st.integers())
def test_nothing_that_is_read_raises(text):
    assert parse_traceparent(text) is None or isinstance(parse_traceparent(text), Traceparent)


def test_a_caller_is_known_within_and_not_after():
    assert find_caller() is None
    with link_requests(GOOD):
        assert find_caller() == parse_traceparent(GOOD)
        with link_requests("nonsense"):
            assert find_caller() is None
    assert find_caller() is None
