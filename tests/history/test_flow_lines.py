"""Lines of source in the trace of a flow."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

import anyio
import pytest

from agentserver.assembly import build
from agentserver.engines.memory import MemoryEngine
from agentserver.flow import ask, gather, sleep, tell
from agentserver.gateways.live import views
from agentserver.history.flows import find_flow_lines
from agentserver.payload.codec import Codecs
from agentserver.payload.functions import payload_of
from agentserver.testing import listener, organism_of
from agentserver.trace.redact import Redaction
from agentserver.trace.text import format_tree_text, iter_json_lines, render_page
from tests.machine import HANGS

pytestmark = pytest.mark.anyio


async def echo(text: str) -> str:
    return text


Echo = payload_of(echo)


@dataclass(frozen=True)
class Found:
    text: str


async def helper(text: str) -> str:
    return (await ask("echo", Echo(text))).value


async def work(word: str) -> str:
    await tell("echo", Echo("told"))
    await ask("echo", Echo(word))
    await gather(ask("echo", Echo("one")), helper("two"), sleep(timedelta(0)))
    return word


HOUSE = organism_of(listener("work", work, peers=["echo"]), listener("echo", echo))
WORK = payload_of(work)


@asynccontextmanager
async def run_flow(house, payload, to):
    """Let a listener answer one message; yields the engine and the recorded conversation."""
    data = Codecs([type(payload)]).of(type(payload)).encode(payload).encode()
    with anyio.fail_after(HANGS):
        engine = MemoryEngine(recorded=True)
        async with build(house, engine=engine) as server:
            handle = await server.open("ann")
            await handle.ask(data, to)
            yield engine, await engine.read(lambda reader: reader.recorded_conversation(handle.id))


async def test_each_message_of_a_flow_has_the_line_that_sent_it():
    async with run_flow(HOUSE, WORK("x"), "work") as (engine, recorded):
        live = await engine.read(
            lambda reader: views.describe_conversation(reader, Redaction(), recorded.beginning.id)
        )
        saved = await engine.read(lambda reader: views.download(reader, Redaction(), recorded.beginning.id))
    lines, first = find_flow_lines(recorded), work.__code__.co_firstlineno
    records = recorded.records()
    shown = [
        each.split("line ")[-1]
        for each in format_tree_text(records, lines_of=lines).splitlines()
        if "  line " in each
    ]
    expected = [first + 1, first + 2, first + 3, helper.__code__.co_firstlineno + 1, first + 3]
    assert list(map(int, shown)) == expected
    told = [json.loads(each) for each in iter_json_lines(records, lines_of=lines)]
    assert [each["line"] for each in told if "line" in each] == expected
    marked = re.findall(r"  line (\d+)</div>", render_page("a flow", records, lines_of=lines))
    assert list(map(int, marked)) == expected
    assert [each["line"] for each in live["rows"] if each.get("line")] == expected
    assert [each["line"] for each in map(json.loads, saved.splitlines()) if "line" in each] == expected


async def stream(word: str) -> AsyncIterator[str | Found]:
    yield "begun"
    await ask("echo", Echo(word))
    yield Found(await helper(word))


STREAM = payload_of(stream)
STREAMS = organism_of(listener("stream", stream, peers=["echo"]), listener("echo", echo))


async def test_a_generator_has_the_lines_of_its_own_code():
    async with run_flow(STREAMS, STREAM("x"), "stream") as (_, recorded):
        pass
    first = stream.__code__.co_firstlineno
    assert [*find_flow_lines(recorded).values()] == [first + 2, helper.__code__.co_firstlineno + 1]
