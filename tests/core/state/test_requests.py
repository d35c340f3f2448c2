from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.core.state.requests import OpenRequest, RequestChange


def close_requests(change):
    """Settle, and close the requests without remaining work."""
    over = [entry for entry in change.settle() if not entry.pending]
    for entry in over:
        change.close(entry.id)
    return over


def stuck_requests(change):
    return {entry.id for entry in change.settle() if entry.held_count and entry.held_count == entry.pending}


def test_a_request_without_remaining_work_is_idle():
    change = RequestChange({"old": OpenRequest("old", pending=1)})
    change.begin("new")
    change.count("new", 2)
    change.count("old", -1)
    assert close_requests(change) == [OpenRequest("old")]
    assert change.now == {"new": OpenRequest("new", pending=2)}


def test_a_request_that_causes_nothing_is_idle_at_once():
    change = RequestChange({})
    change.begin("r")
    change.answer("r")
    assert close_requests(change) == [OpenRequest("r", answered=True, messages=1)]
    assert change.now == {}


def test_a_request_is_open_only_once():
    before = {"r": OpenRequest("r", pending=1)}
    with pytest.raises(ValueError, match="open"):
        RequestChange(before).begin("r")


def test_a_change_leaves_its_origin_unchanged():
    before = {"r": OpenRequest("r", ("t",), 1)}
    change = RequestChange(before)
    change.begin("s")
    change.began_on("s", "t", "r")
    change.count("r", -1)
    close_requests(change)
    assert before == {"r": OpenRequest("r", ("t",), 1)}


def test_a_thread_belongs_to_the_request_that_came_to_it_last():
    change = RequestChange({"r": OpenRequest("r", ("t", "u"), 1)})
    change.begin("s")
    change.began_on("s", "t", "r")
    change.began_on("s", "v")
    assert (change.list_threads("r"), change.list_threads("s")) == (("u",), ("t", "v"))


def test_only_held_deliveries_make_a_request_stuck():
    change = RequestChange({"r": OpenRequest("r", pending=2, held_count=1), "s": OpenRequest("s", pending=2)})
    change.count("s", -1)
    assert stuck_requests(change) == set()
    change.count("r", -1)
    assert stuck_requests(change) == {"r"}
    change.count("r", 0, held=-1)
    assert stuck_requests(change) == set()
    assert close_requests(change) == []


def test_a_request_spends_at_most_its_budget():
    change = RequestChange({"r": OpenRequest("r", messages=3)})
    assert [change.spend("r", 5) for _ in range(3)] == [True, True, False]
    change.settle()
    assert not change.spend("r", 5)
    assert (change.now["r"].messages, change.now["r"].pending) == (5, 2)


@given(st.lists(st.tuples(st.sampled_from("rs"), st.integers(0, 3), st.integers(0, 3))))
def test_counts_add_up_however_often_one_looks(steps):
    change = RequestChange({name: OpenRequest(name, pending=1) for name in "rs"})
    expected = {name: [1, 0] for name in "rs"}
    for name, pending, held in steps:
        change.count(name, pending, held)
        expected[name][0] += pending
        expected[name][1] += held
        stuck_requests(change)
    assert close_requests(change) == []
    assert {name: [r.pending, r.held_count] for name, r in change.now.items()} == expected
