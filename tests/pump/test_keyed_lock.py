"""Those who want the same key go in one after another, and who gives up is passed over."""

from __future__ import annotations

import asyncio

import pytest

from agentserver.pump.schedule import KeyedLock
from tests.pump.desk import wait_until

pytestmark = pytest.mark.anyio


async def test_a_keyed_lock_admits_one_at_a_time_in_order_and_forgets_free_keys():
    alone, inside, order = KeyedLock(), [], []

    async def work(number):
        await alone.enter("ab"[number % 2])
        inside.append(number % 2)
        assert inside.count(number % 2) == 1
        order.append(number)
        await asyncio.sleep(0)
        inside.remove(number % 2)
        alone.leave("ab"[number % 2])

    await asyncio.gather(*(work(number) for number in range(10)))
    assert [number for number in order if not number % 2] == [0, 2, 4, 6, 8]
    assert [number for number in order if number % 2] == [1, 3, 5, 7, 9]
    assert alone.inside == {}


@pytest.mark.parametrize("late", [False, True])
async def test_who_gives_up_leaves_the_turn_to_the_next(late):
    alone, entered = KeyedLock(), []

    async def work(number):
        await alone.enter("a")
        entered.append(number)

    alone.take("a")
    tasks = [asyncio.create_task(work(number)) for number in range(3)]
    await wait_until(lambda: len(alone.inside["a"] or ()) == 3)
    if late:
        alone.leave("a")
    tasks[0].cancel()
    if not late:
        alone.leave("a")
    await wait_until(lambda: entered)
    assert entered == [1]
    alone.leave("a")
    await asyncio.gather(*tasks, return_exceptions=True)
    assert entered == [1, 2]
    alone.leave("a")
    assert alone.inside == {}
