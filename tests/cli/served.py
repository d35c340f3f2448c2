"""An organism that is served: one greeter, who takes a while over some names; and the process that serves it."""

from __future__ import annotations

import re
import subprocess
import sys

import httpx

from tests.machine import HANGS, PLAIN

CODE = '''
from dataclasses import dataclass

import anyio

from agentserver import HandlerMetadata, HandlerResponse, xmlify


@xmlify
@dataclass(frozen=True)
class Greet:
    """Somebody to greet."""

    name: str


@xmlify
@dataclass(frozen=True)
class Greeting:
    text: str


async def greet(payload: Greet, metadata: HandlerMetadata) -> HandlerResponse:
    if payload.name == "slow":
        await anyio.sleep(60)
    return HandlerResponse.respond(Greeting(f"Hello, {payload.name}"))
'''

ORGANISM = """
name: desk
listeners:
  - {name: greeter, description: Greets., payload_class: served_desk.Greet, handler: served_desk.greet}
limits: {drain: 1s}
"""


def write(home, http=""):
    """Write its files into a directory; ``http`` is a line of its YAML."""
    (home / "served_desk.py").write_text(CODE, "utf-8")
    (home / "organism.yaml").write_text(f"{ORGANISM}{http}\n", "utf-8")


class ServedProcess:
    """A server in a process of its own."""

    def __init__(self, home, token, *options):
        command = [sys.executable, "-m", "agentserver", "serve", *options, "organism.yaml"]
        self.process = subprocess.Popen(
            command,
            cwd=home,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        told = self.process.stderr.readline()
        found = re.fullmatch(r"(http://127\.0\.0\.1:\d+)\n", told)
        assert found, told + self.process.stderr.read()
        self.client = httpx.Client(
            base_url=found[1], headers={"authorization": f"Bearer {token}"}, timeout=HANGS, verify=PLAIN
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.close()
        self.process.kill()
        self.process.communicate()

    def open(self):
        return f"/v1/conversations/{self.client.post('/v1/conversations').json()['conversation']}"
