"""Workers between two calls."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import anyio
import pytest

from agentserver.worker.pool import WorkerError, Workers

pytestmark = pytest.mark.anyio


@pytest.fixture
async def pool():
    return Workers(SimpleNamespace(warm=1, recycle=5, setup=SimpleNamespace(listener="walled")))


async def test_a_call_that_is_cancelled_while_its_worker_is_cleaned_gives_the_worker_back(pool):
    cleaning = asyncio.get_running_loop().create_future()
    worker = SimpleNamespace(has_ended=False, cleaning=cleaning)
    pool._idle.append(worker)
    call = asyncio.ensure_future(pool.exchange(None, None))
    await asyncio.sleep(0)
    assert pool._idle == []
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert pool._idle == [worker]
    assert not cleaning.cancelled(), "the folder is emptied all the same"
    cleaning.set_result(None)
    assert await pool._take_ready() is worker


async def test_one_whose_folder_cannot_be_emptied_is_not_called_again(pool, monkeypatch):
    cleaning = asyncio.get_running_loop().create_future()
    cleaning.set_exception(OSError("gone"))
    buried, fresh = [], SimpleNamespace()

    async def bury(worker):
        buried.append(worker)

    async def start():
        return fresh

    monkeypatch.setattr(pool, "_bury", bury)
    monkeypatch.setattr(pool, "_start", start)
    worker = SimpleNamespace(has_ended=False, cleaning=cleaning)
    pool._idle.append(worker)
    assert await pool._take_ready() is fresh
    assert buried == [worker]


async def given_up(call):
    """Let a call go as far as it gets by itself, and cancel it."""
    task = asyncio.ensure_future(call)
    await anyio.wait_all_tasks_blocked()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.fixture
def starts(pool, monkeypatch):
    """The workers that the pool starts, each ready when the event says so."""
    begun, ready = [], asyncio.Event()

    async def start():
        begun.append(SimpleNamespace(calls=0, scratch=None, has_ended=False, cleaning=None))
        worker = begun[-1]
        await ready.wait()
        return worker

    monkeypatch.setattr(pool, "_start", start)
    return begun, ready


async def test_a_process_that_a_late_call_began_to_start_serves_the_next_one(pool, starts):
    """On a busy machine a start takes longer than a call may: if each call restarted it, none would ever be answered."""
    begun, ready = starts
    async with anyio.create_task_group() as pool._group:
        await given_up(pool._take_ready())
        await given_up(pool._take_ready())
        third = asyncio.ensure_future(pool._take_ready())
        await anyio.wait_all_tasks_blocked()
        ready.set()
        assert [await third] == begun
    assert pool._idle == pool._ending == []


async def test_a_process_started_for_a_late_call_stays_warm(pool, starts):
    begun, ready = starts
    async with anyio.create_task_group() as pool._group:
        await given_up(pool._take_ready())
        ready.set()
    assert pool._idle == begun
    assert pool._ending == []


async def test_a_process_that_fails_to_start_after_its_call_was_abandoned_is_forgotten(
    pool, starts, monkeypatch
):
    async def fails():
        await starts[1].wait()
        raise WorkerError("no room")

    monkeypatch.setattr(pool, "_start", fails)
    async with anyio.create_task_group() as pool._group:
        await given_up(pool._take_ready())
        starts[1].set()
    assert pool._idle == pool._ending == []
