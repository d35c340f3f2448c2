"""Reloads while messages are in flight to handlers with resources, agents, walled workers and MCP tools."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections import Counter

import pytest

from agentserver.assembly import ReloadResult
from agentserver.config.code.tools import lock_path
from agentserver.worker.wall.raising import list_missing
from tests.mcp.client.projects import HOSTILE
from tests.mcp.client.projects import Project as McpProject
from tests.reloading.projects import ask, wait_settled
from tests.reloading.projects import project as _project

pytestmark = pytest.mark.anyio
project = _project

EACH = 5

BOOKS = """
from contextlib import asynccontextmanager
from agentserver import HandlerResponse, invocation
from listeners.forms import Ask, Told
from listeners.shelf import Books

@asynccontextmanager
async def library():
    yield Books()

async def lend(payload: Ask, metadata) -> HandlerResponse:
    books = invocation().resource(Books)
    books.lent.append(payload.text)
    return HandlerResponse.respond(Told(payload.text))
"""

MODEL = """
import json
from agentserver.llm import Completion, ToolCall

def clerk(prompt):
    asked = [message.content for message in prompt.messages if message.role == "user"][-1]
    number = asked.split("number ")[1].split("<")[0].split('"')[0]
    called = prompt.messages[-1].role == "tool"
    tool, text = ("Told", f"number {number}") if called else ("books", f"number {number}")
    return Completion(calls=(ToolCall("1", tool, json.dumps({"text": text})),))
"""

PLAIN = """
from agentserver import HandlerResponse
from listeners.forms import Ask, Told

async def tell(payload: Ask, metadata) -> HandlerResponse:
    return HandlerResponse.respond(Told(payload.text))
"""

MORE = """
lifespan: listeners.books.library
journal: {path: out/journal.sqlite}
provenance: {mode: audit}
llm:
  backends: [{name: writer, provider: scripted, script: listeners.model.clerk}]
  models: [{name: writer, backends: [writer]}]
"""

FAR = """
mcp:
  - name: far
    command: COMMAND
    env: [NAMED]
    tools: [{name: echo, trust: source}]
"""

HERE = (
    "name: books, trust: inert, handler: listeners.books.lend",
    "name: plain, trust: inert, handler: listeners.plain.tell",
    (
        "name: clerk, trust: inert, model: writer, prompt: prompts/clerk.md, payload_class: listeners.forms.Ask, "
        "answer: listeners.forms.Told, peers: [books]"
    ),
)
WALLED = (
    "name: apart, trust: inert, handler: listeners.apart.tell, payload_class: listeners.forms.Ask, "
    "replies: [listeners.forms.Told], isolation: {warm: 1}"
)


@pytest.fixture
def shop(project):
    for name, code in (("books", BOOKS), ("model", MODEL), ("plain", PLAIN), ("apart", PLAIN)):
        project.write(f"listeners/{name}.py", code)
    project.write("listeners/shelf.py", "class Books:\n    def __init__(self):\n        self.lent = []\n")
    project.write("prompts/clerk.md", "You lend books.")
    project.organism(*HERE, more=MORE)
    return project


@pytest.fixture
def far(shop, tmp_path_factory, monkeypatch):
    """The same, with a walled listener and a tool of an MCP server."""
    monkeypatch.setenv("NAMED", "named")
    other = McpProject(tmp_path_factory.mktemp("far"))
    other.lock()
    (shop.root / lock_path("far")).parent.mkdir(parents=True)
    shutil.copy(other.root / lock_path("far"), shop.root / lock_path("far"))
    command = json.dumps([sys.executable, str(HOSTILE), str(other.notes)])
    shop.organism(*HERE, WALLED, more=MORE + FAR.replace("COMMAND", command))
    return shop


async def assert_worked(shop, reloads, listeners):
    async def client(to, server, handles, number):
        for more in range(EACH):
            text = f"number {EACH * number + more}" if to != "far.echo" else "good day"
            answer = await ask(server, text, to, handles[to])
            assert answer in (text, [text]), (to, answer)
            await asyncio.sleep(
                0.01 * more
            )  # so that some come while it loads, and some while it is replaced

    async with await shop.server(durable=True) as server:
        handles = {to: await server.open(f"user {to}") for to in listeners}
        for number in range(reloads):
            clients = [asyncio.create_task(client(to, server, handles, number)) for to in listeners]
            shop.change(f"listeners/{('plain', 'apart', 'model')[number % 3]}.py")
            assert isinstance(await shop.reload(server), ReloadResult)
            await asyncio.gather(*clients)
        await wait_settled(server)
        lent = server._resources[0].lent
    asked = [f"number {number}" for number in range(EACH * reloads)]
    assert Counter(lent) == Counter(asked + asked)  # of the clerk, and without it


async def test_nothing_is_lost_or_refused_during_twenty_reloads(shop):
    await assert_worked(shop, 20, ("books", "plain", "clerk"))


@pytest.mark.soak
@pytest.mark.skipif(bool(list_missing(ports=False)), reason="this system cannot hold a wall: NOT tested")
async def test_nothing_is_lost_or_refused_with_walled_listeners_and_tools(far, soak_scale):
    """Three reloads, or twenty of them from a soak scale of 7 on: each starts two processes."""
    await assert_worked(far, min(3 * soak_scale, 20), ("books", "plain", "clerk", "apart", "far.echo"))
