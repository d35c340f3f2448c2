"""The law of helpers: none of an assembled server ends unseen, and each end has the consequence that its name states.

A real server with everything that lasts: a journal, walled workers, a walled MCP program, a door over HTTP, tokens,
``agentserver top``, an observer and spans. Whatever runs in it is found, not listed here, and killed.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
import threading
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import anyio
import httpx
import pytest

import agentserver
from agentserver import config, supervision
from agentserver.assembly import build
from agentserver.cli import host
from agentserver.config.organism import Otel
from agentserver.contract import SystemError
from agentserver.gateways.http import DoorOptions, HttpDoor, TokenKeeper
from agentserver.gateways.http.options import names
from agentserver.gateways.http.serving import bind, serve
from agentserver.gateways.principals import Tokens
from agentserver.gateways.principals.document import PrincipalFile
from agentserver.supervision import EndEffect
from agentserver.testing import Testbed
from agentserver.testing.kit import StandIns
from agentserver.worker.wall.raising import list_missing
from tests.gateways.http.desk import NoPace
from tests.helpers import kill, kill_thread
from tests.machine import HANGS, PLAIN
from tests.telemetry.collector import collect_spans
from tests.worker.commands import test_commands as programs
from tests.worker.test_hostile import PROJECT

LACKS = list_missing()
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(bool(LACKS) and not os.environ.get("CI"), reason=f"no wall here: {'; '.join(LACKS)}"),
]
PACKAGE = str(Path(agentserver.__file__).parent)
KNOWN = {"bystander": "waits for nothing, and its cancellation is what is looked for"}
"""Tasks of the package's own that nothing supervises, and why."""

ENDS_SERVER = [
    "takes deliveries",
    "lets committed steps go",
    "holds approvals to their time",
    "adds up amounts",
    "wakes sleeping conversations",
    "keeps an edition open",
    "watches what editions keep open",
    "keeps the time of HTTP",
]
"""Each needs a server of its own to end; that these are all is held against what runs."""
EXTRAS = {"follows shares", "follows views of other processes"}
"""They end with the server, but only where several processes share an engine do they last."""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    programs.organism_in(folder, "process", lock=True)
    shutil.copytree(PROJECT, folder, dirs_exist_ok=True)
    own = (
        (folder / "organism.yaml")
        .read_text()
        .replace("name: walled\n", "name: walled\njournal: {path: out/whole.sqlite}\n", 1)
    )
    far = f"mcp:\n  - {{name: far, command: [{programs.sys.executable}, does.py], isolation: process, restarts: 50, tools: [{{name: run, trust: source}}]}}\n"
    (folder / "organism.yaml").write_text(own + "provenance: {mode: audit}\n" + far)
    small = folder / "small.yaml"
    small.write_text(
        "name: small\njournal: {path: out/small.sqlite}\nlisteners:\n"
        "  - {name: bystander, description: Answers., handler: plain.reply, payload_class: words.Try, replies: words.Got}\n"
    )
    return folder


@pytest.fixture(autouse=True)
def restart_soon(monkeypatch):
    monkeypatch.setattr(supervision, "SOONEST", 0.001)


@asynccontextmanager
async def standing_server(home, name="organism.yaml"):
    """The server as ``agentserver serve`` puts it together."""
    async with AsyncExitStack() as stack:
        loaded = await anyio.to_thread.run_sync(lambda: config.load(home / name, environ={"REGION": "north"}))
        collector = stack.enter_context(collect_spans())
        server = build(
            replace(loaded, otel=Otel(collector.endpoint + "/v1/traces")), observers=[lambda _: None]
        )
        tokens = Tokens(PrincipalFile(home / "out" / "principals.json"))
        listening = bind("127.0.0.1", 0)
        port = listening.getsockname()[1]
        options = DoorOptions(*names(port, local=True, secure=False))
        door = HttpDoor(server, options, TokenKeeper(tokens, NoPace()), name="whole")
        for each in (
            server,
            host.publish_overview(server),
            tokens.watch(),
            door.open(),
            serve(door, listening, None, door.connections, options.idle),
        ):
            await stack.enter_async_context(each)
        yield SimpleNamespace(server=server, url=f"http://127.0.0.1:{port}")


def helper_ending(name):
    """What a helper does, and the ending that its name states."""
    found = re.fullmatch(r"(helper|errand) (.+): (.+)", name)
    assert found is not None, name
    return found[2], EndEffect(found[3])


def running_tasks():
    """List the package's tasks by their function, without those of this test."""
    found = {}
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        where = task.get_coro().cr_code.co_filename if hasattr(task.get_coro(), "cr_code") else ""
        if task.get_name().startswith(("helper ", "errand ")):
            found[helper_ending(task.get_name())[0]] = task
        else:
            assert not where.startswith(PACKAGE) or task.get_name() in KNOWN, task
    return found


async def settled_tasks():
    await anyio.sleep(0.3)
    return running_tasks()


async def healthy(whole):
    async with httpx.AsyncClient(base_url=whole.url, trust_env=False, timeout=HANGS, verify=PLAIN) as client:
        return (await client.get("/healthz")).status_code == 200


