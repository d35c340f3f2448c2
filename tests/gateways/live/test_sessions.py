from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from agentserver.gateways.principals.sessions import EACH, LASTS, MOST, MemorySessions, Sessions
from tests.gateways.live.running import TOKENS, People
from tests.gateways.principals.people import ManualClock, caller

pytestmark = pytest.mark.anyio


@pytest.fixture
def clock():
    made = ManualClock()
    made.now = 0.0
    return made


@pytest.fixture
def people():
    return People()


@pytest.fixture
def store():
    return MemorySessions()


@pytest.fixture
def sessions(people, clock, store):
    ticks = count()
    return Sessions(people, store, now=clock, steady=lambda: next(ticks))  # each look is a read


async def known_caller(sessions, key):
    """The caller of a session, once it is read again."""
    await sessions.prepare(key)
    return sessions.caller(key)


async def test_a_session_is_its_callers_and_no_two_are_alike(sessions):
    one, found = await sessions.begin(TOKENS["operator"])
    other, _ = await sessions.begin(TOKENS["operator"])
    assert one != other
    assert len(one) == 43
    assert await known_caller(sessions, one) == await known_caller(sessions, other) == found


@pytest.mark.parametrize("key", ["", "x", "ö" * 43, "\ud800"])
async def test_an_invalid_session_belongs_to_nobody(sessions, key):
    assert await known_caller(sessions, key) is None
    assert await sessions.begin(key) is None


async def test_neither_tokens_nor_ids_are_kept(sessions, store):
    key, _ = await sessions.begin(TOKENS["viewer"])
    assert key not in repr(vars(store)["_open"].keys())


async def test_a_session_ends_by_itself_by_leaving_and_with_its_token(sessions, people, clock):
    key, _ = await sessions.begin(TOKENS["operator"])
    clock.now = LASTS - 1
    assert await known_caller(sessions, key) is not None
    clock.now = LASTS
    assert await known_caller(sessions, key) is None
    left, _ = await sessions.begin(TOKENS["operator"])
    await sessions.end(left)
    assert await known_caller(sessions, left) is None
    revoked, _ = await sessions.begin(TOKENS["operator"])
    del people.known[TOKENS["operator"]]
    assert await known_caller(sessions, revoked) is None


async def test_one_principal_has_so_many_at_once_and_all_have_so_many(sessions, store, people):
    first, _ = await sessions.begin(TOKENS["operator"])
    other, _ = await sessions.begin(TOKENS["viewer"])
    keys = [(await sessions.begin(TOKENS["operator"]))[0] for _ in range(EACH)]
    assert await known_caller(sessions, first) is None
    assert all([await known_caller(sessions, each) for each in [other, *keys]])
    for number in range(MOST):
        people.known[f"t{number}"] = replace(caller(f"p{number}"), grant=f"t{number}")
        await sessions.begin(f"t{number}")
    assert len(vars(store)["_open"]) <= MOST
    assert await known_caller(sessions, other) is None


async def test_expired_sessions_make_room(sessions, store, clock):
    for _ in range(EACH):
        await sessions.begin(TOKENS["operator"])
    clock.now = LASTS
    await sessions.begin(TOKENS["operator"])
    assert len(vars(store)["_open"]) == 1
