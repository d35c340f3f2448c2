"""Workers on other machines: a door on a socket, and workers in processes of their own."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from pathlib import Path

import pytest

from agentserver.client import Client
from agentserver.worker.wall.raising import list_missing
from tests.gateways.http.desk import until
from tests.machine import HANGS
from tests.worker.remote.field import copy_project, read_until, serve_field

LACKS = list_missing(ports=False)
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(bool(LACKS) and not os.environ.get("CI"), reason=f"no wall here: {'; '.join(LACKS)}"),
]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return copy_project(tmp_path_factory.mktemp("remote") / "project")


async def test_a_remote_handler_has_its_walled_permissions_and_may_die_there(path):
    async with serve_field(path) as field:
        await field.worker()
        assert (await field.ask("hello", "you")).startswith("hello you by ")
        assert await field.ask("resource") == "Tool"
        assert await field.ask("env", "REGION") == "south", "the environment is that of the worker's machine"
        assert await field.ask("secret", str(path.parent / "canary")) == "refused: PermissionError"
        assert await field.ask("ask", "ping") == "pong"
        assert await field.ask("count") == "1"
        assert await field.ask("tell", "half") == "told half"
        assert await field.ask("large", "3000000") == "internal"
        assert await field.ask("die") == "internal"
        assert (await field.ask("key")).endswith(" 0")


async def test_without_a_worker_calls_wait_until_their_deadline_and_the_log_says_so(path, caplog):
    async with serve_field(path) as field:
        assert await field.ask("hello", to="calculator.add") == "timeout"
        waiting = [field.asking("hello", str(n)) for n in range(3)]
        await until(lambda: "calls of calculator wait" in caplog.text)
        await field.worker()
        assert sorted([(await each).split()[1] for each in waiting]) == ["0", "1", "2"]
    assert caplog.text.count("calls of calculator wait: no worker is connected to this server") == 1
    assert caplog.text.count("calls of calculator.add wait: no worker") == 1
    assert "worker, a worker of calculator, has come" in caplog.text


async def test_a_call_whose_worker_is_killed_is_repeated_by_another_and_fails_without_retries_left(path):
    async with serve_field(path, silences=(3.0, 3.5)) as field:
        first = await field.worker("--processes", "1")
        asked = field.asking("sleep", "1000")
        await until(lambda: field.begun == 1)
        first.kill()
        second = await field.worker("--processes", "1")
        await until(lambda: field.ended == 1 and field.begun == 1)
        second.kill()
        assert await asked == "internal"


async def test_a_finished_call_ends_at_its_worker_too(path):
    async with serve_field(path) as field:
        await field.worker("--processes", "1")
        (held,) = await asyncio.gather(field.hold("sleep", "1000"))
        await until(lambda: field.begun == 1)
        await held.close()
        assert (await field.ask("hello", "you")).startswith("hello you"), "the one process is free again"


async def test_workers_of_a_listener_share_its_calls(path):
    async with serve_field(path) as field:
        first, second = await field.worker("--processes", "1"), await field.worker("--processes", "1")
        both = await asyncio.gather(field.ask("sleep", "1"), field.ask("sleep", "1"))
        assert {each.split()[-1] for each in both} == {str(first.pid), str(second.pid)}


async def test_a_worker_serves_several_servers_and_waits_for_an_unreachable_one(path):
    async with serve_field(path) as one:
        async with serve_field(path) as two:
            worker = await one.worker(servers=[one.url, two.url])
            await read_until(worker, "handles calls of")
            assert (await one.ask("hello", "one")).startswith("hello one")
            assert (await two.ask("hello", "two")).startswith("hello two")
            port = two.port
        await read_until(worker, "is away, and is asked again")
        assert (await one.ask("hello", "still")).startswith("hello still")
        async with serve_field(path, port=port) as again:
            await read_until(worker, f"handles calls of calculator of {again.url}")
            assert (await again.ask("hello", "again")).startswith("hello again")


async def test_after_a_signal_a_worker_ends_with_its_calls_and_takes_no_others(path):
    async with serve_field(path) as field:
        worker = await field.worker("--processes", "1")
        running = field.asking("sleep", "1.5")
        await until(lambda: field.begun == 1)
        worker.send_signal(signal.SIGINT)
        assert (await running).startswith("slept")
        assert await asyncio.wait_for(worker.wait(), 100) == 0
        stuck = await field.worker("--processes", "1")
        late = field.asking("sleep", "1000")
        await until(lambda: field.begun == 1)
        stuck.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.2)
        assert stuck.returncode is None
        stuck.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(stuck.wait(), 100) == 143
        late.cancel()


@pytest.mark.parametrize(
    ("token", "why"), [("wrong", "401"), ("adder", "This worker is another listener's"), ("ada", "403")]
)
async def test_a_worker_that_every_server_refuses_ends_and_says_why(path, token, why):
    async with serve_field(path) as field:
        worker = await field.worker(token=token, last="refuses this worker")
        rest = await worker.stderr.read()
        assert await worker.wait() == 2
        assert why in rest.decode()


async def test_a_remote_listener_survives_a_reload(path):
    async with serve_field(path) as field:
        await field.worker()
        running = field.asking("sleep", "1")
        await until(lambda: field.begun == 1)
        kept = path.read_text()
        path.write_text(kept.replace("Works on another machine.", "Works far away."))
        try:
            changed = await field.reload()
        finally:
            path.write_text(kept)
        assert changed.name == "distant", changed
        assert field.server.rules.blueprint.listeners["calculator"].description == "Works far away."
        assert (await running).startswith("slept")
        assert (await field.ask("hello", "after")).startswith("hello after")


@pytest.fixture
def local(path):
    """The organism's text with its listener here; the file is as it was after the test."""
    kept = path.read_text()
    yield kept.replace("remote: true", "remote: false")
    path.write_text(kept)


