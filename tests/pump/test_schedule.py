from __future__ import annotations

import asyncio
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.core.messages import Delivery
from agentserver.pump.schedule import ARRIVALS, SPELL, WOKEN, ArrivalQueue, RunQueue, Schedule, Ticket
from tests.pump.desk import wait_until

pytestmark = pytest.mark.anyio


BATCH = 4
"""Deliveries in a row for which the clock of these tests leaves time."""


def make_queue():
    """A queue for whose clock a delivery takes the same time, whoever else uses the machine."""
    return RunQueue((number * SPELL / BATCH for number in count(1)).__next__)


def ticket(number, to="a", conversation="c", principal="p"):
    return Ticket(principal, Delivery(str(number), conversation, "r", "t", "o", "s", to, "{n}x", b"", 1))


@given(st.lists(st.sampled_from(["put a", "put b", "done a", "done b"])))
def test_no_listener_runs_more_than_its_limit_and_everything_runs_in_order(script):
    limits = {"a": 1, "b": 2}
    running, started, put = {"a": 0, "b": 0}, {"a": [], "b": []}, {"a": [], "b": []}

    def hand_on(one):
        running[one.delivery.to] += 1
        assert running[one.delivery.to] <= limits[one.delivery.to]
        started[one.delivery.to].append(one.delivery.id)

    schedule = Schedule(limits, hand_on)
    for number, line in enumerate(script):
        verb, name = line.split()
        if verb == "put":
            put[name].append(str(number))
            schedule.put(ticket(number, name))
        elif running[name]:
            running[name] -= 1
            schedule.release(name)
    for name in limits:
        while running[name]:
            running[name] -= 1
            schedule.release(name)
        assert started[name] == put[name]


async def test_a_worker_that_comes_back_takes_the_next_without_waking_another():
    turns = make_queue()
    woken = []

    async def worker(name):
        while True:
            one = await turns.take()
            woken.append((name, one.id))
            if one.id != str(BATCH - 1):
                turns.put(ticket(int(one.id) + 1))

    tasks = [asyncio.create_task(worker(name)) for name in "xyz"]
    await asyncio.sleep(0)
    turns.put(ticket(0))
    while len(woken) < BATCH:  # noqa: ASYNC110 - the workers never end
        await asyncio.sleep(0)
    assert [one for _, one in woken] == [str(n) for n in range(BATCH)]
    assert len({name for name, _ in woken}) == 1
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_as_many_workers_as_deliveries_are_woken():
    turns = make_queue()
    held = asyncio.Event()
    taken = []

    async def worker():
        taken.append((await turns.take()).id)
        await held.wait()

    tasks = [asyncio.create_task(worker()) for _ in range(4)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    for number in range(3):
        turns.put(ticket(number))
    for _ in range(9):
        await asyncio.sleep(0)
    assert sorted(taken) == ["0", "1", "2"]
    held.set()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_workers_that_do_not_come_back_leave_nothing_waiting():
    turns = make_queue()
    held = asyncio.Event()
    taken = []

    async def worker():
        taken.append((await turns.take()).id)
        await held.wait()

    tasks = [asyncio.create_task(worker()) for _ in range(5 * WOKEN)]
    await asyncio.sleep(0)
    for number in range(5 * WOKEN - 1):
        turns.put(ticket(number))
    await wait_until(lambda: len(taken) == 5 * WOKEN - 1)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_long_chain_lets_the_event_loop_turn():
    turns = make_queue()
    others = 0

    async def other():
        nonlocal others
        while True:
            others += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    for number in range(4 * BATCH):
        turns.put(ticket(number))
        await turns.take()
    assert others >= 3
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_worker_takes_a_delivery_though_each_turn_of_the_loop_takes_a_spell():
    turns = RunQueue((number * SPELL for number in count(1)).__next__)
    taking = asyncio.create_task(turns.take())
    for number in range(20):  # a gateway that sends without a pause
        turns.put(ticket(number))
        await asyncio.sleep(0)
    assert taking.done()
    assert (await taking).id == "0"


async def test_a_parked_stranger_goes_before_the_rest_of_a_fan_out():
    started = []
    schedule = Schedule({"a": 1}, started.append)
    for number in range(800):
        schedule.put(ticket(number, principal="flood", conversation=f"c{number % 3}"))
    schedule.put(ticket("stranger", principal="other", conversation="d"))
    for _ in range(2):
        schedule.release("a")
    assert "stranger" in [one.delivery.id for one in started]


async def test_a_ready_stranger_goes_before_the_rest_of_a_fan_out():
    turns = make_queue()
    for number in range(800):
        turns.put(ticket(number, conversation="flood"))
    turns.put(ticket("stranger", conversation="d"))
    assert "stranger" in [(await turns.take()).id for _ in range(2)]


async def test_everybody_comes_in_and_principals_take_turns_at_the_door():
    queue = ArrivalQueue()
    entered = []

    async def enter(principal, number):
        await queue.enter(principal, f"{principal} {number}")
        entered.append(principal)

    tasks = [asyncio.create_task(enter("flood", number)) for number in range(10 * ARRIVALS)]
    await asyncio.sleep(0)
    tasks.append(asyncio.create_task(enter("stranger", 0)))
    tasks[1].cancel()  # the first has not had to wait
    await asyncio.gather(*tasks, return_exceptions=True)
    assert entered.index("stranger") <= 3 * ARRIVALS
    assert len(entered) == 10 * ARRIVALS


async def test_whoever_enters_without_a_pause_lets_the_event_loop_turn():
    queue, others = ArrivalQueue(), 0

    async def other():
        nonlocal others
        while True:
            others += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    for _ in range(21):
        await queue.enter("p", "c")
    assert others >= 20, "only the first has not waited"
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_nobody_overtakes_a_message_that_waits_for_its_turn():
    queue, entered = ArrivalQueue(), []

    async def enter(number):
        await queue.enter("p", "c")
        entered.append(number)

    async def enter_later(number):
        await asyncio.sleep(0)
        await enter(number)

    await asyncio.gather(enter(0), enter_later(2), enter(1))
    assert entered == [0, 1, 2]


async def test_nobody_overtakes_a_message_whose_turn_has_come():
    entered, later = [], []

    async def enter(number):
        await queue.enter("p", "c")
        entered.append(number)

    class Opening(ArrivalQueue):
        """Queue to which a message comes between the turn of the last ones and their return."""

        def _open(self):
            if self._waiters.count <= ARRIVALS:
                later.append(asyncio.create_task(enter("late")))
            super()._open()

    queue = Opening()
    await asyncio.gather(*[enter(number) for number in range(3 * ARRIVALS + 1)])
    await asyncio.gather(*later)
    assert entered == [*range(3 * ARRIVALS + 1), "late"]
