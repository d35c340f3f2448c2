"""The organism that is attacked, as files of a project.

Its handlers log each call before they work: that is how the harness knows the calls in flight.
"""

from __future__ import annotations

from pathlib import Path

MODULE = "crash_desk"
LEASE = 5.0
"""Seconds of the lease, the default of the engine."""

SLOW = 1.5
"""Seconds that a slow message keeps its handler busy."""

NAP = 1.0
"""Seconds that a flow sleeps."""

CODE = '''
import asyncio
import os
from dataclasses import dataclass
from datetime import timedelta
from uuid import uuid4

from agentserver import HandlerResponse, invocation, xmlify
from agentserver.flow import EffectUnknown, ask, gather, once, sleep, wait_for

LOG = os.open(os.environ.get("CRASH_LOG", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


@xmlify
@dataclass(frozen=True)
class Order:
    """An order of a client."""

    kind: str
    text: str


@xmlify
@dataclass(frozen=True)
class Ask:
    """A question of the desk to another listener."""

    text: str


@xmlify
@dataclass(frozen=True)
class Answer:
    """The answer to a question or an order."""

    text: str


def log(listener, text):
    server, delivery = os.environ.get("CRASH_SERVER", "-"), invocation().idempotency_key
    os.write(LOG, f"{server} {listener} {delivery} {text}\\n".encode())


async def desk(payload: object, metadata) -> HandlerResponse:
    if isinstance(payload, Answer):
        return HandlerResponse.respond(payload)
    if not isinstance(payload, Order):
        return HandlerResponse.respond(Answer("refused"))
    log("desk", payload.text)
    if payload.kind == "slow":
        await asyncio.sleep(SECONDS)
    if payload.kind in {"tool", "vault", "flow"}:
        return HandlerResponse(Ask(payload.text), payload.kind)
    return HandlerResponse.respond(Answer(payload.text))


async def tool(payload: Ask, metadata) -> HandlerResponse:
    log("tool", payload.text)
    return HandlerResponse.respond(Answer(payload.text))


def pay(text):
    """A payment of a flow: two of them are two ids in the log."""
    os.write(LOG, f"{os.environ.get('CRASH_SERVER', '-')} bank {uuid4()} {text}\\n".encode())
    return "paid"


async def flow(order: Ask) -> Answer:
    await gather(ask("tool", Ask(f"{order.text}-a")), ask("tool", Ask(f"{order.text}-b")))
    await sleep(timedelta(seconds=NAP))  # through the deaths of servers whose clocks are two hours apart
    try:
        await once(pay, order.text)
    except EffectUnknown:
        return Answer(order.text)
    return await wait_for(ask("tool", Ask(f"{order.text}-c"), reply=Answer), timeout=timedelta(minutes=30))
'''

YAML = """\
name: crash
http: {{bind: "127.0.0.1:0"}}
{keeping}
listeners:
  - name: desk
    description: Takes orders.
    payload_class: crash_desk.Order
    handler: crash_desk.desk
    replies: crash_desk.Answer
    peers: [tool, vault, flow]
    concurrency: 64
  - {{name: flow, description: Asks and pays once., handler: crash_desk.flow, peers: [tool], concurrency: 64}}
  - {{name: tool, description: Answers., payload_class: crash_desk.Ask, handler: crash_desk.tool}}
  - {{name: vault, description: Answers once a person agrees., payload_class: crash_desk.Ask, handler: crash_desk.tool, approval: required}}
limits: {{drain: 2s, principal_conversations: 1000000, principal_queue: 100000, queue: 100000, fatal_ends: 100}}
{more}
"""

POSTGRES = f'engine: {{postgres: {{url: "${{DATABASE_URL}}", lease: {LEASE:g}s, wait: 60s}}}}'


def write(home: Path, keeping: str, more: str = "") -> Path:
    """Write the project; gives the path of its YAML."""
    home.mkdir(parents=True, exist_ok=True)
    (home / f"{MODULE}.py").write_text(CODE.replace("SECONDS", str(SLOW)).replace("NAP", str(NAP)), "utf-8")
    path = home / "organism.yaml"
    path.write_text(YAML.format(keeping=keeping, more=more), "utf-8")
    return path
