"""Everything that an attack needs: databases, servers, the ways between them, and clients.

Owns the observations, and the definition of a healthy cluster.
"""

from __future__ import annotations

import asyncio
import math
import time
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import asyncpg

from tests.crash.cluster import organism
from tests.crash.cluster.clients import Clients
from tests.crash.cluster.proxy import Proxy
from tests.crash.cluster.servers import Server, command
from tests.machine import HANGS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.crash.cluster.database import Pair

SEEN = 8.0
"""Seconds in which a phase is seen."""

OFFSETS = (3600.0, 0.0, -3600.0)
"""Seconds by which the clocks of the servers are wrong."""


class Act(NamedTuple):
    """An attack at a phase."""

    name: str
    phase: str


@dataclass
class Stage:
    """Everything that an attack needs.

    Args:
        pair: the databases.
        servers: all of them, each with its proxy.
        clients: the load.
    """

    pair: Pair
    servers: list[Server]
    proxies: dict[Server, Proxy]
    clients: Clients
    log: Path
    disturbed: float = 0.0
    well: float = 0.0
    takeovers: list[tuple[float, Act]] = field(default_factory=list)
    takeovers_in_trouble: list[tuple[float, Act]] = field(default_factory=list)
    stock: list[str] = field(default_factory=list)
    unseen: list[Act] = field(default_factory=list)

    def disturb(self, *, ending: bool = False) -> None:
        """Note that the database is not well, from now on or (``ending``) until now."""
        self.disturbed = time.monotonic() if ending else math.inf

    # Observing

    async def fetch(self, statement: str, *values: object) -> list[asyncpg.Record]:
        """Ask the primary; nothing where it is away."""
        try:
            folder = str(self.pair.primary.folder)
            connection = await asyncpg.connect(host=folder, user="postgres", database="postgres", timeout=5)
        except (OSError, asyncpg.PostgresError):
            return []
        try:
            return list(await connection.fetch(statement, *values))
        finally:
            connection.terminate()

    async def watch(self, statement: str, *values: object, within: float = SEEN) -> bool:
        """Ask the primary on one connection until there is an answer."""
        folder, end = str(self.pair.primary.folder), time.monotonic() + within
        connection = await asyncpg.connect(host=folder, user="postgres", database="postgres", timeout=5)
        try:
            asking = await connection.prepare(statement)
            while time.monotonic() < end:
                if await asking.fetch(*values):
                    return True
                await asyncio.sleep(0.001)
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            pass
        finally:
            connection.terminate()
        return False

    async def incarnation(self, server: Server) -> int:
        """The number of the present lease of a server."""
        rows = await self.fetch(
            "select max(incarnation) from agentserver.server where name = $1 and not gone", server.name
        )
        return int(rows[0][0] or 0) if rows else 0

    def calls(self) -> str:
        """The log of calls so far."""
        return self.log.read_text("utf-8") if self.log.exists() else ""

    # Well again

    async def recover(self) -> None:
        """Wait until every server takes messages; start those that are dead."""
        await asyncio.to_thread(self.pair.primary.revive)
        for server in self.servers:
            if not server.alive:
                await asyncio.to_thread(server.start)
            end = time.monotonic() + HANGS
            while not await self.ready(server):
                assert time.monotonic() < end, f"{server} takes no messages: {server.lines[-5:]}"
                await asyncio.sleep(0.1)
            server.disturb(ending=True)
        self.disturb(ending=True)
        self.well = time.monotonic()

    async def ready(self, server: Server) -> bool:
        """Ask a server whether it takes messages."""
        found = await self.clients.ask(server, "GET", "/readyz", within=5)
        return found is not None and found.status_code == 200

    async def settle(self) -> None:
        """Wait until the journal's queue is empty, and record a fault if that takes too long."""
        busy = (
            "select (select count(*) from agentserver.queue where delayed = 0)"
            " + (select count(*) from agentserver.inbox where fate is null)"
        )
        end = time.monotonic() + HANGS
        while not (rows := await self.fetch(busy)) or rows[0][0]:
            if time.monotonic() > end:
                fault = f"{rows and rows[0][0]} deliveries and arrivals do not come to rest"
                self.clients.promises.faults.append(fault)
                return
            await asyncio.sleep(0.2)


RIGHTS = (
    "--role",
    "operator",
    "--trust",
    "orders",
    "--may",
    "desk",
    "--rate",
    "100000/s",
    "--open",
    "1000000",
)


@asynccontextmanager
async def stage_servers(pair: Pair, home: Path, seed: str) -> AsyncIterator[Stage]:
    """Three servers of the organism on a pair of databases, each by a proxy of its own, and clients that do nothing yet."""
    organism.write(home, organism.POSTGRES)
    async with AsyncExitStack() as stack:
        proxies = [Proxy([node.socket for node in pair.nodes]) for _ in OFFSETS]
        for proxy in proxies:
            await proxy.open()
            stack.push_async_callback(proxy.close)
        url = pair.primary.url()
        await asyncio.to_thread(command, home, "engine", "migrate", DATABASE_URL=url)
        added = await asyncio.to_thread(
            lambda: command(home, "principals", "add", "crash", *RIGHTS, DATABASE_URL=url)
        )
        servers = [
            Server(home, f"s{number}", offset, DATABASE_URL=proxy.url())
            for number, (offset, proxy) in enumerate(zip(OFFSETS, proxies, strict=True), 1)
        ]
        for server in servers:
            server.launch()
            stack.callback(server.kill)
        for server in servers:
            await asyncio.to_thread(server.await_door)
        clients = Clients(servers, added.stdout.strip(), seed, lambda: stage.disturbed)
        stack.push_async_callback(clients.close)
        ways = dict(zip(servers, proxies, strict=True))
        stage = Stage(pair, servers, ways, clients, home / "calls.log")
        await stage.recover()
        yield stage
