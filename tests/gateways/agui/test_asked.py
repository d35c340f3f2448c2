"""The input of a run is read, or refused with a status: whatever it is."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.gateways import agui
from agentserver.gateways.http.parts import ProblemAnswer

INPUT = {"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "user", "content": "hello"}]}

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=8,
)
KEYS = ["threadId", "runId", "messages", "forwardedProps", "resume", "state", "tools", "context", "more"]


def read(found, *, decides=True):
    return agui.read(json.dumps(found).encode(), decides=decides)


@given(st.dictionaries(st.sampled_from(KEYS), VALUES), st.booleans())
def test_any_json_is_read_or_refused(changed, decides):
    with contextlib.suppress(ProblemAnswer):
        read(INPUT | changed, decides=decides)


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data):
    with contextlib.suppress(ProblemAnswer):
        agui.read(data, decides=True)


@given(
    st.lists(
        st.fixed_dictionaries(
            {"interruptId": st.text(max_size=3), "status": st.text(max_size=9)}, optional={"payload": VALUES}
        )
    )
)
def test_any_answers_are_read_or_refused(entries):
    with contextlib.suppress(ProblemAnswer):
        read(INPUT | {"resume": entries})


def test_the_last_message_of_a_user_counts():
    more = [
        {"id": "a", "role": "assistant", "content": "What?"},
        {"id": "n", "role": "user", "content": "this"},
        {"id": "b", "role": "assistant", "content": "I was told to pay"},
    ]
    found = read(INPUT | {"messages": INPUT["messages"] + more})
    assert (found.text, found.told) == ("this", frozenset("manb"))
    assert found.key == read(INPUT | {"messages": more[1:2]}).key != read(INPUT).key


def test_the_key_of_a_message_is_short_however_long_its_id_is():
    found = read(INPUT | {"messages": [{"id": "m" * 100_000, "role": "user", "content": "x"}]})
    assert len(found.key) < 64


def test_a_thread_and_a_message_of_one_id_have_two_keys():
    assert agui.hash_id("thread", "x") != agui.hash_id("message", "x")


def test_a_fault_gives_its_place_and_not_the_value():
    with pytest.raises(ProblemAnswer) as caught:
        read(INPUT | {"messages": [{"id": "m", "role": "user", "content": {"secret": "word"}}]})
    told = caught.value.body.decode()
    assert "/messages/0" in told
    assert "secret" not in told


@pytest.mark.parametrize("decides", [True, False])
def test_an_abandoned_question_is_a_no_of_the_deciders(decides):
    found = read(INPUT | {"resume": [{"interruptId": "i", "status": "cancelled"}]}, decides=decides)
    assert [str(each.answer) for each in found.answers] == ["deny" if decides else "None"]
