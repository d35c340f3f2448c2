"""``complete`` inside handlers of a server, and the absence of keys from storage, logs and messages."""

from __future__ import annotations

import asyncio
import logging
import sys
from textwrap import dedent

import pytest

from agentserver.assembly import build
from agentserver.config import load
from agentserver.config.loading import forget
from agentserver.extras import MissingExtraError
from agentserver.llm import Completion, complete
from agentserver.payload.codec import Codecs
from agentserver.testing import organism

pytestmark = pytest.mark.anyio
KEY = "canary-key-7781"

CODE = """
from __future__ import annotations
from dataclasses import dataclass
from agentserver import HandlerResponse, xmlify
from agentserver.llm import complete

@xmlify
@dataclass
class Question:
    text: str
    crash: bool = False

@xmlify
@dataclass
class Said:
    text: str

async def ask(payload: Question, metadata) -> HandlerResponse:
    done = await complete(
        model="m", messages=[{"role": "user", "content": payload.text}], agent_id=metadata.own_name
    )
    if payload.crash:
        raise RuntimeError(f"no {done}")
    return HandlerResponse.respond(Said(f"{done.model}: {done.content}"))
"""

YAML = """
name: asking
listeners:
  - {{name: asker, agent: true, peers: [], handler: asking.ask, description: Asks.}}
llm:
  backends:
    - {{name: b, {backend}}}
  models:
    - {{name: m, backends: [b], retries: 0}}
"""


@pytest.fixture
def project(tmp_path):
    """Writes a project whose backend says so; gives its organism."""
    loaded = []

    def write(backend, script="- text: pong\n"):
        (tmp_path / "asking.py").write_text(CODE)
        (tmp_path / "script.yaml").write_text(script)
        path = tmp_path / "organism.yaml"
        path.write_text(dedent(YAML).format(backend=backend))
        loaded.append(load(path, environ={"KEY": KEY}))
        return loaded[-1]

    yield write
    for one in loaded:
        forget(one)


async def test_outside_a_handler_there_is_nobody_to_ask():
    with pytest.raises(RuntimeError, match="no handler is running"):
        await complete(model="m", messages=[{"role": "user", "content": "x"}])


async def ask_bed(project, backend, script="- text: pong", crash=False):
    async with organism(await asyncio.to_thread(project, backend, script)) as bed:
        import asking

        return await bed.ask(asking.Question("ping", crash), "asker")


async def test_a_handler_asks_a_scripted_model(project):
    assert (await ask_bed(project, "provider: scripted, script: script.yaml")).text == "script: pong"


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ("rate", "busy"),
        ("unavailable", "busy"),
        ("timeout", "timeout"),
        ("context", "internal"),
        ("answer", "internal"),
        ("malformed", "internal"),
        ("rejected", "internal"),
        ("cut", "internal"),
        ("budget", "budget"),
    ],
)
async def test_a_caller_learns_the_kind_of_a_failure_that_the_handler_let_pass(project, fault, code):
    refused = await ask_bed(project, "provider: scripted, script: script.yaml", f"- fault: {fault}")
    assert refused.code == code


async def test_the_models_of_a_program_take_the_place_of_those_declared(project):
    class Own:
        async def complete(self, model, request):
            return Completion(f"{model} for {request.agent}", model="own")

    loaded = await asyncio.to_thread(project, "provider: scripted, script: script.yaml")
    async with build(loaded, completer=Own()) as server:
        handle = await server.open("ada")
        reply = await anext(handle.replies(question(), "asker"))
        assert b"own: m for asker" in reply.message


def question(crash=False):
    import asking

    return Codecs([asking.Question]).of(asking.Question).encode(asking.Question("ping", crash)).encode()


def contents(folder):
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize(("model", "crash"), [("ok", False), ("401", False), ("500", False), ("ok", True)])
async def test_a_key_is_in_no_log_trace_answer_or_journal(
    project, providers, provider, model, crash, caplog, tmp_path
):
    caplog.set_level(logging.DEBUG)
    backend = (
        f'provider: {provider}, model: "{model}", key: "${{KEY}}", base_url: "{providers.url}/{provider}"'
    )
    loaded = await asyncio.to_thread(project, backend)
    async with build(loaded, durable=True) as server:
        handle = await server.open("ada")
        replies = [reply.message async for reply in handle.replies(question(crash), "asker")]
        trace = repr(server.trace)
    kept = await asyncio.to_thread(contents, tmp_path / "out")
    assert providers.keys == [KEY]
    assert b"asker" in kept
    everything = [
        caplog.text,
        repr([vars(record) for record in caplog.records]),
        trace,
        repr(loaded),
        repr(replies),
    ]
    assert not any(KEY in text for text in everything)
    assert KEY.encode() not in kept


async def test_a_provider_without_an_installed_sdk_is_reported_before_the_server_is_ready(
    project, monkeypatch
):
    loaded = await asyncio.to_thread(project, 'provider: openai, model: ok, key: "${KEY}"')
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    with pytest.raises(MissingExtraError, match="needs the extra llm"):
        async with build(loaded):
            pass
