from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.core.messages import Delivery
from agentserver.pump.schedule import STRETCH, Schedule, Turns

pytestmark = pytest.mark.anyio


def delivery(number, to="a"):
    return Delivery(str(number), "c", "r", "t", "o", "s", to, "{n}x", b"", 1)


@given(st.lists(st.sampled_from(["put a", "put b", "done a", "done b"])))
def test_no_listener_runs_more_than_its_limit_and_everything_runs_in_order(script):
    limits = {"a": 1, "b": 2}
    running, started, put = {"a": 0, "b": 0}, {"a": [], "b": []}, {"a": [], "b": []}

    def hand_on(one):
        running[one.to] += 1
        assert running[one.to] <= limits[one.to]
        started[one.to].append(one.id)

    schedule = Schedule(limits, hand_on)
    for number, line in enumerate(script):
        verb, name = line.split()
        if verb == "put":
            put[name].append(str(number))
            schedule.put(delivery(number, name))
        elif running[name]:
            running[name] -= 1
            schedule.done(name)
    for name in limits:
        while running[name]:
            running[name] -= 1
            schedule.done(name)
        assert started[name] == put[name]


async def test_a_worker_that_comes_back_takes_the_next_without_waking_another():
    turns = Turns()
    woken = []

    async def worker(name):
        while True:
            one = await turns.take()
            woken.append((name, one.id))
            if one.id != "9":
                turns.put(delivery(int(one.id) + 1))

    tasks = [asyncio.create_task(worker(name)) for name in "xyz"]
    await asyncio.sleep(0)
    turns.put(delivery(0))
    while len(woken) < 10:  # noqa: ASYNC110 - the workers never end
        await asyncio.sleep(0)
    assert [one for _, one in woken] == [str(n) for n in range(10)]
    assert len({name for name, _ in woken}) == 1
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_as_many_workers_as_deliveries_are_woken():
    turns = Turns()
    held = asyncio.Event()
    taken = []

    async def worker():
        taken.append((await turns.take()).id)
        await held.wait()

    tasks = [asyncio.create_task(worker()) for _ in range(4)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    for number in range(3):
        turns.put(delivery(number))
    for _ in range(3):
        await asyncio.sleep(0)
    assert sorted(taken) == ["0", "1", "2"]
    held.set()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_long_chain_lets_the_event_loop_turn():
    turns = Turns()
    others = 0

    async def other():
        nonlocal others
        while True:
            others += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    for number in range(4 * STRETCH):
        turns.put(delivery(number))
        await turns.take()
    assert others >= 3
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
