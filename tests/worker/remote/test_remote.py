"""Workers on other machines: a server, a broker with the users of ``cluster permissions``, workers in processes."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from agentserver.cli import cli
from agentserver.contract import SystemError
from agentserver.testing import organism
from agentserver.worker.wall.raising import missing
from tests.brokers import one
from tests.machine import HANGS
from tests.pump.desk import until

LACKS = missing(ports=False)
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(bool(LACKS) and not os.environ.get("CI"), reason=f"no wall here: {'; '.join(LACKS)}"),
]
PROJECT = Path(__file__).parent / "project"


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("remote") / "project"
    shutil.copytree(PROJECT, folder)
    (folder / "canary").write_text("canary")
    permissions(folder)
    return folder


def permissions(project):
    """What ``agentserver cluster permissions`` prints."""
    words = [
        "cluster",
        "permissions",
        str(project / "organism.yaml"),
        "--credentials",
        str(project / "users"),
    ]
    told = CliRunner().invoke(cli, words)
    assert told.exit_code == 0, told.output
    return told.output


class Field:
    """A broker, a server and workers of one organism."""

    def __init__(self, project, node):
        self.project, self.node = project, node
        self.environ = {"BROKER": node.url, "CREDENTIALS": "users/distant.one", "REGION": "north"}
        self.workers = []

    async def worker(self, listener="calculator", *more, user=None):
        file = self.project / "users" / f"distant.one+{user or listener}"
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "agentserver", "--log-level", "info", "worker", listener),
            *("--engine", self.node.url, "--credentials", str(file)),
            *("--organism", str(self.project / "organism.yaml"), *more),
            env={
                "REGION": "south",
                "PATH": os.environ["PATH"],
            },  # neither the server's broker nor its credentials
            stderr=asyncio.subprocess.PIPE,
        )
        self.workers.append(process)
        if user is None:
            while b"takes calls of" not in (line := await process.stderr.readline()):
                assert line, "it ended"
        return process

    async def end(self):
        for process in self.workers:
            if process.returncode is None:
                process.kill()
            await process.communicate()


@pytest.fixture
async def field(project, tmp_path):
    users = await asyncio.to_thread(permissions, project)
    async with one(tmp_path, more=users) as node:
        made = Field(project, node)
        try:
            yield made
        finally:
            await made.end()


@asynccontextmanager
async def serving(field):
    async with organism(field.project / "organism.yaml", environ=field.environ, timeout=HANGS) as running:
        words = __import__("distant_words")
        yield running, lambda act, about="": running.ask(words.Job(act, about), "calculator")


async def test_a_handler_elsewhere_has_what_it_has_behind_the_wall_and_may_die_there(field):
    async with serving(field) as (_, ask):
        await field.worker()
        assert (await ask("hello", "you")).text.startswith("hello you by ")
        assert (await ask("resource")).text == "Tool"
        assert (await ask("env", "REGION")).text == "south", "the environment is that of the worker's machine"
        assert (await ask("secret", str(field.project / "canary"))).text == "refused: PermissionError"
        assert (await ask("secret", str(field.project / "users" / "distant.one"))).text.startswith("refused")
        assert (await ask("ask", "ping")).text == "pong"
        assert (await ask("count")).text == "1"
        assert (await ask("tell", "half")).text.startswith("told half")
        assert isinstance(await ask("large", "3000000"), SystemError)
        dead = await ask("die")
        assert isinstance(dead, SystemError)
        assert dead.code == "internal"
        assert (await ask("key")).text.endswith(" 0")


async def test_without_a_worker_messages_wait_and_one_that_comes_in_time_handles_them(field):
    async with serving(field) as (running, ask):
        add = __import__("distant_words").Sum("add")
        late = await running.ask(add, "calculator.add")
        assert isinstance(late, SystemError)
        assert late.code == "timeout"
        waiting = [asyncio.ensure_future(ask("hello", str(n))) for n in range(3)]
        await asyncio.sleep(0.3)
        await field.worker()
        assert sorted([(await each).text.split()[1] for each in waiting]) == ["0", "1", "2"]


async def told(process, last):
    """What a worker says, up to the line that has these words."""
    found = []
    while last not in (found[-1] if found else ""):
        found.append((await asyncio.wait_for(process.stderr.readline(), HANGS)).decode())
        assert found[-1], "it ended"
    return "".join(found)


async def test_a_worker_says_that_it_handles_calls_once_it_does_and_what_it_waits_for_before(field):
    """It said so before it had reached the broker."""
    process = await field.worker(user="calculator")
    before = await told(process, "waits for a server of distant.one that has calls of calculator")
    assert f"looks for the broker at {field.node.url}" in before
    assert "handles calls" not in before
    field.node.kill()
    await told(process, f"the broker at {field.node.url} does not answer")
    await field.node.start()
    await told(process, "waits for a server of distant.one")
    async with serving(field) as (_, ask):
        await told(process, "handles calls of calculator, 4 at once")
        assert (await ask("hello", "you")).text.startswith("hello you by ")
        field.node.kill()
        await told(process, f"the broker at {field.node.url} is away")
        await field.node.start()
        await told(process, f"the broker at {field.node.url} is there again")
        assert (await ask("hello", "you")).text.startswith("hello you by ")


async def taken(node, calls):
    """Wait until workers have taken so many calls of the calculator: each lets its ticket leave the queue then."""
    while True:
        told = await node.asks("/jsz?accounts=true&streams=true&consumers=true")
        streams = [one for each in told["account_details"] for one in each.get("stream_detail", ())]
        queues = [one for each in streams for one in each.get("consumer_detail", ())]
        if any(one["name"] == "calculator" and one["ack_floor"]["consumer_seq"] >= calls for one in queues):
            return
        await asyncio.sleep(0.05)


async def test_a_machine_that_dies_loses_no_call(field, monkeypatch):
    monkeypatch.setattr("agentserver.worker.remote.queue.LOST", 2.5)
    async with serving(field) as (running, ask):
        first = await field.worker()
        waiting = asyncio.ensure_future(ask("sleep", "1.5"))
        await taken(field.node, 1)
        first.kill()
        await first.wait()
        await until(lambda: [one for one in running.trace().records if one.event == "retried"])
        monkeypatch.setattr("agentserver.worker.remote.queue.LOST", HANGS)  # the next one is only slow
        await field.worker()
        assert (await waiting).text.startswith("slept 1.5")


async def test_two_workers_share_the_work(field):
    async with serving(field) as (_, ask):
        await field.worker("calculator", "--processes", "1")
        await field.worker("calculator", "--processes", "1")
        got = await asyncio.gather(*(ask("sleep", "0.5") for _ in range(4)))
        assert {each.text.split()[-1] for each in got} == {str(each.pid) for each in field.workers}


async def test_a_signal_lets_a_worker_end_with_what_it_has(field):
    async with serving(field) as (_, ask):
        process = await field.worker("calculator", "--processes", "1")
        waiting = asyncio.ensure_future(ask("sleep", "1.5"))
        await taken(field.node, 1)
        process.send_signal(signal.SIGTERM)
        assert (await waiting).text.startswith("slept")
        assert await asyncio.wait_for(process.wait(), HANGS) == 0


async def test_a_broker_that_goes_in_the_middle_loses_no_call(field):
    async with serving(field) as (_, ask):
        await field.worker()
        assert (await ask("hello", "you")).text.startswith("hello")
        waiting = asyncio.ensure_future(ask("sleep", "2"))
        await taken(field.node, 2)
        field.node.kill()
        await asyncio.sleep(0.5)
        await field.node.start()
        assert (await waiting).text.startswith("slept")
        assert (await ask("hello", "again")).text.startswith("hello")


async def test_a_worker_under_another_name_is_refused_and_told_which_permission_it_lacks(field):
    async with serving(field):
        process = await field.worker("calculator", user="calculator.add")
        _, told = await asyncio.wait_for(process.communicate(), HANGS)
        assert process.returncode == 2
        assert b"the broker's permissions refuse this user: " in told
        assert b"as.distant_-one.inbox.calculator." in told
        assert b"Traceback" not in told


async def test_an_engine_at_the_same_broker_and_as_the_same_user(field):
    path = field.project / "clustered.yaml"
    broker = 'broker: {url: "${BROKER}", credentials: "${CREDENTIALS}"}'
    engine = (
        'engine: {nats: {url: "${BROKER}", credentials: "${CREDENTIALS}", replicas: 1, durability: relaxed}}'
    )
    path.write_text((field.project / "organism.yaml").read_text().replace(broker, engine))
    await field.worker()
    words = ["call", "calculator", "--act", "hello", "--about", "you", "--organism", str(path)]
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "agentserver", *words),
        env={**os.environ, **field.environ},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    told, why = await asyncio.wait_for(server.communicate(), HANGS)
    assert server.returncode == 0, why
    assert told.startswith(b"text: hello you by "), told


async def test_no_broker_ends_a_worker_and_a_server_with_the_reason(field):
    field.node.kill()
    process = await field.worker(user="calculator")
    words = ["call", "calculator", "--act", "x", "--organism", str(field.project / "organism.yaml")]
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "agentserver", *words),
        env={**os.environ, **field.environ},
        stderr=asyncio.subprocess.PIPE,
    )
    for each in (process, server):
        _, told = await asyncio.wait_for(each.communicate(), HANGS)
        assert each.returncode == 2, told
        assert "no broker at " in told.decode().splitlines()[-1], told
        assert b"Traceback" not in told
