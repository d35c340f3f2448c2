from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver import TodoUntil
from agentserver.contract import Target
from agentserver.core.drafts.replies import encode_draft
from agentserver.core.drafts.routing import Route, Sender, resolve
from agentserver.core.messages import TODO
from tests.core.paper import Answer, Ask, Note, listener, rules

SHOP = rules(
    listener("a", "b", "w", "x"),
    listener("b", "w", "x", "y"),
    listener("c"),
    *(listener(name, "w", "x", payloads=(Note,), broadcast=True) for name in "wxy"),
)


def route_targets(payload, to=None, *, sender="a", caller="console"):
    place = Sender(SHOP.blueprint.listeners[sender], "t", caller)
    proposals = resolve(encode_draft(payload, to, SHOP.codecs, SHOP.bounds), place, SHOP.blueprint)
    assert all(p.sender.name == sender and p.thread == "t" for p in proposals)
    return [(p.to, p.route) for p in proposals]


def test_the_caller_is_answered_whether_it_is_named_or_not():
    assert route_targets(Answer("x"), Target.CALLER) == [("console", Route.ANSWER)]
    assert route_targets(Answer("x"), "console") == [("console", Route.ANSWER)]
    assert route_targets(Ask("x"), "b", caller="b") == [("b", Route.ANSWER)]


def test_an_answer_may_be_any_payload_and_a_call_only_a_declared_one():
    assert route_targets(Note("x"), Target.CALLER, caller="c") == [("c", Route.ANSWER)]
    assert route_targets(Note("x"), "c") == []
    assert route_targets(Ask("x"), "c") == [("c", Route.PEER)]


def test_ones_own_name_is_a_self_call_even_for_ones_own_caller():
    assert route_targets(Ask("x"), "a", caller="a") == [("a", Route.SELF)]
    assert route_targets(Answer("x"), Target.CALLER, caller="a") == [("a", Route.ANSWER)]
    assert route_targets(Note("x"), "a") == []


def test_services_take_declared_payloads_from_listeners_only():
    assert route_targets(TodoUntil("X"), TODO) == [(TODO, Route.SERVICE)]
    assert route_targets(TodoUntil("X")) == [(TODO, Route.SERVICE)]
    assert route_targets(Ask("x"), TODO) == []
    assert route_targets(TodoUntil("X"), TODO, caller=None) == []
    assert route_targets(TodoUntil("X"), caller=None) == []


def test_nobody_answers_where_there_is_no_caller():
    assert route_targets(Answer("x"), Target.CALLER, caller=None) == []
    assert route_targets(Answer("x"), caller=None) == []


@pytest.mark.parametrize("name", ["nobody", "", "system", "system.nothing", "A", "a.b", " b"])
def test_a_name_that_nobody_bears_has_no_receiver(name):
    assert route_targets(Ask("x"), name) == []


def test_without_a_target_the_root_decides_among_those_within_reach():
    assert route_targets(Ask("x"), sender="w") == [("console", Route.ANSWER)]
    assert route_targets(Ask("x"), sender="c") == [("c", Route.SELF)]
    assert route_targets(Answer("x")) == [("console", Route.ANSWER)]
    assert route_targets(Note("x"), sender="c", caller="y") == [("y", Route.ANSWER)]


def test_a_root_that_several_within_reach_take_is_ambiguous_unless_all_take_broadcasts():
    assert route_targets(Ask("x")) == []
    assert route_targets(Note("x")) == [("w", Route.PEER), ("x", Route.PEER)]
    assert route_targets(Note("x"), sender="b") == [("w", Route.PEER), ("x", Route.PEER), ("y", Route.PEER)]


def test_a_member_of_a_broadcast_does_not_hear_its_own():
    assert route_targets(Note("x"), sender="w") == [("x", Route.PEER)]
    assert route_targets(Note("x"), sender="y", caller="x") == [("w", Route.PEER), ("x", Route.PEER)]


@given(
    st.sampled_from("abcwxy"),
    st.sampled_from([Ask("x"), Note("x"), Answer("x"), TodoUntil("X")]),
    st.sampled_from([None, Target.CALLER, TODO, "console", "nobody", *"abcwxy"]),
    st.sampled_from([None, "console", *"abcwxy"]),
)
def test_a_message_without_a_target_stays_within_reach(sender, payload, to, caller):
    reached = route_targets(payload, to, sender=sender, caller=caller)
    if to is None:
        assert {name for name, _ in reached} <= {
            *SHOP.blueprint.listeners[sender].peers,
            sender,
            caller,
            TODO,
        }
    else:
        assert len(reached) <= 1
    assert caller is not None or not {Route.ANSWER, Route.SERVICE} & {route for _, route in reached}
    assert all(
        (name == sender) == (route is Route.SELF) for name, route in reached if route is not Route.ANSWER
    )
