from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.core.state import elapsed_time
from agentserver.core.state.elapsed_time import ABSENCE, TOLERANCE, Calendar, Jump

DAY = 86_400.0
YEARS = 10 * 365 * DAY
NOW = 1_800_000_000.0


def test_without_a_jump_time_follows_the_clock():
    assert Calendar().cutoff(30 * DAY, NOW) == NOW - 30 * DAY


def test_a_jump_of_ten_years_makes_nothing_old():
    calendar = Calendar(last=NOW).resume(NOW + YEARS)
    now = NOW + YEARS
    assert calendar.cutoff(30 * DAY, now) == NOW - 30 * DAY
    assert calendar.cutoff(30 * DAY, now + 20 * DAY) == NOW - 10 * DAY
    assert calendar.cutoff(30 * DAY, now + 31 * DAY) == now + DAY, "afterwards time is as before"


def test_a_jump_beneath_a_running_server_is_seen():
    calendar = Calendar().observe(NOW, 0).observe(NOW + 5, 5).observe(NOW + 10 + YEARS, 5)
    assert calendar == Calendar((Jump(NOW + 10, NOW + 10 + YEARS),), NOW + 10 + YEARS)
    assert calendar.cutoff(DAY, NOW + 10 + YEARS) == NOW + 10 - DAY


def test_a_clock_that_was_wrong_and_is_put_right():
    calendar = (
        Calendar(last=NOW).observe(NOW + YEARS, 0).observe(NOW + YEARS + DAY, DAY).observe(NOW + DAY, 0)
    )
    assert calendar.cutoff(3 * DAY, NOW + DAY) == NOW - 2 * DAY
    assert calendar.cutoff(3 * DAY, NOW + 9 * DAY) == NOW + 6 * DAY


@pytest.mark.parametrize("gap", [-TOLERANCE, 0.0, DAY, 30 * DAY, ABSENCE])
def test_an_absence_that_can_be_believed_counts(gap):
    assert Calendar(last=NOW).resume(NOW + gap) == Calendar(last=NOW + gap)


@pytest.mark.parametrize("gap", [-TOLERANCE - 1, -YEARS, ABSENCE + 1, YEARS])
def test_one_that_cannot_does_not(gap):
    assert Calendar(last=NOW).resume(NOW + gap).jumps == (Jump(NOW, NOW + gap),)


@pytest.mark.parametrize("drift", [-0.01, 0.01])
def test_a_clock_that_is_slewed_has_not_jumped(drift):
    calendar = Calendar()
    for turn in range(1000):
        calendar = calendar.observe(NOW + turn * (60 + drift), 60)
    assert calendar.jumps == ()


@pytest.mark.parametrize("kept", [64, 2])
@given(
    st.lists(st.tuples(st.floats(0, 40 * DAY), st.floats(-100 * DAY, 100 * DAY)), max_size=8),
    st.floats(1, 60 * DAY),
)
def test_nothing_expires_before_its_time(kept, turns, limit):
    """Whatever the clock does: stamps are made, time passes, the clock is set."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elapsed_time, "JUMPS", kept)
        calendar, clock, real, stamps = Calendar(last=NOW), NOW, 0.0, []
        for passes, jump in turns:
            stamps.append((clock, real))
            clock, real = clock + passes + jump, real + passes
            calendar = calendar.observe(clock, passes)
        before = calendar.cutoff(limit, clock)
        backwards = any(jump < 0 for _, jump in turns)
        for stamp, at in stamps:
            if stamp < before:
                assert real - at >= limit - 9 * TOLERANCE
            elif not backwards and kept > 9 and stamp != before:
                assert real - at <= limit + 9 * TOLERANCE, "and what is over is over"
