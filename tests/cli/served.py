"""An organism that is served: one greeter, who takes a while over some names."""

from __future__ import annotations

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
