"""An end that comes from what the server runs is known from one that somebody asked for."""

from __future__ import annotations

import ast
import asyncio
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from agentserver.pump.poison_search import mark_requested_end
from tests.pump.test_poison_search import NotedMarks

ROOT = Path(__file__).parents[2]

SERVER = """
import asyncio, multiprocessing, os, sys, time
from pathlib import Path
import anyio
from agentserver.engines.sqlite.file import JournalOptions
from agentserver.engines.sqlite.engine import SqliteEngine
from tests.core.paper import Ask, listener
from tests.pump.desk import answer, desk, wait_until

async def leave():
    raise SystemExit(3)

def fail():
    raise SystemExit(3)

def every(*spared):
    for task in asyncio.all_tasks().difference(spared):
        task.cancel()

def parted():
    multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,)).start()
    os._exit(3)

def astray():
    if not os.fork():
        raise ValueError("in the copy")

ENDS = {
    "a task leaves": lambda: asyncio.create_task(leave()),
    "a callback leaves": lambda: asyncio.get_running_loop().call_soon(fail),
    "the loop is stopped": lambda: asyncio.get_running_loop().stop(),
    "all is cancelled": every,
    "all else is cancelled": lambda: every(asyncio.current_task()),
    "a copy lives on": parted,
    "a copy comes back": astray,
}

async def evil(payload, metadata):
    if payload.text == "evil":
        reached.set()
        ENDS[end]()
    elif first:
        await reached.wait()  # however slowly it is sent, it ends the server while they run
    await anyio.sleep(0.1)
    return await answer(payload, metadata)

async def main(place):
    async with SqliteEngine(JournalOptions(place)) as engine:
        async with desk((listener("a", concurrency=3), evil), engine=engine, fatal_ends=1) as d:
            if first:
                handle = await d.open()
                for text in ("good", "fine", "evil"):
                    await handle.send(d.markup(Ask(text)), "a")
            await wait_until(lambda: d.pump._accounts.idle.is_set())
            if first:
                handle.detach()
            (key,) = await d.pump.conversations_of("console")
            handle = await d.pump.resume("console", key)
            told = [event.message for event in handle.iter_waiting() if hasattr(event, "message")]
            place.with_name("told").write_bytes(b"".join(told))

def serve(place):
    \"\"\"Run a server in a fork of this process, and return its exit code.\"\"\"
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 1
    try:
        asyncio.run(main(place))
        code = 0
    except SystemExit as left:
        code = left.code
    finally:
        os._exit(code)

for end in ENDS:
    place, codes = Path(sys.argv[1]) / end / "j", []
    place.parent.mkdir()
    while not codes or (codes[-1] and len(codes) < 8):
        first, reached = not place.exists(), asyncio.Event()
        codes.append(serve(place))
    place.with_name("codes").write_text(repr(codes))
"""
"""Starts servers on a journal until one ends in good order, for each end in turn. A fork repeats no imports."""


@pytest.fixture(scope="module")
def ended_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ends")
    quiet = subprocess.DEVNULL
    subprocess.run(
        [sys.executable, "-c", SERVER, str(folder)], cwd=ROOT, check=True, stdout=quiet, stderr=quiet
    )
    return folder


@pytest.mark.parametrize(
    ("end", "starts"),
    [
        ("a task leaves", 3),
        ("a callback leaves", 3),
        ("the loop is stopped", 3),
        ("all is cancelled", 3),
        ("all else is cancelled", 3),
        ("a copy lives on", 3),
        ("a copy comes back", 1),
    ],
)
def test_who_ends_the_server_in_good_order_is_given_up_and_the_others_are_answered(ended_folder, end, starts):
    codes = ast.literal_eval((ended_folder / end / "codes").read_text())
    told = (ended_folder / end / "told").read_text()
    assert len(codes) == starts, codes
    assert "re: good" in told
    assert "re: fine" in told
    assert ("internal" in told) == (starts > 1)


async def cancelled_by_a_group(within):
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(within)
        await asyncio.sleep(0)
        tasks.cancel_scope.cancel()


async def cancelled_alone(within):
    task = asyncio.create_task(within())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])


@pytest.mark.anyio
@pytest.mark.parametrize("cancel", [cancelled_by_a_group, cancelled_alone])
async def test_whoever_is_around_a_server_may_cancel_it(cancel):
    marks = NotedMarks()

    async def run_within():
        with anyio.CancelScope() as work, mark_requested_end(marks, work):
            await asyncio.Event().wait()

    await cancel(run_within)
    assert marks.asked


@pytest.mark.anyio
@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
async def test_a_part_inside_may_request_the_end(error):
    marks = NotedMarks()
    with suppress(error), mark_requested_end(marks, anyio.CancelScope()):
        raise error
    assert marks.asked


@pytest.mark.anyio
async def test_a_worker_that_fails_is_no_end_that_was_asked_for():
    marks = NotedMarks()

    async def raise_memory_error():
        raise MemoryError

    with suppress(ExceptionGroup):
        async with anyio.create_task_group() as tasks:
            with mark_requested_end(marks, tasks.cancel_scope):
                tasks.start_soon(raise_memory_error)
                await asyncio.Event().wait()
    assert not marks.asked
