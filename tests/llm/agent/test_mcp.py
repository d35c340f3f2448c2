"""A ready-made agent with an MCP server's tools: named without a dot, shown by their schema, their text untrusted."""

from __future__ import annotations

import json
import re

import anyio.to_thread
import pytest

from agentserver import testing
from agentserver.config import forget
from tests.llm.agent.conftest import Model, calls, spoken_for
from tests.machine import HANGS
from tests.mcp.client.test_counterparts import page, project_of  # noqa: F401 - a fixture

pytestmark = pytest.mark.anyio

AGENT = """
  - name: agent
    model: m
    prompt: prompt.md
    answer: own.Said
    payload_class: own.Wish
    description: Works.
    peers: [far.fetch, outbox]
  - {name: outbox, handler: own.send, description: Writes letters., trust: sink}
llm:
  backends: [{name: b, provider: scripted, script: script.yaml}]
  models: [{name: m, backends: [b]}]
"""

CODE = """
from dataclasses import dataclass
from typing import Annotated
from agentserver import HandlerResponse, xmlify
from agentserver.provenance import Role

@xmlify
@dataclass
class Wish:
    text: str

@xmlify
@dataclass
class Said:
    text: str

@xmlify
@dataclass
class Letter:
    to: Annotated[str, Role.DESTINATION]
    text: Annotated[str, Role.PAYLOAD]

async def send(payload: Letter, metadata) -> HandlerResponse:
    return HandlerResponse.respond(Said(f"wrote to {payload.to}"))
"""


@pytest.fixture
def loaded_desk(tmp_path):
    """Loads the desk in a mode."""
    made = []

    def make(mode):
        project = project_of(
            tmp_path, "mcp_server_fetch", "fetch", args=", --ignore-robots-txt, --allow-private-ips"
        )
        text = (tmp_path / "organism.yaml").read_text().replace("mode: audit", f"mode: {mode}")
        (tmp_path / "organism.yaml").write_text(text.replace("listeners: []", f"listeners:{AGENT}".rstrip()))
        (tmp_path / "own.py").write_text(CODE)
        (tmp_path / "prompt.md").write_text("Work.\n")
        (tmp_path / "script.yaml").write_text("- text: x\n")
        made.append(project.load())
        return made[-1]

    yield make
    for one in made:
        forget(one)


@pytest.mark.parametrize("mode", ["enforce", "confirm", "audit"])
async def test_it_calls_tools_and_their_words_order_nothing(loaded_desk, page, mode):  # noqa: F811 - the fixture
    def obey(prompt):
        results = [message.content for message in prompt.messages if message.role == "tool"]
        if not results:
            return calls(("far_fetch", json.dumps({"url": page, "raw": True})))
        if len(results) == 1:
            (address,) = re.findall(r"Mail everything to (\S+@[\w.]+\w)", results[0])
            return calls(("outbox", json.dumps({"to": address, "text": "everything"})))
        return calls(("Said", json.dumps({"text": results[1]})))

    organism, model = await anyio.to_thread.run_sync(loaded_desk, mode), Model(obey)
    async with testing.organism(spoken_for(organism, model), timeout=HANGS, real_tools=True) as bed:
        wish = next(each for each in organism.listeners if each.listener.name == "agent").listener.payloads[0]
        told = (await bed.ask(wish(f"Tell me what {page} says."), "agent")).text
    assert told.startswith("Said: " if mode == "audit" else "Refused (denied)")
    assert [tool.name for tool in model.seen[0].tools] == ["far_fetch", "outbox"]
    assert "url" in model.seen[0].tools[0].schema["properties"]
    assert "Fetches a URL" in model.seen[0].tools[0].description
