"""The organism whose handler has processes of its own, killed together with them: run as a script it is the server.

It is given a folder, whether there is load, and a seed. It tells what the other one tells (``tests.crash.organism``), but
for what the handler does: that runs behind the wall. Under load it kills its own workers at random instants as well and
tells ``killed NUMBER`` of each.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from random import Random

import anyio

from agentserver import config
from agentserver.assembly import build
from tests.crash.organism import sent
from tests.machine import HANGS

WORDS = '''
from dataclasses import dataclass

from agentserver import xmlify


@xmlify
@dataclass(frozen=True)
class Tick:
    """One more."""

    number: int


@xmlify
@dataclass(frozen=True)
class Count:
    """How often the thread was here."""

    number: int
'''
HANDLER = """
import asyncio

from words_of_the_crash import Count, Tick

from agentserver import HandlerResponse, invocation


async def count(payload: Tick, metadata) -> HandlerResponse:
    storage = invocation().storage
    known = storage.get(Count)
    await asyncio.sleep(0.002)
    storage.set(Count(1 + (known.number if known else 0)))
    return HandlerResponse.respond(storage.get(Count))
"""
ORGANISM = """
name: walled
journal: {path: journal.sqlite}
limits: {drain: 50ms, principal_queue: 100000, principal_conversations: 100000}
listeners:
  - name: counter
    description: Counts.
    handler: counting_behind_the_wall.count
    payload_class: words_of_the_crash.Tick
    replies: words_of_the_crash.Count
    retries: 3
    concurrency: 2
    isolation: process
"""


def tell(*words):
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def lay_out(folder, organism=ORGANISM):
    (folder / "words_of_the_crash.py").write_text(WORDS)
    (folder / "counting_behind_the_wall.py").write_text(HANDLER)
    (folder / "organism.yaml").write_text(organism)


def load_folder(folder):
    return config.load(folder / "organism.yaml", environ={})


def workers():
    """The processes of this one's workers, the oldest first."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
            named = b"agentserver.worker" in (stat.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if named and int(fields[1]) == os.getpid():
            found.append((int(fields[19]), int(stat.parent.name)))
    return [pid for _, pid in sorted(found)]


async def murder(random, answers):
    """Kill the oldest worker now and then, each time after a few answers: three that die at their start would be the last."""
    while True:
        for _ in range(3):
            await answers.get()
        await asyncio.sleep(random.random() ** 2 * 0.1)
        while not answers.empty():
            answers.get_nowait()
        for pid in workers()[:1]:
            os.kill(pid, signal.SIGKILL)
            tell("killed", pid)


async def talk(server, random, answers):
    while True:
        handle = await server.open("crash")
        for number in range(random.randint(1, 6)):
            data = f'<Tick xmlns="urn:agentserver:payload:Tick:v1"><number>{number}</number></Tick>'.encode()
            if random.random() < 0.5:
                tell("accepted", await sent(handle, data, "counter"))
            else:
                async for reply in handle.replies(data, "counter"):
                    tell("accepted", reply.request)
                    tell("reply", reply.request, int(reply.redelivered))
                    answers.put_nowait(reply)
        handle.detach()


async def fetch(server):
    """Take what waits of before, as a gateway does that comes back."""
    for key in await server.left_over("crash"):
        handle = await server.resume("crash", key)
        for event in handle.iter_waiting():
            flag = int(event.redelivered)
            tell("reply" if hasattr(event, "message") else "ended", event.request, flag)
        handle.detach()


async def main(folder, load, seed):
    random = Random(seed)
    async with build(await anyio.to_thread.run_sync(load_folder, folder), durable=True) as server:
        tell("open")
        async with anyio.create_task_group() as tasks:
            if load:
                answers = asyncio.Queue()
                tasks.start_soon(murder, random, answers)
                for _ in range(8):
                    tasks.start_soon(talk, server, random, answers)
                await anyio.sleep_forever()
            await fetch(server)
            with anyio.fail_after(HANGS):
                await server._pump._accounts.idle.wait()
            await fetch(server)
            tell("rest")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2] == "load", sys.argv[3]))
