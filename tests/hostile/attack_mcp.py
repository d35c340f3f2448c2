"""Attacks of a foreign MCP server on the server that calls its tools."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agentserver.config.code.tools import lock_path
from agentserver.payload.foreign.lock import LockedTool, ServerLock, write_lock
from tests.hostile.harness import Attack
from tests.hostile.rogue import RESULTS, SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.hostile.harness import Target

MB = 1_000_000
ROGUE = Path(__file__).with_name("rogue.py")
TOO_MANY = "must have at most 50000 values"
TOLD = {
    "invalid": TOO_MANY,
    "invalid_within_limits": "",
    "valid": TOO_MANY,
    "deep": "must nest at most 64 objects and arrays",
    "twice": "",
}
"""Return the answer to each bomb; empty where its caller only learns that something failed."""


def with_tools(home: Path, way: str) -> None:
    """Write an organism whose listeners are the tools of the rogue server."""
    tools = "".join(f"{{name: {name}, trust: source}}, " for name in RESULTS)
    (home / "organism.yaml").write_text(
        f"name: desk\nlisteners: []\nprovenance: {{mode: audit}}\nhttp: {{bind: '127.0.0.1:0'}}\n"
        f"mcp:\n  - name: far\n    {way}\n    tools: [{tools}]\n",
        "utf-8",
    )
    locked = tuple(LockedTool(name, "Answers.", SCHEMA) for name in RESULTS)
    path = home / lock_path("far")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(write_lock(ServerLock("rogue 1", "2025-06-18", locked)), "utf-8")


async def bombs(server: Target) -> str:
    """Call each tool: the caller of a bomb gets an error at once, and the next call of a sound tool is answered."""
    async with server.client() as client:
        path = f"/v1/conversations/{(await client.post('/v1/conversations')).json()['conversation']}/messages"

        async def call(tool: str) -> tuple[int, str]:
            answer = await client.post(f"{path}?to=far.{tool}", json={})
            return answer.status_code, answer.text

        for tool, words in TOLD.items():
            status, text = await call(tool)
            assert status == (200 if words else 502), (tool, status, text)
            assert words in text, (tool, text)
            status, text = await call("fine")
            assert "well" in text, (tool, status, text)
    return "each refused, and a sound answer taken after it"


@contextmanager
def over_streams(home: Path) -> Iterator[None]:
    """Have the server start the rogue server itself."""
    with_tools(home, f"command: {json.dumps([sys.executable, str(ROGUE)])}")
    yield


@contextmanager
def over_http(kind: str, home: Path) -> Iterator[None]:
    """Run the rogue server over HTTP as a second process."""
    with subprocess.Popen([sys.executable, str(ROGUE), kind], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            with_tools(home, f"url: http://127.0.0.1:{process.stdout.readline().strip()}/mcp")
            yield
        finally:
            process.kill()


ATTACKS = (
    Attack("MCP server over stdio: every bomb", bombs, around=over_streams, loop=3.0, memory=250 * MB),
    Attack(
        "MCP server over HTTP: every bomb",
        bombs,
        around=partial(over_http, "json"),
        loop=3.0,
        memory=250 * MB,
    ),
    Attack(
        "MCP server over SSE: every bomb", bombs, around=partial(over_http, "sse"), loop=3.0, memory=250 * MB
    ),
)
