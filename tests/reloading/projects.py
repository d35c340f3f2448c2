"""Small projects that are served and reloaded: their files, their requests, and their modules in the process."""

from __future__ import annotations

import asyncio
import os
import sys
from functools import partial
from textwrap import dedent
from typing import Any

import anyio
import pytest

from agentserver.assembly import build
from agentserver.config import load
from agentserver.wire.envelope import read_envelope
from tests.machine import HANGS

FORMS = """
from dataclasses import dataclass
from agentserver import xmlify

@xmlify
@dataclass
class Ask:
    text: str

@xmlify
@dataclass
class Told:
    text: str
"""


class Project:
    """A project and the servers of it."""

    def __init__(self, root):
        self.root = root
        self.write("listeners/__init__.py", "")
        self.write("listeners/forms.py", FORMS)

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))

    def change(self, name: str, old: str = "", new: str = "") -> None:
        """Change a file: one text for another, or a comment that is added."""
        text = (self.root / name).read_text()
        assert old in text
        self.write(name, text.replace(old, new) if old else f"{text}\n# {len(text)}\n")

    def organism(self, *listeners: str, more: str = "") -> None:
        lines = "\n".join(f"  - {{{each}, description: Does.}}" for each in listeners)
        self.write("organism.yaml", f"name: demo\nlisteners:\n{lines}\n{dedent(more)}")

    async def load(self, after=None):
        read_it = partial(load, self.root / "organism.yaml", environ=os.environ, previous=after)
        return await anyio.to_thread.run_sync(read_it)

    async def server(self, **more: Any):
        return build(await self.load(), **more)

    async def reload(self, server):
        return await server.reload(await self.load(server.organism))


async def ask(server, text: str, to: str, handle: Any = None) -> str:
    """The text of the answer to a message; the code and text of a SystemError."""
    handle = handle or await server.open("me")
    codecs = server.rules.codecs
    kind = server.rules.blueprint.listeners[to].payloads[0]
    reply = await handle.ask(codecs.of(kind).encode(kind(text=text)).encode(), to)
    element = read_envelope(reply.message).payload
    found = codecs.for_root(element.tag).decode(element)
    return found.text if hasattr(found, "text") else f"{found.code}: {found.message}"


async def wait_settled(server) -> None:
    """Wait until earlier editions have left the process."""
    with anyio.fail_after(HANGS):
        while server._keepers._retiring:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0)


def modules() -> dict[str, Any]:
    """The modules of the tests' projects and of their editions that the process has."""
    tops = ("listeners", "edition")
    return {name: module for name, module in sys.modules.copy().items() if name.startswith(tops)}


@pytest.fixture
def project(tmp_path):
    before, finders = set(sys.modules), list(sys.meta_path)
    yield Project(tmp_path)
    sys.meta_path[:] = finders
    for name in set(sys.modules) - before:
        if name.split(".")[0] == "listeners" or name.startswith("edition"):
            del sys.modules[name]
