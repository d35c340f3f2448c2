"""One server of the cluster that is killed: run as a script with URL, name, folder, seed and seconds of its lease.

It tells what the other one tells (``tests.crash.organism``), and beside it ``holds TIME PARTITIONS`` whenever what it may
work on has changed. Its senders are a principal of its own, so that it fetches what is its own when it comes back,
whoever has the conversations by then. It is told on standard input, a word a line: ``hush`` lets its senders end the
conversations that they hold (``hushed`` when none waits any more), ``rest`` has it wait until nothing is at work, fetch
what is left and tell ``rest``; it ends with its input.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import time
from functools import partial
from pathlib import Path
from random import Random
from types import AsyncGeneratorType

import anyio

from agentserver.broker.address import BrokerAddress
from agentserver.engines.nats.log import LogOptions, NatsLog
from agentserver.engines.replica.engine import ReplicaEngine
from agentserver.ports import EngineError
from tests.crash.organism import SHOP, Diary, Person, fetch_one, pump, talk_once, tell, unheard

TALKERS = 8
STEPS = {"async_generator_asend", "async_generator_athrow"}
"""Of a generator, which they do not tell themselves."""


def engine_of(url, folder, lease):
    log = NatsLog(LogOptions("crash", BrokerAddress(url, replicas=3), lease=lease, relaxed=True))
    return ReplicaEngine(log, folder, "crash", SHOP.guards)


class Telling:
    """An engine that tells what it may work on; everything else is the engine's."""

    def __init__(self, engine):
        self._engine = engine

    def __getattr__(self, name):
        return getattr(self._engine, name)

    async def __aenter__(self):
        await self._engine.__aenter__()
        return self

    async def __aexit__(self, *error):
        return await self._engine.__aexit__(*error)

    async def shares(self):
        async for held in self._engine.shares():
            tell("holds", f"{time.time():.3f}", ",".join(str(share.partition) for share in held) or "-")
            yield held


async def again(work, hushed):
    """Do something as long as it is refused: there is no broker, or a conversation is moving."""
    while True:
        try:
            return await work()
        except (RuntimeError, LookupError, EngineError) as error:
            tell("refused", type(error).__name__)
            await asyncio.sleep(0.05)
            if hushed is not None and hushed.is_set():
                return None


async def talk(server, random, number, diary, sender, hushed):
    """Hold conversations until it is told to hush."""
    while not hushed.is_set():
        await again(partial(talk_once, server, random, number, diary, sender), hushed)


async def fetch(server, diary, sender):
    """Take what waits of before, in each conversation."""
    keys = await again(partial(server.conversations_of, sender), None)
    async with anyio.create_task_group() as tasks:
        for key in keys:
            tasks.start_soon(again, partial(fetch_of, server, diary, key, sender), None)


async def fetch_of(server, diary, key, sender):
    """Take what waits in one conversation. One that was closed has nothing once that it was acknowledged is known."""
    if key in await server.conversations_of(sender):
        await fetch_one(server, diary, key, sender)


async def words(hushed, resting):
    """What the harness says."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    while line := await reader.readline():
        {b"hush\n": hushed, b"rest\n": resting}[line].set()


def show_tasks():
    """Write to standard error where each task stands. Whoever wonders what a server waits for sends it SIGUSR1."""
    for task in asyncio.all_tasks():
        lines, coroutine = [], task.get_coro()
        while coroutine is not None:
            generators = [one for one in gc.get_referents(coroutine) if isinstance(one, AsyncGeneratorType)]
            coroutine = generators[0] if type(coroutine).__name__ in STEPS and generators else coroutine
            frame = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "ag_frame", None)
            code = None if frame is None else frame.f_code
            at = (
                type(coroutine).__name__
                if code is None
                else f"{Path(code.co_filename).name}:{frame.f_lineno}"
            )
            lines.append(at if code is None else f"{at} {code.co_name}")
            coroutine = getattr(coroutine, "cr_await", None) or getattr(coroutine, "ag_await", None)
        print(" < ".join(reversed(lines)), file=sys.stderr)  # noqa: T201
    print("--", file=sys.stderr, flush=True)  # noqa: T201


async def come_to_rest(server, diary, sender):
    """Wait until nothing is at work here, and fetch what is left; others may still hand something in.

    What a sender was refused may have been decided all the same: who has not heard sends it again.
    """
    diary.unheard = unheard(diary.path)
    await fetch(server, diary, sender)
    await server._accounts.rest.wait()
    while server.approvals() or server._accounts.pending:  # noqa: ASYNC110 - two things to wait for
        await asyncio.sleep(0.01)
    await fetch(server, diary, sender)
    tell("rest")


async def main(url, name, folder, seed, lease):
    random, person, sender = Random(seed), Person(), f"crash-{name}"
    hushed, resting, diary = asyncio.Event(), asyncio.Event(), Diary(folder / f"{name}.diary")
    engine = Telling(engine_of(url, folder / name, lease))
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, show_tasks)
    async with engine, pump(engine, person) as server, anyio.create_task_group() as tasks:
        tasks.start_soon(person.answer, server)
        tasks.start_soon(words_then_end, hushed, resting, tasks)
        tell("open")
        async with anyio.create_task_group() as talkers:
            talkers.start_soon(fetch, server, diary, sender)
            for number in range(TALKERS):
                talkers.start_soon(talk, server, random, number, diary, sender, hushed)
        tell("hushed")
        await resting.wait()
        await come_to_rest(server, diary, sender)


async def words_then_end(hushed, resting, tasks):
    await words(hushed, resting)
    tasks.cancel_scope.cancel()


if __name__ == "__main__":
    os.environ.pop("CI", None)
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4], float(sys.argv[5])))
