from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.pump.schedule import Rounds

OWNERS = st.tuples(st.sampled_from("pqr"), st.sampled_from("abc"))


@given(st.lists(st.one_of(OWNERS, st.none())))
def test_nothing_is_lost_and_each_conversation_keeps_its_order(script):
    rounds, put, taken = Rounds(), [], []
    for number, line in enumerate(script):
        if line is not None:
            rounds.put(*line, (*line, number))
            put.append((*line, number))
        elif rounds:
            taken.append(rounds.take())
        assert len(rounds) == len(put) - len(taken)
    while rounds:
        taken.append(rounds.take())
    assert sorted(taken) == sorted(put)
    for owner in {one[:2] for one in put}:
        assert [one for one in taken if one[:2] == owner] == [one for one in put if one[:2] == owner]


@given(st.lists(OWNERS, min_size=1))
def test_nobody_is_served_twice_while_another_waits(owners):
    rounds = Rounds()
    for owner in owners:
        rounds.put(*owner, owner)
    waited = dict.fromkeys((principal for principal, _ in owners), 0)
    left = list(owners)
    while rounds:
        principal, conversation = rounds.take()
        left.remove((principal, conversation))
        for other in {other for other, _ in left} - {principal}:
            waited[other] += 1
            assert waited[other] < len(waited)
        waited[principal] = 0


def test_one_of_a_thousand_conversations_counts_as_much_as_another_principals_only_one():
    rounds = Rounds()
    for number in range(1000):
        rounds.put("many", f"c{number}", "many")
    for _ in range(3):
        rounds.put("one", "d", "one")
    assert [rounds.take() for _ in range(6)] == ["many", "one"] * 3


def test_an_empty_queue_gives_nothing():
    with pytest.raises(LookupError):
        Rounds().take()
