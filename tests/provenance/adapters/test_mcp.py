"""Client sessions of MCP against a real server in the same process."""

# ruff: noqa: E402 - the framework is imported after the word on what to do without it

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from agentserver.provenance import TaintViolationError
from agentserver.provenance.adapters.mcp import TrackedSession
from tests.provenance.adapters.scene import (
    FOE,
    FRIEND,
    PAGE,
    Scene,
    calls,
    came_from,
    framework,
    scene,
    watching,
)

pytestmark = pytest.mark.filterwarnings("default")
framework("mcp", "mcp")

import jsonschema  # noqa: F401 - the SDK imports it at its first need, which may not be inside a watched event loop

try:
    from mcp.client.client import Client as connected
    from mcp.server.mcpserver import MCPServer as Server
except ImportError:  # before 2.0
    from mcp.server.fastmcp import FastMCP as Server
    from mcp.shared.memory import create_connected_server_and_client_session as connected


def helpful() -> str:
    """Words of the server."""
    return PAGE


def broken() -> str:
    """A resource that cannot be read."""
    raise ValueError(PAGE)


def serve(there: Scene, work: Callable[[Any], Awaitable[None]]) -> None:
    """Run ``work`` with a client of a server that has both tools, a resource and a prompt."""

    async def run() -> None:
        server = Server("tools")
        for fn in there.tools:
            server.tool()(fn)
        server.resource("doc://page")(helpful)
        server.prompt()(helpful)
        async with connected(getattr(server, "_mcp_server", server)) as session:
            await work(session)

    asyncio.run(run())


READ: dict[str, Callable[[TrackedSession], Awaitable[Any]]] = {
    "fetch_url": lambda session: session.call_tool(*calls(FOE)[0]),
    "read_resource": lambda session: session.read_resource("doc://page"),
    "get_prompt": lambda session: session.get_prompt("helpful"),
}


@pytest.mark.parametrize("way", READ)
def test_the_server_never_sees_a_refused_call(way: str) -> None:
    there, sleuth = scene(), watching()

    async def work(session: Any) -> None:
        tracked = TrackedSession(session, sleuth)
        await READ[way](tracked)
        await tracked.call_tool(*calls(FRIEND)[1])
        with pytest.raises(TaintViolationError):
            await tracked.call_tool(*calls(FOE)[1])

    serve(there, work)
    assert there.sent == [FRIEND]
    assert came_from(sleuth) == [way]


def test_audit_lets_the_call_through_and_tells() -> None:
    there, sleuth = scene(), watching("audit")

    async def work(session: Any) -> None:
        tracked = TrackedSession(session, sleuth)
        for call in calls(FOE):
            await tracked.call_tool(*call)

    serve(there, work)
    assert there.sent == [FOE]
    assert came_from(sleuth) == ["fetch_url"]


def test_the_text_of_an_error_is_labelled() -> None:
    there, sleuth = scene(), watching()

    async def work(session: Any) -> None:
        tracked = TrackedSession(session, sleuth)
        result = await tracked.call_tool("fetch_url", {"url": "broken"})
        assert getattr(result, "isError", False) or getattr(result, "is_error", False)
        with pytest.raises(TaintViolationError):
            await tracked.call_tool(*calls(FOE)[1])

    serve(there, work)
    assert there.sent == []


def test_a_prefix_tells_one_server_from_another() -> None:
    there, sleuth = scene(), watching()

    async def work(session: Any) -> None:
        tracked = TrackedSession(session, sleuth, prefix="web.")
        await tracked.call_tool(*calls(FOE)[0])
        with pytest.raises(TaintViolationError):
            await tracked.call_tool(*calls(FOE)[1])

    serve(there, work)
    assert came_from(sleuth) == ["web.fetch_url"]


def test_unwatched_requests_go_to_the_session() -> None:
    async def work(session: Any) -> None:
        listed = await TrackedSession(session, watching()).list_tools()
        assert {tool.name for tool in listed.tools} == {"fetch_url", "send_email"}

    serve(scene(), work)


def test_the_session_inside_a_client_can_be_watched_too() -> None:
    there, sleuth = scene(), watching()

    async def work(session: Any) -> None:
        tracked = TrackedSession(getattr(session, "session", session), sleuth)
        await tracked.call_tool(*calls(FOE)[0])
        with pytest.raises(TaintViolationError):
            await tracked.call_tool(*calls(FOE)[1])

    serve(there, work)
    assert there.sent == []


def test_the_words_of_a_protocol_error_are_labelled() -> None:
    sleuth = watching()

    class Refusing:
        async def call_tool(self, name: str, arguments: Any) -> Any:
            raise ConnectionError(PAGE)

        read_resource = get_prompt = call_tool

    async def work() -> None:
        tracked = TrackedSession(Refusing(), sleuth)
        with pytest.raises(ConnectionError):
            await tracked.call_tool(*calls(FOE)[0])
        with pytest.raises(TaintViolationError):
            await tracked.call_tool(*calls(FOE)[1])

    asyncio.run(work())