async def test_a_reload_brings_the_first_remote_listener_and_takes_it_away(path, local):
    remote = path.read_text()
    path.write_text(local)
    async with serve_field(path) as field:
        assert (await field.ask("hello", "here")).startswith("hello here")
        path.write_text(remote)
        worker = await field.worker(last="has no calls of calculator: 404")
        assert (await field.reload()).name == "distant"
        await read_until(worker, "handles calls of calculator")
        assert (await field.ask("hello", "there")) == f"hello there by {worker.pid}"
        path.write_text(local)
        assert (await field.reload()).name == "distant"
        await read_until(worker, "has no calls of calculator: 404")
        assert (await field.ask("hello", "back")).startswith("hello back")


async def test_a_worker_whose_processes_do_not_start_takes_no_calls_and_says_why(path):
    """It took them all, and failed each at once, while workers that could make them waited."""
    async with serve_field(path) as field:
        worker = await field.worker(last="no process of calculator starts", region="nowhere")
        assert await worker.wait() == 2
        assert field.ended == field.begun == 0


async def test_a_server_that_begins_again_ends_the_calls_of_the_one_before(path):
    async with serve_field(path) as field:
        worker = await field.worker("--processes", "1")
        await field.hold("sleep", "1000")
        await until(lambda: field.begun == 1)
        port, field.processes = field.port, []
    try:
        async with serve_field(path, port=port) as again:
            assert (await again.ask("hello", "again")).startswith("hello again"), "its one process is free"
    finally:
        worker.kill()
        await worker.communicate()


async def test_the_page_in_five_minutes(path, tmp_path):
    """As the page has it: a principal, a served organism, a worker, and one message."""
    home = copy_project(tmp_path / "project")
    environ = {"REGION": "north", "PATH": os.environ["PATH"]}
    token = {}
    for name, more in {
        "gpu1": ("--role", "worker", "--listener", "calculator"),
        "ada": ("--may", "calculator"),
    }.items():
        said = await run(home, environ, "principals", "add", name, *more)
        token[name] = said.strip()
    (home.parent / "gpu1.token").write_text(token["gpu1"] + "\n")
    command = (sys.executable, "-m", "agentserver")
    server = await asyncio.create_subprocess_exec(
        *command, "serve", str(home), env=environ, cwd=home.parent, stderr=asyncio.subprocess.PIPE
    )
    url = (await read_until(server, "http://")).split()[-1]
    words = ("worker", "calculator", "--server", url, "--token-file", "gpu1.token", "--organism", str(home))
    worker = await asyncio.create_subprocess_exec(
        *command, *words, env=environ, cwd=home.parent, stderr=asyncio.subprocess.PIPE
    )
    try:
        await read_until(worker, "handles calls of calculator")
        async with Client(url, token["ada"]) as client:
            conversation = await client.open()
            answer = await conversation.ask({"act": "hello", "about": "you"}, "calculator", within=HANGS)
        assert answer.value["text"] == f"hello you by {worker.pid}"
        worker.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(worker.wait(), HANGS) == 0
        server.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(server.wait(), HANGS) == 0
    finally:
        for process in (worker, server):
            if process.returncode is None:
                process.kill()
            await process.communicate()


async def run(home, environ, *words):
    """The output of a command."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "agentserver", *words, "--organism", str(home)),
        env=environ,
        cwd=home.parent,
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate()
    assert process.returncode == 0
    return said.decode()


def test_each_row_of_the_page_names_a_test():
    page = Path(__file__).parents[3] / "docs" / "workers.md"
    named = re.findall(r"`(test_\w+)`", page.read_text())
    here = "".join(each.read_text() for each in Path(__file__).parent.glob("test_*.py"))
    assert len(named) > 10
    assert [name for name in named if f"def {name}(" not in here] == []
