"""Workers between two calls."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from agentserver.worker.pool import Workers

pytestmark = pytest.mark.anyio


@pytest.fixture
async def pool():
    return Workers(SimpleNamespace(warm=1))


async def test_a_call_that_is_cancelled_while_its_worker_is_cleaned_gives_the_worker_back(pool):
    cleaning = asyncio.get_running_loop().create_future()
    worker = SimpleNamespace(gone=False, cleaning=cleaning)
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
    assert await pool._ready() is worker


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
    worker = SimpleNamespace(gone=False, cleaning=cleaning)
    pool._idle.append(worker)
    assert await pool._ready() is fresh
    assert buried == [worker]
