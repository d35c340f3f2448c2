"""Attacks of principals on the gate of the door: many streams, many sessions, costly requests, requests with two lengths."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio

from agentserver.gateways.principals import Role
from tests.cli.served import write
from tests.hostile.harness import Attack
from tests.machine import HANGS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    import httpx
    from anyio.abc import SocketStream

    from tests.hostile.harness import Target

CROWD = 1999
SHOWN = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
EVERYBODY = {"olga": Role.OPERATOR, "eve": Role.USER, "bob": Role.USER}


def with_hosts(home: Path) -> None:
    """Write an organism that MCP hosts reach."""
    write(home, "http: {bind: '127.0.0.1:0'}\nmcp_server: {expose: [greeter]}")


def head(server: Target, method: str, path: str, **more: str) -> bytes:
    """Write the head of a request of eve."""
    shown = {"host": urlsplit(server.url).netloc, "authorization": f"Bearer {server.tokens['eve']}", **more}
    lines = [
        f"{method} {path} HTTP/1.1",
        *(f"{name.replace('_', '-')}: {each}" for name, each in shown.items()),
    ]
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode()


async def connect_server(server: Target) -> SocketStream:
    """Connect to a server."""
    return await anyio.connect_tcp("127.0.0.1", urlsplit(server.url).port or 0)


async def serve_both(server: Target) -> float:
    """Ask as an operator and as a probe. Returns the seconds of the slower answer."""
    slowest = 0.0
    async with server.client("olga") as olga:
        for path in ("/healthz", "/readyz", "/v1/approvals"):
            began = time.monotonic()
            answer = await olga.get(path)
            assert answer.status_code == 200, (path, answer.status_code, answer.text)
            slowest = max(slowest, time.monotonic() - began)
    return slowest


async def held(server: Target, request: bytes) -> str:
    """Send one request on each of as many connections, and keep all of them while others are served."""
    firsts: Counter[str] = Counter()
    async with AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(await connect_server(server)) for _ in range(CROWD)]
        for stream in streams:
            try:
                await stream.send(request)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                firsts["cut"] += 1
        slowest = await serve_both(server)

        async def read(stream: SocketStream) -> None:
            with anyio.move_on_after(1):
                try:
                    said = await stream.receive(64)
                except (anyio.EndOfStream, anyio.BrokenResourceError):
                    firsts["cut"] += 1
                else:
                    firsts[said[9:12].decode("latin-1")] += 1
                return
            firsts["held"] += 1

        async with anyio.create_task_group() as tasks:
            for stream in streams:
                tasks.start_soon(read, stream)
        slowest = max(slowest, await serve_both(server))
    return f"{dict(firsts)}; operator and probes within {slowest:.2f} s"


async def streams_of_mcp(server: Target) -> str:
    """Open streams of MCP with one token."""
    return await held(server, head(server, "GET", "/mcp", accept="text/event-stream"))


async def calls_of_mcp(server: Target) -> str:
    """Begin MCP calls with one token whose bodies never come."""
    return await held(server, head(server, "POST", "/mcp", **SHOWN, content_length="900"))


async def streams_of_events(server: Target) -> str:
    """Open streams of events with one token."""
    async with server.client("eve") as eve:
        path = (await eve.post("/v1/conversations")).headers["location"]
    return await held(server, head(server, "GET", f"{path}/events"))


async def sessions(server: Target) -> str:
    """Begin 3,000 sessions of MCP with one token."""
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "h", "version": "1"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
    answers: Counter[int] = Counter()
    async with server.client("eve") as eve:

        async def begin() -> None:
            for _ in range(300):
                answers[(await eve.post("/mcp", json=body, headers=SHOWN)).status_code] += 1

        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(begin)
    await serve_both(server)
    return f"{dict(answers)}"


async def flood_costly(server: Target, cost: Callable[[httpx.AsyncClient], Awaitable[int]]) -> str:
    """Have one principal send costly requests, sixteen at once, while another wants little, again and again."""
    taken: list[float] = []
    done: Counter[int] = Counter()
    async with server.client("eve") as eve, server.client("bob") as bob, anyio.create_task_group() as tasks:
        path = (await bob.post("/v1/conversations")).headers["location"]

        async def flood() -> None:
            while True:
                done[await cost(eve)] += 1

        async def ask() -> None:
            began = time.monotonic()
            answer = await bob.post(f"{path}/messages?to=greeter", json={"name": "Bob"})
            assert answer.status_code == 200, answer.text
            taken.append(time.monotonic() - began)

        for _ in range(20):
            await ask()
        alone = sorted(taken)[10]
        taken.clear()
        for _ in range(16):
            tasks.start_soon(flood)
        await anyio.sleep(0.5)
        for _ in range(40):
            await ask()
        tasks.cancel_scope.cancel()
    taken.sort()
    told = f"light: median {taken[20] * 1000:.0f} ms (alone {alone * 1000:.0f}), slowest {taken[-1] * 1000:.0f} ms"
    assert taken[20] < 1, told
    return f"{told}; heavy: {dict(done)}"


async def large_messages(server: Target) -> str:
    """Send large messages."""
    large = b'{"name": "%s"}' % (b"x" * 700_000)
    async with server.client("eve") as eve:
        path = (await eve.post("/v1/conversations")).headers["location"]

    async def cost(eve: httpx.AsyncClient) -> int:
        url = f"{path}/messages?to=greeter&wait=0"
        return (await eve.post(url, content=large, headers=SHOWN)).status_code

    return await flood_costly(server, cost)


async def long_histories(server: Target) -> str:
    """Read all events of a long conversation."""
    async with server.client("eve") as eve:
        path = (await eve.post("/v1/conversations")).headers["location"]
        for _ in range(60):
            sent = await eve.post(f"{path}/messages?to=greeter", json={"name": "<&>" * 5000})
            assert sent.status_code == 200, sent.text

    async def cost(eve: httpx.AsyncClient) -> int:
        return (await eve.get(f"{path}/events?wait=0")).status_code

    return await flood_costly(server, cost)


async def smuggle_request(server: Target) -> str:
    """Send a request with two lengths and a second one within its body."""
    inner = head(server, "POST", "/v1/conversations", content_length="0")
    both = head(
        server, "POST", "/v1/conversations", content_length=str(5 + len(inner)), transfer_encoding="chunked"
    )
    async with await connect_server(server) as stream:
        await stream.send(both + b"0\r\n\r\n" + inner)
        said = b""
        with anyio.fail_after(HANGS):
            try:
                while True:
                    said += await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                pass
    assert said.startswith(b"HTTP/1.1 400 "), said
    assert said.count(b"HTTP/1.1 ") == 1, said
    return "400, and the connection is closed"


ATTACKS = (
    Attack(
        "MCP: 1,999 streams of one token",
        streams_of_mcp,
        with_hosts,
        principals=EVERYBODY,
        memory=200_000_000,
    ),
    Attack(
        "MCP: 1,999 calls without their body",
        calls_of_mcp,
        with_hosts,
        principals=EVERYBODY,
        memory=200_000_000,
    ),
    Attack(
        "HTTP: 1,999 streams of one token",
        streams_of_events,
        with_hosts,
        principals=EVERYBODY,
        memory=200_000_000,
    ),
    Attack(
        "MCP: 3,000 sessions of one token", sessions, with_hosts, principals=EVERYBODY, memory=100_000_000
    ),
    Attack("HTTP: large messages beside a light principal", large_messages, with_hosts, principals=EVERYBODY),
    Attack("HTTP: long histories beside a light principal", long_histories, with_hosts, principals=EVERYBODY),
    Attack(
        "HTTP: Content-Length and Transfer-Encoding",
        smuggle_request,
        with_hosts,
        principals=EVERYBODY,
        loop=1.0,
    ),
)
