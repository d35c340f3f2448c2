"""The progress of listeners on its way to the calls of hosts, which share the queue of their conversation."""

from __future__ import annotations

import anyio
import pytest

from agentserver.core.messages import Progress
from agentserver.mcp.serving.calls import EARLY, ProgressRouter

pytestmark = pytest.mark.anyio


def early_progress(request, number):
    return [Progress("conversation", request, "listener", f"{request} {n}") for n in range(number)]


async def produce(words):
    for word in words:
        yield word


async def test_early_words_reach_their_call_while_others_take_the_places_they_had():
    hearing, told = ProgressRouter(), []
    await hearing.route(produce(early_progress("first", 2)), "other", told.append)

    async def tell(text):
        told.append(text)
        await hearing.route(produce(early_progress("second", EARLY)), "third", told.append)

    await hearing.route(produce([]), "first", tell)
    assert told == ["first 0", "first 1"]


async def test_a_repeated_call_keeps_its_progress_when_the_previous_one_ends():
    hearing, told, before = ProgressRouter(), [], anyio.CancelScope()
    sending, receiving = anyio.create_memory_object_stream[Progress](1)

    async def tell(text):
        told.append(text)

    async def cut_off():
        with before:
            await hearing.route(silence(), "first", told.append)

    async def silence():
        await anyio.sleep_forever()
        yield

    async with anyio.create_task_group() as tasks, sending, receiving:
        tasks.start_soon(cut_off)
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(hearing.route, receiving, "first", tell)
        await anyio.wait_all_tasks_blocked()
        before.cancel()
        await anyio.wait_all_tasks_blocked()
        await sending.send(*early_progress("first", 1))
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert told == ["first 0"]
