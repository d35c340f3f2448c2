from __future__ import annotations

import asyncio
import threading

import anyio
import pytest

from agentserver import HandlerResponse
from agentserver.begun import begin
from agentserver.core.pieces import prepend_work, run_pieces
from agentserver.pump.schedule import ARRIVALS
from agentserver.pump.slices import PIECES, run_in_slices, run_shielded, run_uncancelled
from tests.core.paper import Answer, Ask, listener
from tests.pump.desk import desk, wait_until

pytestmark = pytest.mark.anyio


class Turns:
    """How often the event loop has come round."""

    def __init__(self):
        self.count = 0

    async def __aenter__(self):
        async def turn():
            while True:
                self.count += 1
                await asyncio.sleep(0)

        self.task = asyncio.create_task(turn())
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_):
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


def pieces(count):
    for _ in range(count):
        yield
    return count


async def test_the_event_loop_turns_between_pieces():
    async with Turns() as turns:
        before = turns.count
        assert await run_in_slices(pieces(10 * PIECES)) == 10 * PIECES
        assert turns.count - before >= 9


async def test_short_work_is_done_at_once():
    async with Turns() as turns:
        before = turns.count
        assert await run_in_slices(pieces(PIECES - 1)) == PIECES - 1
        assert turns.count == before


async def test_offered_work_is_done_by_a_thread_before_the_next_piece():
    done = []

    def work():
        done.append(threading.get_ident())

    def decide():
        yield
        return [*done]

    limiter = anyio.CapacityLimiter(1)
    async with Turns() as turns:
        before = turns.count
        found = await run_in_slices(prepend_work(work, decide()), limiter)
        assert turns.count > before
    assert len(found) == 1
    assert threading.get_ident() not in found
    assert run_pieces(prepend_work(work, decide())) == found
    assert await run_in_slices(prepend_work(work, decide())) == found


async def test_a_fan_out_lets_the_event_loop_turn_while_it_is_read_and_decided_about():
    async def send_many(payload, metadata):
        return [HandlerResponse(Ask(str(number)), "b") for number in range(800)]

    async def silent(payload, metadata):
        await anyio.sleep_forever()

    async with desk(
        (listener("a", "b"), send_many), (listener("b"), silent), payloads=(Answer,), drain=0.0
    ) as d:
        handle = await d.open()
        await d.send(handle, Ask("x"))
        async with Turns() as turns:
            await wait_until(lambda: d.pump._accounts.pending == 800)
            assert turns.count > 2 * 800 / PIECES


async def test_sending_without_a_pause_lets_the_event_loop_turn():
    async def quick(payload, metadata):
        return None

    async with desk((listener("a"), quick)) as d, Turns() as turns:
        handle = await d.open()
        before = turns.count
        for _ in range(50):
            await d.send(handle, Ask("x"))
        assert turns.count - before >= 50 // ARRIVALS


async def add_numbers(one, other, wait):
    await wait()
    return one + other


async def nothing():
    pass


async def test_work_that_does_not_wait_is_done_at_once():
    assert begin(add_numbers(1, 2, nothing)) == 3


@pytest.mark.parametrize("way", [run_shielded, run_uncancelled])
async def test_work_that_waits_is_done_later_even_by_another_task(way):
    gate = asyncio.get_running_loop().create_future()
    rest = begin(add_numbers(1, 2, lambda: gate))
    asyncio.get_running_loop().call_soon(gate.set_result, None)
    assert await way(rest) == 3


@pytest.mark.parametrize("way", [run_shielded, run_uncancelled])
async def test_work_that_fails_after_waiting_fails(way):
    async def raise_lookup():
        await asyncio.sleep(0)
        raise LookupError

    with pytest.raises(LookupError):
        await way(begin(raise_lookup()))