async def wait_until(holds):
    with anyio.fail_after(HANGS):
        while not await holds():  # noqa: ASYNC110 - nothing tells of it
            await anyio.sleep(0.05)


def ending_messages(caplog, name):
    return [each for each in caplog.messages if each.startswith(f"the helper that {name} ended with ")]


async def restarts(whole, name, task, caplog):
    kill(task)
    await wait_until(
        lambda: yes(ending_messages(caplog, name) and not task.done() and task._fut_waiter is not None)
    )


async def yes(value):
    return value


async def ends_the_worker(whole, name, task, caplog):
    kill(task)
    await wait_until(lambda: serves(whole, "walled"))
    assert ending_messages(caplog, name)


async def ends_the_connection(whole, name, task, caplog):
    kill(task)
    await wait_until(lambda: serves(whole, "far.run"))


async def ends_the_listener(whole, name, task, caplog):
    task.cancel()  # an exception may be one that it knows what to do with
    to = "far.run" if "far" in name else "walled"
    await wait_until(lambda: refuses(whole, to))
    assert not await serves(whole, to), "for good"
    assert ending_messages(caplog, name)


CONSEQUENCES = {
    EndEffect.RESTART: restarts,
    EndEffect.WORKER: ends_the_worker,
    EndEffect.OWNER: ends_the_connection,
    EndEffect.LISTENER: ends_the_listener,
}


async def serves(whole, to):
    got = await whole.bed.ask(whole.words[to], to)
    return got is not None and not isinstance(got, SystemError)


async def refuses(whole, to):
    got = await whole.bed.ask(whole.words[to], to)
    return isinstance(got, SystemError) and got.code == "internal"


async def test_each_helper_of_a_server_has_the_consequence_that_it_states_and_the_rest_is_served(
    home, caplog
):
    async with standing_server(home) as whole:
        words = __import__("words")
        (far,) = next(
            each for each in whole.server.organism.listeners if each.listener.name == "far.run"
        ).listener.payloads
        hello = words.Try("hello", "you")
        whole.words = {"walled": hello, "bystander": hello, "far.run": far(code="print(1)")}
        whole.bed = Testbed(whole.server, await whole.server.open("ada"), StandIns({}, {}), timeout=HANGS)
        for to in whole.words:
            await wait_until(lambda to=to: serves(whole, to))
        killed = set()
        for ending, holds in CONSEQUENCES.items():
            for name in [
                name for name, task in running_tasks().items() if helper_ending(task.get_name())[1] is ending
            ]:
                task = running_tasks().get(name)
                if task is not None and "of hasty" not in name:  # as walled
                    await holds(whole, name, task, caplog)
                    killed.add(name)
                assert await serves(whole, "bystander"), name
                assert await healthy(whole), name
        sys.stderr.write(f"{sorted(killed)}\n")
        left = {
            re.sub(r", number \d+$", "", name)
            for name in running_tasks().keys() - killed
            if "of hasty" not in name
        }
    assert left <= {*ENDS_SERVER, *EXTRAS}
    assert len(killed) > 8


@pytest.mark.parametrize("name", ENDS_SERVER)
@pytest.mark.parametrize("how", [kill, asyncio.Task.cancel])
async def test_a_helper_that_the_server_cannot_do_without_ends_it(home, name, how):
    with pytest.raises(BaseException) as raised:
        async with standing_server(home, "small.yaml"):
            task = next(task for each, task in (await settled_tasks()).items() if each.startswith(name))
            assert helper_ending(task.get_name())[1] is EndEffect.SERVER
            how(task)
            with anyio.fail_after(HANGS):
                await anyio.sleep_forever()
    reasons = list(notes(raised.value))
    assert any(reason.endswith("; the server ends") for reason in reasons), reasons


def notes(error):
    """The reasons that an exception and those within it give."""
    yield from (str(error), *getattr(error, "__notes__", ()))
    for each in getattr(error, "exceptions", ()):
        yield from notes(each)


POOLS = (
    "MainThread",
    "AnyIO worker thread",
    "asyncio_",
    "journal",
    "apart",
    "pydevd",
    "Thread-",
    "telemetry-test",
)
"""Threads that do what a task awaits, and those of this test."""


async def test_each_thread_of_a_server_is_started_again(home, caplog):
    before = {
        each.name for each in threading.enumerate()
    }  # pools that other tests of this process have left idle
    async with standing_server(home, "small.yaml") as whole:
        await settled_tasks()
        words = __import__("words")
        bed = Testbed(whole.server, await whole.server.open("ada"), StandIns({}, {}), timeout=HANGS)
        found = [thread for thread in threading.enumerate() if thread.name.startswith("helper ")]
        assert len(found) == 2, found
        others = {each.name for each in threading.enumerate()} - {each.name for each in found} - before
        assert all(name.startswith(POOLS) for name in others), others
        for thread in found:
            name, ending = helper_ending(thread.name)
            assert ending is EndEffect.RESTART
            kill_thread(thread)
            while not ending_messages(caplog, name):
                await bed.ask(words.Try("hello", "you"), "bystander")  # wakes those that wait for work
            assert thread.is_alive()
        assert await healthy(whole)
