"""A task that is ended is done, also where a library has lost its cancellation."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

import pytest

from agentserver.supervision import cancel_and_wait

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("lost", range(4))
async def test_a_task_that_loses_cancellations_ends(lost):
    left = []

    async def work():
        for _ in range(lost):
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
        try:
            await asyncio.Event().wait()
        finally:
            left.append("tidied")

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    await cancel_and_wait([task], interval=0)
    assert task.cancelled()
    assert left == ["tidied"]


async def test_an_exception_at_the_end_of_a_task_is_neither_raised_nor_warned_about(caplog):
    async def work():
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    await cancel_and_wait([task])
    assert isinstance(task.exception(), ValueError)
    del task
    await asyncio.sleep(0)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_a_task_that_is_done_and_no_task_at_all_are_not_waited_for():
    done = asyncio.get_running_loop().create_future()
    done.set_result(1)
    await cancel_and_wait([])
    await cancel_and_wait([done])
    assert done.result() == 1
