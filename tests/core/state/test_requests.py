from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.core.state.requests import NO_REQUESTS, OpenRequest, RequestChange


def test_a_request_is_at_rest_when_nothing_of_it_is_left():
    change = RequestChange({"old": OpenRequest("old", pending=1)})
    change.begin("new")
    change.count("new", 2)
    change.count("old", -1)
    assert change.at_rest() == [OpenRequest("old")]
    assert change.result() == {"new": OpenRequest("new", pending=2)}


def test_one_that_begins_and_causes_nothing_is_at_rest_at_once():
    change = RequestChange({})
    change.begin("r")
    change.answer("r")
    assert change.at_rest() == [OpenRequest("r", answered=True, messages=1)]
    assert change.result() is NO_REQUESTS


def test_a_request_is_open_only_once():
    before = {"r": OpenRequest("r", pending=1)}
    with pytest.raises(ValueError, match="open"):
        RequestChange(before).begin("r")


def test_a_change_leaves_what_it_was_made_from():
    before = {"r": OpenRequest("r", ("t",), 1)}
    change = RequestChange(before)
    change.begin("s")
    change.began_on("s", "t", "r")
    change.count("r", -1)
    change.at_rest()
    assert before == {"r": OpenRequest("r", ("t",), 1)}


def test_a_thread_belongs_to_the_request_that_came_to_it_last():
    change = RequestChange({"r": OpenRequest("r", ("t", "u"), 1)})
    change.begin("s")
    change.began_on("s", "t", "r")
    change.began_on("s", "v")
    assert (change.threads("r"), change.threads("s")) == (("u",), ("t", "v"))


def test_only_held_deliveries_make_a_request_stuck():
    change = RequestChange({"r": OpenRequest("r", pending=2, held=1), "s": OpenRequest("s", pending=2)})
    change.count("s", -1)
    assert change.stuck() == set()
    change.count("r", -1)
    assert change.stuck() == {"r"}
    change.count("r", 0, held=-1)
    assert change.stuck() == set()
    assert change.at_rest() == []


@given(st.lists(st.tuples(st.sampled_from("rs"), st.integers(0, 3), st.integers(0, 3))))
def test_counts_add_up_however_often_one_looks(steps):
    change = RequestChange({name: OpenRequest(name, pending=1) for name in "rs"})
    expected = {name: [1, 0] for name in "rs"}
    for name, pending, held in steps:
        change.count(name, pending, held)
        expected[name][0] += pending
        expected[name][1] += held
        change.stuck()
    assert change.at_rest() == []
    assert {name: [r.pending, r.held] for name, r in change.result().items()} == expected
