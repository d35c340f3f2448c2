"""Shares of the event loop: which principal's request runs next. The clock is the test's: work states its cost."""

from __future__ import annotations

from itertools import pairwise

import anyio
import anyio.lowlevel
import pytest

from agentserver.gateways.http.shares import BYTE, FORGET, SLICE, LoopShares

pytestmark = pytest.mark.anyio


class Machine:
    """A processor whose time passes when work says so, with the order in which it was used."""

    def __init__(self):
        self.now, self.order = 0.0, []

    async def work(self, name, steps, seconds):
        """Use so many seconds in each of some steps, with a pause after each."""
        for _ in range(steps):
            self.now += seconds
            self.order.append(name)
            await anyio.lowlevel.checkpoint()


async def run(share, work):
    await share.run(work)


@pytest.fixture
def machine():
    return Machine()


@pytest.fixture
def shares(machine):
    return LoopShares(lambda: machine.now)


async def test_a_light_principal_waits_for_one_step_of_a_heavy_one_however_many_it_has(machine, shares):
    async with anyio.create_task_group() as tasks:
        for _ in range(50):
            tasks.start_soon(run, shares.find("heavy"), machine.work("heavy", 4, 0.1))
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        begun = len(machine.order)
        tasks.start_soon(run, shares.find("light"), machine.work("light", 10, 0.001))
    lights = [at for at, name in enumerate(machine.order) if name == "light"]
    assert machine.order.count("heavy") == 200
    assert lights[0] <= begun + 2
    assert max(after - before for before, after in pairwise(lights)) <= 2


async def test_principals_that_want_more_than_there_is_get_equal_time_and_not_equal_requests(machine, shares):
    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(run, shares.find("long"), machine.work("long", 25, 0.1))
            tasks.start_soon(run, shares.find("short"), machine.work("short", 250, 0.01))
    both = machine.order[: machine.order.index("long", 300)]
    assert abs(both.count("long") * 0.1 - both.count("short") * 0.01) <= 0.2
    assert both.count("short") > 5 * both.count("long")


async def test_bytes_that_are_read_count_as_time(machine, shares):
    size = int(0.1 / BYTE)

    async def read(name):
        for _ in range(20):
            shares.find(name).count_read(size)
            await machine.work(name, 1, 0.0)

    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(run, shares.find("reader"), read("reader"))
            tasks.start_soon(run, shares.find("other"), machine.work("other", 100, 0.01))
    assert shares.find("reader").read == 80 * size
    first = machine.order[:100]
    assert first.count("other") >= 5 * first.count("reader")


async def test_a_principal_that_was_away_has_saved_no_time(machine, shares):
    await shares.find("busy").run(machine.work("busy", 100, 0.1))
    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(run, shares.find("busy"), machine.work("busy", 10, 0.1))
            tasks.start_soon(run, shares.find("away"), machine.work("away", 10, 0.1))
    first = machine.order[100:120]
    assert abs(first.count("busy") - first.count("away")) <= 2


async def test_a_sole_principal_does_not_wait_while_a_round_has_time(shares):
    assert shares.turn(shares.find("ada")) is None
    shares.charge(shares.find("ada"), SLICE / 2)
    assert shares.turn(shares.find("ada")) is None
    shares.charge(shares.find("ada"), SLICE / 2)
    waits = shares.turn(shares.find("ada"))
    assert waits is not None
    await waits


async def test_work_cancelled_while_waiting_cleans_up_and_the_rest_continues(machine, shares):
    cleaned = []

    async def cancelled():
        try:
            await machine.work("cancelled", 100, 0.1)
        finally:
            cleaned.append(True)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run, shares.find("ada"), machine.work("ada", 20, 0.1))
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as inner:
                inner.start_soon(run, shares.find("bob"), cancelled())
                for _ in range(5):
                    await anyio.lowlevel.checkpoint()
                scope.cancel()
    assert cleaned
    assert machine.order.count("ada") == 20
    assert 0 < machine.order.count("cancelled") < 100


async def test_work_gives_its_result_and_raises_its_error(shares):
    async def answer():
        await anyio.lowlevel.checkpoint()
        return 42

    async def fail():
        await anyio.lowlevel.checkpoint()
        raise KeyError("name")

    assert await shares.find("ada").run(answer()) == 42
    with pytest.raises(KeyError):
        await shares.find("ada").run(fail())


async def test_principals_that_owe_nothing_are_forgotten(shares):
    shares.find("present").present = 1
    for number in range(2 * FORGET):
        shares.find(str(number))
    assert len(shares) <= FORGET + 1
    assert shares.find("present").present == 1
