"""Principals share transactions."""

from __future__ import annotations

import asyncio

import pytest

from agentserver.engines.conformance.sample import keep
from agentserver.engines.conformance.suite import SampleConversation
from agentserver.engines.sqlite.turns import PRESENCE, SHARE, CommitQueue
from tests.engines.outcomes import Journal


def make_queue(at):
    return CommitQueue(lambda: at[0])


class CountedTime(float):
    """Time that counts how often it is compared."""

    compared = 0

    def __gt__(self, other):
        CountedTime.compared += 1
        return float(self) > other

    def __le__(self, other):
        CountedTime.compared += 1
        return float(self) <= other


def put(queue, principal, count):
    for number in range(count):
        queue.put(principal, (principal, number))


def test_a_principal_alone_fills_a_transaction():
    queue = make_queue([0.0])
    put(queue, "ann", 9 * SHARE)
    assert not queue.has_full_share()
    assert queue.take() == [("ann", number) for number in range(9 * SHARE)]
    assert (queue.count, queue.take()) == (0, [])


def test_of_several_principals_each_has_its_share_in_its_order():
    queue = make_queue([0.0])
    put(queue, "ann", 2 * SHARE + 1)
    put(queue, "bob", 1)
    assert queue.has_full_share()
    assert queue.take() == [*[("ann", number) for number in range(SHARE)], ("bob", 0)]
    assert [number for _, number in queue.take()] == [*range(SHARE, 2 * SHARE)]
    assert (queue.count, queue.take()) == (1, [("ann", 2 * SHARE)])


def test_one_step_each_of_many_principals_is_one_transaction():
    queue = make_queue([0.0])
    for number in range(5 * SHARE):
        put(queue, f"principal {number}", 1)
    assert not queue.has_full_share()
    assert len(queue.take()) == 5 * SHARE


def test_room_is_left_for_a_principal_that_was_just_there():
    at = [0.0]
    queue = make_queue(at)
    put(queue, "bob", 1)
    assert len(queue.take()) == 1
    put(queue, "ann", 2 * SHARE)
    assert len(queue.take()) == SHARE
    at[0] += PRESENCE
    put(queue, "ann", 2 * SHARE)
    assert len(queue.take()) == 3 * SHARE


def test_a_transaction_looks_at_no_principal_that_was_there_a_moment_ago():
    queue = make_queue([CountedTime(0.0)])
    for number in range(1000):
        put(queue, f"principal {number}", 1)
    assert len(queue.take()) == 1000
    put(queue, "ann", 1)
    before = CountedTime.compared
    assert queue.take() == [("ann", 0)]
    assert CountedTime.compared - before <= 1


def test_principals_are_present_from_their_latest_transaction_on():
    at = [0.0]
    queue = make_queue(at)
    put(queue, "bob", 1)
    put(queue, "cyd", 1)
    queue.take()
    at[0] += PRESENCE / 2
    put(queue, "bob", 1)
    queue.take()
    at[0] += PRESENCE / 2
    put(queue, "ann", 2 * SHARE)
    assert len(queue.take()) == SHARE, "bob is there, cyd is not"
    at[0] += PRESENCE / 2
    put(queue, "ann", 1)
    assert len(queue.take()) == SHARE + 1, "neither is there"


@pytest.mark.anyio
async def test_a_stranger_waits_for_a_share_of_those_before_it(tmp_path):
    flood = SampleConversation()
    async with Journal(tmp_path / "j")() as engine:
        ended = []
        outcomes = [flood.receive(flood.start("flood"), "1") for _ in range(64)]
        outcomes.append(flood.receive(flood.start("stranger"), "1"))
        commits = [asyncio.ensure_future(keep(engine, outcome)) for outcome in outcomes]
        for commit in commits:
            commit.add_done_callback(ended.append)
        await asyncio.gather(*commits)
    assert ended.index(commits[-1]) == SHARE
    assert [commit for commit in ended if commit is not commits[-1]] == commits[:-1]
