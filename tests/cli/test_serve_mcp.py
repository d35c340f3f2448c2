"""The MCP server behind the door: its hosts show tokens of their own."""

from __future__ import annotations

import shutil
from pathlib import Path

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from agentserver import bearer
from agentserver.assembly import build
from agentserver.cli.serve import DoorServing, _mcp
from agentserver.config import forget, load
from agentserver.gateways.http import DoorOptions, HttpDoor, TokenKeeper
from agentserver.gateways.http.options import names
from agentserver.gateways.http.serving import bound, served
from agentserver.mcp.serving import tokens
from tests.gateways.http.desk import NoPace, People

pytestmark = pytest.mark.anyio
DESK = Path(__file__).parents[1] / "fixtures" / "mcp_desk"


@pytest.fixture
def home(tmp_path):
    shutil.copytree(DESK, tmp_path / "desk", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "desk"


async def test_a_host_calls_a_tool_behind_the_door_by_a_token_of_its_own(home):
    token = bearer.fresh()

    def loaded():
        organism = load(home / "organism.yaml", environ={})
        path = home / organism.serving.tokens
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(tokens.line("ada", token) + "\n")
        return organism

    organism = await anyio.to_thread.run_sync(loaded)
    people, listening = People(), bound("127.0.0.1", 0)
    port = listening.getsockname()[1]
    hosts, origins = names(port, local=True, secure=False)
    try:
        async with build(organism) as server:
            parts = await anyio.to_thread.run_sync(lambda: list(_mcp(DoorServing(server, organism, people))))
            door = HttpDoor(server, DoorOptions(hosts, origins), TokenKeeper(people, NoPace()), parts)
            async with door.open(), served(door, listening, None, 100):
                url = f"http://127.0.0.1:{port}/mcp"
                shown = {"authorization": f"Bearer {token}"}
                async with httpx2.AsyncClient(headers=shown) as http:
                    async with Client(streamable_http_client(url, http_client=http)) as client:
                        found = await client.list_tools()
                    assert [each.name for each in found.tools] == list(organism.serving.expose)
                    evil = await http.post(url, headers={"host": "evil.example"}, content=b"{}")
                    assert evil.status_code == 421
                async with httpx2.AsyncClient() as http:
                    assert (await http.post(url, content=b"{}")).status_code == 401
    finally:
        forget(organism)
