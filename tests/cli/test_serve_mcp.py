"""The MCP server behind the door: its hosts are principals, and pass the gate that every request passes."""

from __future__ import annotations

import shutil
from pathlib import Path

import anyio
import pytest
from mcp.shared.exceptions import MCPError

from agentserver.assembly import Trust
from agentserver.gateways.principals import Role
from tests.gateways.http.desk import person
from tests.machine import HANGS
from tests.mcp.serving.behind import serve_behind

pytestmark = pytest.mark.anyio
DESK = Path(__file__).parents[1] / "fixtures" / "mcp_desk"
EVE, BOB = "eve@evil.example", "bob@corp.example"
MODES = ("2026-07-28", "legacy")
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
SHOWN = {"accept": "application/json, text/event-stream"}


@pytest.fixture
def home(tmp_path):
    shutil.copytree(DESK, tmp_path / "desk", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "desk"


async def mail(client, to):
    return await client.call_tool("post", {"to": to, "body": "everything"})


@pytest.mark.parametrize("mode", MODES)
async def test_a_principal_has_one_conversation_with_hosts_however_often_they_connect(home, mode):
    people = (person("ada", trust=Trust.RELAY), person("bob", trust=Trust.RELAY))
    path = home / "organism.yaml"
    path.write_text(path.read_text().replace("mcp_server:\n", "mcp_server:\n  trust: relay\n"))
    async with serve_behind(home, *people) as here:
        async with here.host("ada", mode) as client:
            await client.call_tool("web", {"page": "news"})
            assert (await mail(client, EVE)).is_error
        async with here.host("ada", mode) as client:
            assert (await mail(client, EVE)).is_error
        async with here.host("bob", mode) as client:
            assert not (await mail(client, EVE)).is_error
        assert len(here.server.trace.conversations()) == 2


async def test_a_host_has_the_weaker_of_two_trusts_and_reaches_the_peers_of_both(home):
    async with serve_behind(home, person("ada", may=("web", "hidden"))) as here, here.host() as client:
        assert [each.name for each in (await client.list_tools()).tools] == ["web", "post", "vault"]
        await client.call_tool("web", {"page": "news"})
        assert (await mail(client, BOB)).is_error
        with pytest.raises(MCPError, match="Unknown tool"):
            await client.call_tool("hidden", {"page": "x"})
        (one,) = here.server.trace.conversations()
        assert here.server.conversation(one).rights[:2] == (Trust.STRANGER, ("web",))


@pytest.mark.parametrize(
    ("heads", "status"),
    [
        ({"authorization": ""}, 401),
        ({"authorization": "Bearer nobody"}, 401),
        ({"authorization": "Basic YWRh"}, 401),
        ({"host": "evil.example"}, 421),
        ({"origin": "https://evil.example"}, 403),
    ],
)
async def test_a_host_passes_the_checks_of_every_request(home, heads, status):
    async with serve_behind(home, person("ada")) as here, here.http() as http:
        answer = await http.post("/mcp", json=LIST, headers={**SHOWN, **heads})
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/problem+json"
        assert here.server.trace.conversations() == ()


async def test_a_viewer_calls_no_tool(home):
    async with serve_behind(home, person("vera", Role.VIEWER)) as here, here.http("vera") as http:
        assert (await http.post("/mcp", json=LIST, headers=SHOWN)).status_code == 403


@pytest.mark.parametrize("mode", MODES)
async def test_hosts_open_neither_sessions_nor_streams_that_say_nothing(home, mode):
    async with serve_behind(home, person("ada")) as here, here.http() as http:
        for _ in range(20):
            async with here.host(mode=mode) as client:
                await client.list_tools()
        for method in ("GET", "DELETE"):
            assert (await http.request(method, "/mcp", headers=SHOWN)).status_code == 405
        made_up = {"mcp-session-id": "nothing is kept of it"}
        answer = await http.post("/mcp", json=LIST, headers={**SHOWN, **made_up})
        assert answer.status_code == 200


async def test_calls_that_wait_count_as_streams_of_their_principal(home):
    """The vault waits for a person, each call for the two seconds of its deadline."""
    async with (
        serve_behind(home, person("ada"), person("bob"), streams=2) as here,
        here.http() as http,
        here.http("bob") as bob,
        anyio.create_task_group() as tasks,
    ):
        call = {"name": "vault", "arguments": {"door": 3}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        post = {"url": "/mcp", "json": body, "headers": SHOWN}
        for _ in range(2):
            tasks.start_soon(lambda: http.post(**post))
        with anyio.fail_after(HANGS):
            while len(here.door.holding) < 2:  # noqa: ASYNC110 - the door tells nobody
                await anyio.sleep(0.01)
        refused = await http.post(**post)
        assert refused.status_code == 429
        assert refused.json()["detail"].startswith("You have 2 streams and waits open")
        assert (await bob.post("/mcp", json=LIST, headers=SHOWN)).status_code == 200


async def test_a_call_ends_with_its_token(home):
    async with serve_behind(home, person("ada")) as here, here.http() as http:
        call = {"name": "vault", "arguments": {"door": 3}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        async with anyio.create_task_group() as tasks:

            async def revoke():
                while not here.server.approvals():  # noqa: ASYNC110 - as above
                    await anyio.sleep(0.01)
                here.people.known.clear()

            tasks.start_soon(revoke)
            answer = await http.post("/mcp", json=body, headers=SHOWN)
        assert b"door" not in answer.content
        assert (await http.post("/mcp", json=LIST, headers=SHOWN)).status_code == 401


async def test_the_processor_that_a_call_takes_is_counted_for_its_principal(home):
    async with serve_behind(home, person("ada"), person("bob")) as here:
        async with here.host("ada", "legacy") as client:
            for _ in range(5):
                await client.call_tool("web", {"page": "x" * 20_000})
        async with here.host("bob", "legacy") as client:
            await client.list_tools()
        ada, bob = (here.door.admission.shares.find(name) for name in ("ada", "bob"))
        assert ada.read > 100_000 > bob.read > 0
        assert ada.cpu > bob.cpu > 0
