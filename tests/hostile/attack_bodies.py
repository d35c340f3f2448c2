"""Attacks with JSON bodies of HTTP and AG-UI."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import anyio

from tests.cli.served import write
from tests.foreign_json.bombs import PLAIN
from tests.hostile.harness import Attack

if TYPE_CHECKING:
    from pathlib import Path

    from tests.hostile.harness import Target

MB = 1_000_000
FRONT = {"content-type": "application/json", "accept": "application/json, text/event-stream"}


def with_front_end(home: Path) -> None:
    """Write an organism that AG-UI front ends and MCP hosts reach."""
    write(home, "http: {bind: '127.0.0.1:0', agui: yes}\nmcp_server: {expose: [greeter], trust: orders}")


def tool_calls(many: int) -> bytes:
    """Make a run's input whose one message of an assistant has ``many`` empty tool calls."""
    calls = b",".join([b"{}"] * many)
    message = b'{"id":"1","role":"assistant","toolCalls":[%s]}' % calls
    return b'{"threadId":"t","runId":"r","messages":[%s],"tools":[],"context":[],"state":{}}' % message


async def sixteen(server: Target, body: bytes, statuses: set[int]) -> str:
    """Ask for sixteen runs at once with one body."""
    answers: Counter[int] = Counter()

    async def ask() -> None:
        answers[await server.posted("/v1/agui/greeter", body, FRONT)] += 1

    async with anyio.create_task_group() as tasks:
        for _ in range(16):
            tasks.start_soon(ask)
    assert set(answers) <= statuses, dict(answers)
    return f"{dict(answers)}"


async def many_calls(server: Target) -> str:
    """Send 1 MB of empty tool calls; each used to be an error of its own."""
    return await sixteen(server, tool_calls(332_000), {422})


async def too_large(server: Target) -> str:
    """Send more bytes than any body may have."""
    return await sixteen(server, b'{"threadId":"%s"}' % (b"a" * 2_000_000), {413, 0})


async def every_bomb(server: Target) -> str:
    """Send each bomb of the corpus once, to each route that reads JSON."""
    async with server.client() as client:
        opened = (await client.post("/v1/conversations")).json()["conversation"]
    paths = (
        f"/v1/conversations/{opened}/messages?to=greeter",
        "/v1/agui/greeter",
        "/v1/approvals/1",
    )
    answers: Counter[int] = Counter()
    for bomb in PLAIN.values():
        for path in paths:
            answers[await server.posted(path, bomb, FRONT)] += 1
    assert set(answers) == {422}, dict(answers)
    for bomb in PLAIN.values():
        status = await server.posted("/live/session", bomb, {**FRONT, "x-agentserver": "1"})
        assert status in (401, 422), status
        status = await server.posted("/mcp", bomb, FRONT)
        assert status in (400, 422), (
            status
        )  # what is within the limits and no message of MCP is its library's 400
    return f"{dict(answers)}"


ATTACKS = (
    Attack("AG-UI: 16 bodies of 2 MB", too_large, with_front_end, loop=2.0),
    Attack(
        "AG-UI: 16 bodies of 1 MB of toolCalls:[{},...]",
        many_calls,
        with_front_end,
        loop=3.0,
        memory=150 * MB,
    ),
    Attack("HTTP, AG-UI and MCP: every bomb", every_bomb, with_front_end, loop=6.0, memory=150 * MB),
)
