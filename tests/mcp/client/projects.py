"""Organisms whose listeners are the tools of one server, and what a test asks them."""

from __future__ import annotations

import json
import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from agentserver import config, testing
from agentserver.config.code.tools import lock_path
from agentserver.config.glimpse import read_servers
from agentserver.contract import SystemError
from agentserver.mcp.client.connection import ask
from agentserver.mcp.client.process import plain
from agentserver.payload.foreign.lock import write_lock
from tests.machine import HANGS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

HOSTILE = Path(__file__).with_name("hostile.py")
TOOLS = ("echo", "slow", "environment", "die", "huge", "mixed", "sum", "asks", "tell")


class Project:
    """An organism whose listeners are the tools of one server."""

    def __init__(self, root: Path, tools: Sequence[str] = TOOLS, way: str = "") -> None:
        self.root = root
        self.tools = tools
        called = json.dumps([sys.executable, str(HOSTILE), str(root / "notes")])
        self.way = way or f"command: {called}\n    env: [NAMED]"
        self.notes = root / "notes"
        self.notes.mkdir()
        self.environ = {"PATH": os.environ["PATH"], "SECRET": "canary", "NAMED": "named"}
        self.say()

    def say(self, *, tools: str = "", server: str = "") -> None:
        named = "".join(f"{{name: {name}, trust: source{tools}}}, " for name in self.tools)
        (self.root / "organism.yaml").write_text(
            f"name: desk\njournal: none\nlisteners: []\nprovenance: {{mode: audit}}\n"
            f"mcp:\n  - name: far\n    {self.way}\n    tools: [{named}]\n{server}"
        )

    def lock(self) -> None:
        found, directory, mistakes = read_servers(self.root / "organism.yaml", self.environ)
        assert mistakes == ()
        path = self.root / lock_path("far")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(write_lock(ask(found[0], directory, plain).lock))

    def load(self) -> config.Organism:
        return config.load(self.root / "organism.yaml", environ=self.environ)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Bed]:
        organism = await anyio.to_thread.run_sync(self.load)
        async with testing.organism(organism, timeout=HANGS, real_tools=True) as bed:
            yield Bed(bed, organism)

    def noted(self, name: str) -> str:
        path = self.notes / name
        return path.read_bytes().decode() if path.exists() else ""


class Bed:
    def __init__(self, bed: testing.Testbed, organism: config.Organism) -> None:
        self.bed = bed
        self.payloads = {each.listener.name: each.listener.payloads[0] for each in organism.listeners}

    async def call(self, tool: str, **fields: Any) -> Any:
        """The answer to one call."""
        name = f"far.{tool}"
        return await self.bed.ask(self.payloads[name](**fields), to=name)


async def wait_for_file(holds: Callable[[], bool]) -> None:
    """Wait for what another process does."""
    with anyio.fail_after(HANGS):
        while not holds():  # noqa: ASYNC110 - nothing tells of it
            await anyio.sleep(0.02)


def alive(group: int) -> list[str]:
    """The processes of a group, but for those that only wait to be seen dead by whoever adopted them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, rest = path.read_text().rsplit(")", 1)
        except OSError:
            continue
        state, _, pgrp = rest.split()[:3]
        if int(pgrp) == group and state != "Z":
            found.append(name)
    return found


def code(answer: Any) -> str:
    assert isinstance(answer, SystemError), answer
    return str(answer.code)
