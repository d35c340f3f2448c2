"""Due times of intervals and cron expressions, and the choice of those that are sent late."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.core.state.principals import Trust
from agentserver.ports.schedules import MOST, CronExpression, Interval, Schedule, seconds_until

BERLIN = ZoneInfo("Europe/Berlin")
TIMES = st.floats(1e9, 4e9, allow_nan=False)
SERIES = st.one_of(
    st.integers(1, 10_000_000).map(Interval),
    st.sampled_from(
        [
            CronExpression("0 7 * * 1-5", "Europe/Berlin"),
            CronExpression("30 2 * * *", "America/New_York"),
            CronExpression("*/5 * * * *"),
            CronExpression("15 1 1,15 * *", "Australia/Lord_Howe"),
        ]
    ),
)


def schedule(recurrence=None, **more):
    return Schedule("beat", "report", b"<x/>", recurrence or Interval(60), **more)


def local(series, start, count=3):
    at = datetime(*start, tzinfo=BERLIN).timestamp()
    for _ in range(count):
        at = series.next_after(at)
        yield datetime.fromtimestamp(at, BERLIN).strftime("%d %H:%M %z")


@given(SERIES, TIMES)
def test_the_next_due_time_is_the_first_one_seen_from_later(series, at):
    due = series.next_after(at)
    assert due > at
    assert next(series.back_from(due)) == due
    assert next(series.back_from(due - 1)) <= at


@given(SERIES, TIMES)
def test_due_times_read_backwards_are_those_read_forwards(series, at):
    back = [*islice(series.back_from(at), 4)]
    for later, earlier in pairwise(back):
        assert series.next_after(earlier) == later


@pytest.mark.parametrize(("fields", "count"), [("0 12 29 2 *", 14), ("0 0 1 1 *", 57)])
def test_rare_due_times_are_read_back_to_the_epoch(fields, count):
    series = CronExpression(fields, "Europe/Berlin")
    assert len([*series.back_from(datetime(2027, 6, 1, tzinfo=UTC).timestamp())]) == count
    leap = [*islice(CronExpression("0 0 29 2 *").back_from(datetime(2001, 1, 1, tzinfo=UTC).timestamp()), 2)]
    assert [datetime.fromtimestamp(each, UTC).year for each in leap] == [2000, 1996]


def test_a_time_that_a_change_of_clocks_skips_is_due_once_and_so_is_one_that_occurs_twice():
    daily = CronExpression("30 2 * * *", "Europe/Berlin")
    assert [*local(daily, (2026, 3, 28, 12))] == ["29 03:00 +0200", "30 02:30 +0200", "31 02:30 +0200"]
    assert [*local(daily, (2026, 10, 24, 12))] == ["25 02:30 +0200", "26 02:30 +0100", "27 02:30 +0100"]


@pytest.mark.parametrize("fields", ["", "* * * *", "61 * * * *", "a b c d e", "0 0 31 2 *"])
def test_faulty_fields_are_refused(fields):
    with pytest.raises(ValueError, match=r"Bad|Wrong|never|fields"):
        CronExpression(fields).next_after(0)


def test_a_key_is_the_same_at_each_server_and_differs_with_each_due_time():
    one = schedule(CronExpression("0 7 * * *", "Europe/Berlin"))
    due = datetime(2026, 7, 1, 7, tzinfo=BERLIN).timestamp()
    assert one.key_of(due) == "beat 2026-07-01T05:00:00Z"
    assert one.principal.name == "schedule-beat"
    assert (one.principal.trust, one.principal.may) == (Trust.ORDERS, ("report",))
    assert schedule(owner="ada").principal.name == "ada"


def test_missed_due_times_are_listed_oldest_first_and_bounded():
    assert [*schedule().list_due(60.0, 240.0)] == [120.0, 180.0, 240.0]
    assert [*schedule().list_due(60.0, 119.0)] == []
    long = schedule(Interval(1)).list_due(0.0, 1e6)
    assert (len(long), long[-1]) == (MOST, 1e6)


@pytest.mark.parametrize(
    ("catch_up", "now", "chosen"),
    [
        ("all", 1000.0, [60.0, 120.0, 180.0]),
        ("last", 1000.0, [180.0]),
        ("none", 1000.0, []),
        ("none", 200.0, [180.0]),
    ],
)
def test_missed_due_times_are_chosen_by_the_policy(catch_up, now, chosen):
    assert [*schedule(catch_up=catch_up).choose([60.0, 120.0, 180.0], now)] == chosen
    assert [*schedule(catch_up=catch_up).choose([], now)] == []


def test_a_sleep_ends_at_the_due_time_or_to_look_at_the_clock():
    assert seconds_until(100.0, 90.0, 30.0) == 10.0
    assert seconds_until(1000.0, 90.0, 30.0) == 30.0
    assert seconds_until(10.0, 90.0, 30.0) == 0.0
    assert 0 < seconds_until(90.0000001, 90.0, 30.0) <= 0.001  # never a busy loop


def test_schedules_describe_themselves():
    assert str(Interval(900)) == "every 15m"
    assert str(CronExpression("0 7 * * *", "Europe/Berlin")) == "0 7 * * * (Europe/Berlin)"
    assert datetime.fromtimestamp(CronExpression("0 7 * * *").next_after(0), UTC).hour == 7
