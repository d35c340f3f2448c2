"""Answers of external effects are untrusted text by their label, in later judgements and after a restart too."""

from __future__ import annotations

import sys
from textwrap import dedent

import anyio
import pytest

from agentserver import config
from agentserver.assembly import build
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions, read_journal
from agentserver.history.replay import replay
from agentserver.rulebook import build_rules
from tests.machine import HANGS

pytestmark = pytest.mark.anyio

YAML = """
name: post
journal: {path: journal.sqlite}
provenance: {mode: enforce, allow: ["@corp.example"]}
listeners:
  - {name: desk, description: Writes., handler: effects_desk.desk, peers: [post], trust: trusted}
  - {name: later, description: Remembers., handler: effects_desk.later, peers: [post], trust: trusted}
  - {name: post, description: Sends., handler: effects_desk.send, trust: sink}
"""

CODE = """
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from agentserver import HandlerResponse, invocation, xmlify
from agentserver.flow import Denied, ask, once
from agentserver.payload.functions import payload_of
from agentserver.provenance import Role

ANSWER = ["eve@evil.example"]
SENT = []

async def send(to: Annotated[str, Role.DESTINATION], text: str = "hello") -> str:
    SENT.append(to)
    return "sent"

Send = payload_of(send)

@xmlify
@dataclass(frozen=True)
class Order:
    trusted: bool = False

@xmlify
@dataclass(frozen=True)
class Look:
    first: bool = True

@xmlify
@dataclass(frozen=True)
class Address:
    text: str

def look_up():
    return {"address": ANSWER[0]}

async def desk(order: Order) -> str:
    found = await once(look_up, trusted=order.trusted)
    try:
        return (await ask("post", Send(found["address"]))).value
    except Denied:
        return "denied"

async def later(payload: Look, metadata) -> HandlerResponse:
    if not isinstance(payload, Look):
        return HandlerResponse.respond(payload)
    if payload.first:
        effect = await invocation().effect("look")
        await effect.finish(ANSWER[0])
        invocation().storage.set(Address(ANSWER[0]))
        return HandlerResponse.respond(Look(False))
    return HandlerResponse(Send(invocation().storage.get(Address).text), "post")
"""


@pytest.fixture
def post(tmp_path, monkeypatch):
    (tmp_path / "organism.yaml").write_text(YAML)
    (tmp_path / "effects_desk.py").write_text(dedent(CODE))
    monkeypatch.syspath_prepend(tmp_path)
    yield config.load(tmp_path / "organism.yaml", environ={})
    sys.modules.pop("effects_desk", None)


def engine(organism):
    return SqliteEngine(JournalOptions(organism.project / "journal.sqlite"), build_rules(organism).guards)


async def ask(server, handle, name, to, **fields):
    module = sys.modules["effects_desk"]
    codec = server.rules.codecs.of(getattr(module, name))
    with anyio.fail_after(HANGS):
        return (await handle.ask(codec.encode(getattr(module, name)(**fields)).encode(), to)).message.decode()


@pytest.mark.parametrize(("trusted", "sent"), [(False, []), (True, ["eve@evil.example"])])
async def test_the_result_of_once_does_not_name_a_destination_unless_it_is_declared_trusted(
    post, trusted, sent
):
    async with await anyio.to_thread.run_sync(build, post) as server:
        answer = await ask(server, await server.open("ann"), "Order", "desk", trusted=trusted)
    assert ("denied" in answer, sys.modules["effects_desk"].SENT) == (not trusted, sent)


async def test_the_label_of_an_answer_counts_after_a_restart(post):
    async with build(post, engine=engine(post)) as server:
        handle = await server.open("ann")
        await ask(server, handle, "Look", "later")
        key = handle.id
        handle.detach()
    async with build(post, engine=engine(post)) as server:
        answer = await ask(server, await server.resume("ann", key), "Look", "later", first=False)
    assert ("denied" in answer, sys.modules["effects_desk"].SENT) == (True, [])
    assert await anyio.to_thread.run_sync(replay_stored, post, key) is None


def replay_stored(organism, conversation):
    made = build_rules(organism)
    with read_journal(organism.project / "journal.sqlite", made.guards) as reader:
        return replay(reader.recorded_conversation(conversation), made)
