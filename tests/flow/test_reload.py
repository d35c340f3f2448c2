"""A flow that waits during a reload keeps its code while the process lives; all other rules are the present ones."""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager

import pytest

from agentserver import HandlerResponse
from agentserver.assembly import build
from agentserver.config import load
from agentserver.flow import ask, changed
from agentserver.flow.handler import FlowHandler
from agentserver.flow.lines import KEPT
from agentserver.payload.codec import Codecs
from agentserver.testing import listener, organism_of
from agentserver.wire.envelope import read_envelope
from tests.flow.test_handler import CLASSES, Find, Found, Invoice, Paid

pytestmark = pytest.mark.anyio


class House:
    """A server whose ledger answers the word ``wait`` when the test says so."""

    def __init__(self):
        self.gate, self.waits = asyncio.Event(), asyncio.Event()

    async def answer(self, payload: Find, metadata):
        if payload.what == "wait":
            self.waits.set()
            await self.gate.wait()
        return HandlerResponse.respond(Found(payload.what.upper()))

    def declare(self, flow, peers=("ledger",)):
        known = (*CLASSES, *KEPT)
        desk = listener("desk", FlowHandler(flow, Codecs(known)), Invoice, replies=known, peers=[*peers])
        return organism_of(desk, listener("ledger", self.answer))

    @asynccontextmanager
    async def reloaded(self, before, after, **settings):
        """Begin a flow, reload while it waits, and give what awaits its answer."""
        async with build(await asyncio.to_thread(self.declare, before)) as server:
            handle = await server.open("test")
            data = server.rules.codecs.of(Invoice).encode(Invoice(1)).encode()
            asking = asyncio.ensure_future(handle.ask(data, "desk"))
            await self.waits.wait()
            await server.reload(await asyncio.to_thread(self.declare, after, **settings))
            self.gate.set()
            reply = await asking
            payload = read_envelope(reply.message).payload
            yield server.rules.codecs.for_root(payload.tag).decode(payload)


async def old(invoice):
    await ask("ledger", Find("wait"))
    return Paid("old " + (await ask("ledger", Find("x"))).what)


async def new(invoice):
    await ask("ledger", Find("new"))
    return Paid("new")


async def test_a_waiting_flow_keeps_its_code_over_a_reload():
    async with House().reloaded(old, new) as answer:
        assert answer == Paid("old X")


async def test_an_evicted_flow_keeps_its_code_over_a_reload(monkeypatch):
    monkeypatch.setattr("agentserver.flow.handler.IN_MEMORY", 0)
    async with House().reloaded(old, new) as answer:
        assert answer == Paid("old X")


async def test_the_present_peers_hold_for_a_flow_of_before():
    async with House().reloaded(old, new, peers=()) as answer:
        assert answer.code == "routing"


async def test_a_changed_branch_is_taken_by_later_runs_alone(monkeypatch):
    monkeypatch.setattr(
        "agentserver.flow.handler.PINNED", 0
    )  # as after a restart: the present code replays it

    async def branch_flow(invoice):
        fast = await changed("fast")
        if not fast:
            await ask("ledger", Find("wait"))
        return Paid(f"{fast} {(await ask('ledger', Find('x'))).what} {await changed('fast')}")

    async with House().reloaded(old, branch_flow) as answer:
        assert answer == Paid("False X False")


DESK = """
from dataclasses import dataclass
from agentserver import xmlify
from agentserver.flow import ask

@xmlify
@dataclass(frozen=True)
class Start:
    number: int

@xmlify
@dataclass(frozen=True)
class Find:
    what: str

@dataclass(frozen=True)
class Found:
    what: str

GATES = []

async def find(found: Find) -> Found:
    for gate in GATES:
        await gate.pass_one()
    return Found(found.what)

async def flow(start: Start) -> Found:
    first = await ask("ledger", Find("a"), reply=Found)
    return await ask("ledger", Find(f"EDITION {first.what}"), reply=Found)
"""

YAML = """
name: house
journal: none
listeners:
  - {name: desk, handler: pinned_desk.flow, description: Asks., peers: [ledger]}
  - {name: ledger, handler: pinned_desk.find, description: Finds.}
"""


class Gate:
    """Lets listeners pass when the test says so."""

    def __init__(self):
        self.came, self.open = asyncio.Event(), asyncio.Event()

    async def pass_one(self):
        self.came.set()
        await self.open.wait()


async def test_a_flow_of_a_module_that_was_imported_again_keeps_its_classes(tmp_path):
    def edition(name):
        (tmp_path / "pinned_desk.py").write_text(DESK.replace("EDITION", name), "utf-8")
        (tmp_path / "organism.yaml").write_text(YAML, "utf-8")
        return load(tmp_path / "organism.yaml", environ={}, project=tmp_path, separate=True)

    async with build(await asyncio.to_thread(edition, "first")) as server:
        gate = Gate()
        handle = await server.open("test")
        (start,) = server.rules.blueprint.listeners["desk"].payloads
        sys.modules[start.__module__].GATES.append(gate)
        data = server.rules.codecs.of(start).encode(start(1)).encode()
        asking = asyncio.ensure_future(handle.ask(data, "desk"))
        await gate.came.wait()
        await server.reload(await asyncio.to_thread(edition, "second"))
        gate.open.set()
        reply = await asking
        assert b"first a" in reply.message
        assert b"second a" in (await handle.ask(data, "desk")).message
