from __future__ import annotations

from dataclasses import replace

import pytest

from agentserver.gateways.live.pages import EACH, LASTS, MOST, Sessions
from tests.gateways.live.running import TOKENS, People
from tests.gateways.principals.people import caller


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def people():
    return People()


@pytest.fixture
def sessions(people, clock):
    return Sessions(people, clock)


def test_a_session_is_its_callers_and_no_two_are_alike(sessions):
    one, found = sessions.begin(TOKENS["operator"])
    other, _ = sessions.begin(TOKENS["operator"])
    assert one != other
    assert len(one) == 43
    assert sessions.caller(one) == sessions.caller(other) == found


@pytest.mark.parametrize("key", ["", "x", "ö" * 43, "\ud800"])
def test_what_is_no_session_is_nobodys(sessions, key):
    assert sessions.caller(key) is None
    assert sessions.begin(key) is None


def test_neither_tokens_nor_ids_are_kept(sessions):
    key, _ = sessions.begin(TOKENS["viewer"])
    assert key not in repr(vars(sessions)["_open"].keys())


def test_a_session_ends_by_itself_by_leaving_and_with_its_token(sessions, people, clock):
    key, _ = sessions.begin(TOKENS["operator"])
    clock.now = LASTS - 1
    assert sessions.caller(key) is not None
    clock.now = LASTS
    assert sessions.caller(key) is None
    left, _ = sessions.begin(TOKENS["operator"])
    sessions.end(left)
    assert sessions.caller(left) is None
    revoked, _ = sessions.begin(TOKENS["operator"])
    del people.known[TOKENS["operator"]]
    assert sessions.caller(revoked) is None


def test_one_principal_has_so_many_at_once_and_all_have_so_many(sessions, people, clock):
    first, _ = sessions.begin(TOKENS["operator"])
    other, _ = sessions.begin(TOKENS["viewer"])
    keys = [sessions.begin(TOKENS["operator"])[0] for _ in range(EACH)]
    assert sessions.caller(first) is None
    assert all(map(sessions.caller, [other, *keys]))
    for number in range(MOST):
        people.known[f"t{number}"] = replace(caller(f"p{number}"), grant=f"t{number}")
        sessions.begin(f"t{number}")
    assert len(vars(sessions)["_open"]) <= MOST
    assert sessions.caller(other) is None


def test_sessions_that_are_over_make_room(sessions, clock):
    for _ in range(EACH):
        sessions.begin(TOKENS["operator"])
    clock.now = LASTS
    sessions.begin(TOKENS["operator"])
    assert len(vars(sessions)["_open"]) == 1
