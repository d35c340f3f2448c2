"""A server with its door on a real socket, workers as real processes, and principals with tokens."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import anyio.to_thread
import httpx

from agentserver import config
from agentserver.assembly import Principal, Server, Trust, build
from agentserver.client import Client, ProblemError
from agentserver.gateways.http import DoorOptions, HttpDoor, TokenKeeper
from agentserver.gateways.http.options import names
from agentserver.gateways.http.serving import bind, serve
from agentserver.gateways.principals import Caller, Rate, Role
from agentserver.worker import frames
from agentserver.worker.frames import CallRequestFrame, dump_asked
from agentserver.worker.remote_desk import CallDesk, SilenceLimits
from agentserver.worker.remote_door import make_part
from tests.gateways.http.desk import NoPace, People, person
from tests.machine import HANGS

PROJECT = Path(__file__).parent / "project"
BODY = 1_000_000


def copy_project(folder):
    """The project in a folder of its own; gives its file."""
    shutil.copytree(PROJECT, folder)
    (folder / "canary").write_text("canary")
    return folder / "organism.yaml"


def at_work(name, listener):
    """A worker's principal."""
    return Caller(Principal(name, Trust.STRANGER, ()), Role.WORKER, Rate(1000, "s"), 0, listener=listener)


@dataclass
class Field:
    """A server whose door is open."""

    path: Path
    server: Server
    door: HttpDoor
    port: int
    people: People
    stack: AsyncExitStack
    processes: list = field(default_factory=list)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    async def ask(self, act, about="", to="calculator"):
        """The text of an answer, or the code of an error."""
        async with Client(self.url, "ada") as client:
            conversation = await client.open()
            try:
                answer = await conversation.ask(
                    {"act": act} | ({"about": about} if about else {}), to, within=HANGS
                )
            except ProblemError as error:
                return error.code or repr(error)
            return answer.value["text"]

    def asking(self, act, about="", to="calculator"):
        """An answer that is waited for later."""
        return asyncio.ensure_future(self.ask(act, about, to))

    async def hold(self, act, about):
        """A conversation in which a message was sent, whose answer nobody waits for."""
        client = await self.stack.enter_async_context(Client(self.url, "ada"))
        conversation = await client.open()
        await conversation.send({"act": act, "about": about}, "calculator")
        return conversation

    @property
    def begun(self):
        """Calls that a worker has begun with, and that are not over."""
        return sum(each.started for each in self.server.calls._calls.values())

    @property
    def ended(self):
        """Finished calls of a worker."""
        return len(self.server.calls._over)

    async def reload(self):
        """Load the organism again, as it is now."""
        load = partial(config.load, self.path, environ={"REGION": "north"}, previous=self.server.organism)
        return await self.server.reload(await anyio.to_thread.run_sync(load))

    def posing(self, token="worker"):
        """A worker of the test's own, without processes."""
        return PosingWorker(self.url, token)

    async def worker(
        self,
        *more,
        listener="calculator",
        token="worker",
        servers=(),
        last="handles calls of",
        region="south",
    ):
        """Start a worker, and wait until it says these words."""
        named = [word for url in (servers or [self.url]) for word in ("--server", url)]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "agentserver", "worker", listener, *named),
            *("--organism", str(self.path), *more),
            env={"REGION": region, "PATH": os.environ["PATH"], "AGENTSERVER_TOKEN": token},
            stderr=asyncio.subprocess.PIPE,
        )
        self.processes.append(process)
        await read_until(process, last)
        return process


async def read_until(process, last):
    """The lines of a worker, up to one that has these words."""
    found = []
    while last not in (found[-1] if found else ""):
        found.append((await asyncio.wait_for(process.stderr.readline(), HANGS)).decode())
        assert found[-1], f"it ended: {found}"
    return "".join(found)


class PosingWorker:
    """A worker that says what a test wants."""

    def __init__(self, url, token):
        self._http = httpx.AsyncClient(
            base_url=url, headers={"authorization": f"Bearer {token}"}, timeout=HANGS
        )

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self._http.aclose()

    async def post(self, path, data):
        headers = {"content-type": "application/json"}
        return await self._http.post(f"/v1/workers/{path}", content=data, headers=headers)

    async def take(self, listener="calculator", wait=20.0, version=frames.VERSION):
        return await self.post(f"{listener}/calls", dump_asked(CallRequestFrame(version, wait)))

    async def call(self, listener="calculator"):
        """The key and the number of a call."""
        answer = await self.take(listener)
        assert answer.status_code == 200, answer.text
        return answer.json()["key"], answer.json()["call"]["call"]

    async def say(self, key, frame, listener="calculator"):
        return await self.post(f"{listener}/calls/{key}", dump_asked(frame))


def done(number, text="done", root="Done"):
    """The result of a call."""
    markup = f'<{root} xmlns="urn:agentserver:payload:{root}:v1"><text>{text}</text></{root}>'
    return frames.ReturnedFrame(number, (frames.MessageFrame(None, True, markup),))


@asynccontextmanager
async def serve_field(path, silences=None, port=0, **options):
    """A server, its door and what a test starts for it."""
    load = partial(config.load, path, environ={"REGION": "north"}, separate=True)
    made = await anyio.to_thread.run_sync(load)
    server = build(made)
    if silences is not None:
        server._calls = CallDesk(SilenceLimits(*silences))
    listening = bind("127.0.0.1", port)
    port = listening.getsockname()[1]
    settings = replace(DoorOptions(*names(port, local=True, secure=False)), **options)
    people = People(
        person("ada"),
        person("olga", Role.OPERATOR),
        at_work("worker", "calculator"),
        at_work("other", "calculator"),
        at_work("adder", "calculator.add"),
    )
    keeper = TokenKeeper(people, NoPace())
    async with server, AsyncExitStack() as stack:
        door = HttpDoor(server, settings, keeper, [make_part(server.calls, BODY)], name="distant")
        async with door.open(), serve(door, listening, None, door.connections, settings.idle):
            one = Field(path, server, door, port, people, stack)
            try:
                yield one
            finally:
                for process in one.processes:
                    if process.returncode is None:
                        process.kill()
                    await process.communicate()
