"""Three servers that a message ends one after the other, over a real broker, until it is given up."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from agentserver.broker.address import BrokerAddress
from agentserver.core.blueprint import Listener
from agentserver.core.records.audit import Event
from agentserver.engines.nats.log import LogOptions, NatsLog
from agentserver.engines.nats.members import weight
from agentserver.engines.replica.engine import ReplicaEngine
from agentserver.engines.replica.log import PARTITIONS
from tests.brokers import one
from tests.core.paper import Note
from tests.pump.desk import answer, desk

DIED = 66

FATAL = 3

SERVERS = ("p0", "p1", "p2")

INNOCENT = [str(number) for number in range(8)]

A = Listener("a", (Note,), "answers", concurrency=4)


def tell(text):
    os.write(sys.stdout.fileno(), f"{text}\n".encode())


async def handler(payload, metadata):
    if payload.text == "poison":
        tell("ends")
        os._exit(DIED)  # at once: nothing could have been written of it
    tell(f"served {payload.text}")
    return await answer(payload, metadata)


def due(name):
    """The partitions that fall to one of the first three servers."""
    return {one for one in range(PARTITIONS) if name == max(SERVERS, key=lambda other: weight(other, one))}


async def serve(url, folder, name):
    """One server, until it is ended. The first has the innocent served, and then sends the poison."""
    log = NatsLog(LogOptions("poison", BrokerAddress(url), lease=1.2, relaxed=True))
    log.name = name
    async with (
        ReplicaEngine(log, Path(folder) / name, "poison") as engine,
        desk((A, handler), engine=engine, fatal_ends=FATAL) as mine,
    ):
        if name in SERVERS:
            async for held in engine.shares():
                if {share.partition for share in held} == due(name):
                    break
            tell("settled")
        if name == SERVERS[0]:
            await asyncio.to_thread(sys.stdin.readline)
            handles = [await mine.open() for _ in [*INNOCENT, "poison"]]
            for handle, text in zip(handles, [*INNOCENT, "poison"], strict=True):
                if text == "poison":
                    await mine.send(handle, Note(text))
                else:
                    assert await mine.ask(Note(text), handle=handle)
        while not any(record.event is Event.FAILED for record in mine.records):  # noqa: ASYNC110 - records have no event
            await asyncio.sleep(0.01)
        tell("given up")
        assert await mine.ask(Note("after"))
        await asyncio.Event().wait()


class Supervisor:
    """Three servers of one organism; another one is started for each that ends."""

    def __init__(self, url, folder):
        self.line = [sys.executable, "-W", "ignore", "-m", __name__, url, str(folder)]
        self.ends, self.said, self.first = [], b"", None
        self.tasks = anyio.create_task_group()

    async def run(self, number):
        command = [*self.line, f"p{number}"]
        async with await anyio.open_process(command, stderr=subprocess.DEVNULL) as process:
            if number == 0:
                self.first = process
            async for data in process.stdout:
                await self.heard(data)
            self.ends.append(await process.wait())
        self.tasks.start_soon(self.run, number + len(SERVERS))

    async def heard(self, data):
        settled = self.said.count(b"settled\n")
        self.said += data
        if settled < len(SERVERS) == self.said.count(b"settled\n"):
            await self.first.stdin.send(b"go\n")
        if b"served after" in self.said:
            self.tasks.cancel_scope.cancel()


@pytest.mark.anyio
async def test_a_message_that_ends_its_server_is_given_up_after_so_many_ends_and_the_innocent_are_served_once(
    tmp_path,
):
    async with one(tmp_path) as node:
        supervisor = Supervisor(node.url, tmp_path)
        with anyio.fail_after(300):
            async with supervisor.tasks:
                for number in range(len(SERVERS)):
                    supervisor.tasks.start_soon(supervisor.run, number)
    said = supervisor.said.decode().splitlines()
    assert supervisor.ends == [DIED] * FATAL
    assert [line for line in said if line in {"ends", "given up"}] == ["ends"] * FATAL + ["given up"]
    assert sorted(line for line in said if line.startswith("served")) == [
        *(f"served {text}" for text in INNOCENT),
        "served after",
    ]


@pytest.mark.anyio
async def test_what_runs_is_noted_again_at_a_broker_that_has_lost_its_memory(node, tmp_path):
    log = NatsLog(LogOptions("memory", BrokerAddress(node.url), relaxed=True))
    async with ReplicaEngine(log, tmp_path, "memory") as engine:
        await engine.marks.kept(engine.marks.enter("one", "c"))
        assert await log.marked(log.name) == "one"
        node.kill()
        await node.start()
        await engine.marks.kept(engine.marks.enter("two", "c"))
        assert await log.marked(log.name) == "one two"


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
