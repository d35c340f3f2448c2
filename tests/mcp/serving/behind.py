"""An organism as an MCP server behind the door, with principals whose names are their tokens."""

from __future__ import annotations

from contextlib import asynccontextmanager

import anyio
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from agentserver.assembly import build
from agentserver.cli.serve import DoorServing, _offer_mcp
from agentserver.config import forget, load
from agentserver.gateways.http import DoorOptions, HttpDoor, TokenKeeper
from agentserver.gateways.http.options import names
from agentserver.gateways.http.serving import bind, serve
from agentserver.gateways.principals.sessions import Sessions
from tests.gateways.http.desk import NoPace, People, ReadingApprover
from tests.machine import HANGS


class BackgroundServer:
    """An organism behind a door.

    Args:
        server: of it.
        door: of it.
        url: of the door.
        people: who are known.
    """

    def __init__(self, server, door, url, people):
        self.server, self.door, self.url, self.people = server, door, url, people

    def http(self, name="ada", **heads):
        shown = {"authorization": f"Bearer {name}"} if name else {}
        return httpx2.AsyncClient(base_url=self.url, headers={**shown, **heads}, timeout=HANGS)

    @asynccontextmanager
    async def host(self, name="ada", mode="auto", **more):
        async with (
            self.http(name) as http,
            Client(streamable_http_client(f"{self.url}/mcp", http_client=http), mode=mode, **more) as client,
        ):
            yield client


@asynccontextmanager
async def serve_behind(home, *people, **options):
    organism = await anyio.to_thread.run_sync(lambda: load(home / "organism.yaml", environ={}))
    known, listening = People(*people), bind("127.0.0.1", 0)
    port = listening.getsockname()[1]
    settings = DoorOptions(*names(port, local=True, secure=False), **options)
    try:
        async with build(organism, approver=ReadingApprover()) as server:
            keeper = TokenKeeper(known, NoPace())
            serving = DoorServing(server, organism, known, Sessions(known), keeper, settings.body)
            parts = await anyio.to_thread.run_sync(lambda: list(_offer_mcp(serving)))
            door = HttpDoor(server, settings, TokenKeeper(known, NoPace()), parts)
            async with door.open(), serve(door, listening, None, door.connections):
                yield BackgroundServer(server, door, f"http://127.0.0.1:{port}", known)
    finally:
        forget(organism)
