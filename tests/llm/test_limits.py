"""Tokens a minute: what a backend takes in any minute, whatever the requests are."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.llm.completer import MINUTE, Pace


class Hand:
    """A clock that a test sets."""

    def __init__(self):
        self.at = 100.0

    def __call__(self):
        return self.at


@given(st.lists(st.tuples(st.integers(1, 80), st.floats(0, 40)), max_size=30))
def test_no_minute_takes_more_than_it_may(requests):
    clock, taken = Hand(), []
    pace = Pace(4, 100, clock)
    for tokens, later in requests:
        clock.at += later
        while pause := pace._wait(tokens):
            clock.at += pause
        entry = asyncio.run(pace.enter(tokens, clock.at + 1))
        pace.leave(entry, tokens)
        taken.append((clock.at, tokens))
        assert sum(count for at, count in taken if at > clock.at - MINUTE) <= 100


@pytest.mark.anyio
async def test_an_estimate_is_corrected():
    clock = Hand()
    pace = Pace(4, 100, clock)
    entry = await pace.enter(90, clock.at + 1)
    pace.leave(entry, 10)
    assert await pace.enter(90, clock.at + 1) is not None
    assert await pace.enter(1, clock.at + 1) is None
    assert pace.running == 1


@pytest.mark.anyio
async def test_a_request_beyond_the_limit_waits_for_all_of_it():
    pace = Pace(4, 100, Hand())
    assert await pace.enter(500, 101.0) is not None
