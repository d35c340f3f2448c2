"""Helpers and errands: none ends unseen, and each end has the consequence that its name states."""

from __future__ import annotations

import asyncio
import threading

import anyio
import pytest
from anyio.lowlevel import checkpoint

from agentserver import supervision
from agentserver.supervision import (
    EndEffect,
    HelperError,
    run_errand,
    start_errand,
    start_helper,
    start_thread,
)
from tests.helpers import Killed, helper, kill
from tests.machine import HANGS

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def restart_soon(monkeypatch):
    monkeypatch.setattr(supervision, "SOONEST", 0.001)


def ending_messages(caplog):
    return [each.getMessage() for each in caplog.records if each.name == "agentserver.helpers"]


async def return_soon():
    await checkpoint()


async def raise_killed():
    await checkpoint()
    raise Killed


async def run_forever():
    await anyio.sleep_forever()


@pytest.mark.parametrize(("work", "what"), [(return_soon, "returned"), (raise_killed, "ended with Killed")])
@pytest.mark.parametrize("ending", [EndEffect.SERVER, EndEffect.OWNER])
async def test_the_end_of_a_helper_ends_its_owner(work, what, ending):
    with pytest.raises(BaseExceptionGroup) as raised:
        async with anyio.create_task_group() as tasks:
            start_helper(tasks, "works", ending, work)
            await anyio.sleep_forever()
    (error,) = raised.value.exceptions
    told = error.__notes__ if isinstance(error, Killed) else [str(error)]
    assert told == [f"the helper that works {what}; {ending.value}"]


async def test_one_that_is_cancelled_by_anybody_but_its_owner_has_ended():
    with pytest.raises(BaseExceptionGroup) as raised:
        async with anyio.create_task_group() as tasks:
            start_helper(tasks, "works", EndEffect.SERVER, run_forever)
            await anyio.wait_all_tasks_blocked()
            helper("works").cancel()
            await anyio.sleep_forever()
    (error,) = raised.value.exceptions
    assert isinstance(error, HelperError)
    assert str(error) == "the helper that works ended with CancelledError; the server ends"


async def test_one_that_its_owner_cancels_ends_quietly(caplog):
    async with anyio.create_task_group() as tasks:
        for ending in EndEffect:
            start_helper(tasks, f"works {ending}", ending, run_forever)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert ending_messages(caplog) == []


@pytest.mark.parametrize("how", [kill, asyncio.Task.cancel])
async def test_a_helper_is_restarted_without_effect_on_others(caplog, how):
    begun = []

    async def work():
        begun.append(1)
        await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        start_helper(tasks, "works", EndEffect.RESTART, work)
        for count in range(1, 4):
            with anyio.fail_after(HANGS):
                while len(begun) < count:  # noqa: ASYNC110 - a pause of its own
                    await anyio.sleep(0.001)
            await anyio.wait_all_tasks_blocked()
            how(helper("works"))
        tasks.cancel_scope.cancel()
    assert len(ending_messages(caplog)) >= 2


async def test_the_pauses_grow_to_a_limit():
    pauses = [supervision._compute_pause(failures) for failures in range(2000)]
    assert pauses == sorted(pauses)
    assert pauses[-1] == supervision.LATEST


async def test_the_consequence_may_be_the_owners_own(caplog):
    told = []

    async def end(reason):
        told.append(reason)

    async with anyio.create_task_group() as tasks:
        start_helper(tasks, "works", EndEffect.LISTENER, raise_killed, end)
    assert (
        told
        == ending_messages(caplog)
        == ["the helper that works ended with Killed; its listener answers internal"]
    )


async def test_an_errand_may_return_and_may_not_fail_unseen(caplog):
    async with anyio.create_task_group() as tasks:
        start_errand(tasks, "fetches", EndEffect.OWNER, return_soon)
    assert ending_messages(caplog) == []
    with pytest.raises(BaseExceptionGroup):
        async with anyio.create_task_group() as tasks:
            start_errand(tasks, "fetches", EndEffect.OWNER, raise_killed)


async def test_an_errand_that_nobody_awaits_is_seen_to_fail(caplog):
    task = run_errand(raise_killed(), "fetches")
    await asyncio.wait((task,))
    await anyio.wait_all_tasks_blocked()
    assert ending_messages(caplog) == ["the errand that fetches ended with Killed"]


async def test_an_errand_that_answers_by_raising_is_no_failure(caplog):
    with pytest.raises(Killed):
        await run_errand(raise_killed(), "fetches", (Killed,))
    cancelled = run_errand(run_forever(), "waits")
    cancelled.cancel()
    await asyncio.wait((cancelled,))
    assert ending_messages(caplog) == []


def test_a_thread_is_started_again_or_has_its_consequence(caplog):
    runs, over, told = [], threading.Event(), []

    def work():
        runs.append(1)
        if len(runs) < 3:
            raise Killed
        over.set()

    start_thread("counts", EndEffect.RESTART, work).join(HANGS)
    assert over.is_set()
    assert told == []
    runs.clear()
    start_thread("counts", EndEffect.SERVER, work, told.append).join(HANGS)
    assert told == ["the helper that counts ended with Killed; the server ends"]
    assert len(ending_messages(caplog)) == 3
