"""An organism under test reaches no provider, no MCP server, no resource and no file of its own."""

from __future__ import annotations

import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from textwrap import dedent

import anyio
import pytest

import agentserver
from agentserver import HandlerResponse, SystemError, invocation
from agentserver.completion import Completion
from agentserver.config import forget, load
from agentserver.llm import complete
from agentserver.testing import listener, organism, organism_of, script_model
from tests.core.paper import Answer, Ask
from tests.llm.conftest import models, request
from tests.llm.providers import serve_providers
from tests.mcp.client.projects import Project

pytestmark = pytest.mark.anyio

CODE = """
from __future__ import annotations
from asyncio import to_thread
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
import agentserver
from agentserver import HandlerResponse, invocation, xmlify
from agentserver.llm import complete

@xmlify
@dataclass
class Order:
    text: str

@xmlify
@dataclass
class Booked:
    text: str

class Ledger:
    def __init__(self, path):
        self.path = path

    def write(self, text):
        self.path.write_text(text)

@asynccontextmanager
async def ledger():
    book = Ledger(Path("ledger.txt"))
    await to_thread(book.write, "opened")
    yield book

async def book(payload: Order, metadata) -> HandlerResponse:
    said = await complete(model="writer", messages=[{"role": "user", "content": payload.text}])
    await to_thread(invocation().resource(Ledger).write, said.content)
    return HandlerResponse.respond(Booked(said.content))
"""

YAML = """
name: shop
listeners:
  - {{name: books, handler: shopping.book, agent: true, description: Keeps books.}}
llm:
  backends:
    - {{name: main, provider: openai, model: ok, key: "${{KEY}}", base_url: "{url}/openai"}}
    - {{name: spare, provider: anthropic, model: ok, key: "${{KEY}}", base_url: "{url}/anthropic"}}
  models: [{{name: writer, backends: [main, spare]}}]
lifespan: shopping.ledger
journal: {{path: real.sqlite}}
otel: {{endpoint: "{url}"}}
{more}
"""


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """Writes a project that would spend money; gives its file and the provider. Nothing but the kit holds it back."""
    monkeypatch.chdir(tmp_path)
    loaded = []
    with serve_providers() as providers:

        def write(more=""):
            (tmp_path / "shopping.py").write_text(dedent(CODE))
            path = tmp_path / "organism.yaml"
            path.write_text(dedent(YAML).format(url=providers.url, more=more))
            loaded.append(load(path, environ={"KEY": "canary-key-7781"}))
            return loaded[-1], providers

        yield write
    for one in loaded:
        forget(one)


def ledger(path):
    return sys.modules["shopping"].Ledger(path)


def order(text="tea"):
    return sys.modules["shopping"].Order(text)


async def test_a_provider_is_never_asked_and_the_error_names_the_argument(shop, tmp_path):
    made, providers = await anyio.to_thread.run_sync(shop)
    with pytest.raises(AssertionError, match=r'models=\{"writer": script_model\("..."\)\}'):
        async with organism(made, resources=[]) as bed:
            await bed.ask(order())
    assert providers.asked == []


async def test_a_script_answers_in_place_of_the_provider(shop, tmp_path):
    made, providers = await anyio.to_thread.run_sync(shop)
    answers = {"writer": script_model("one", lambda prompt: Completion(prompt.messages[0].content))}
    async with organism(made, models=answers, resources=[ledger(tmp_path / "mine")]) as bed:
        assert (await bed.ask(order())).text == "one"
        assert (await bed.ask(order("two"))).text == "two"
        assert [prompt.messages[0].content for prompt in bed.prompts("writer")] == ["tea", "two"]
    assert providers.asked == []
    assert await anyio.Path(tmp_path / "mine").read_text() == "two"


async def test_neither_ledger_nor_journal_of_the_project_is_touched(shop, tmp_path):
    made, _ = await anyio.to_thread.run_sync(shop)
    async with organism(
        made, models={"writer": script_model("one")}, resources=[ledger(tmp_path / "mine")]
    ) as bed:
        await bed.ask(order())
    assert {file.name for file in tmp_path.iterdir() if file.is_file()} == {
        "shopping.py",
        "organism.yaml",
        "mine",
    }


async def test_resources_that_a_test_does_not_give_are_an_error_before_anything_starts(shop, tmp_path):
    made, _ = await anyio.to_thread.run_sync(shop)
    with pytest.raises(ValueError, match=r"lifespan: ledger opens resources.*resources=\[\.\.\.\]"):
        async with organism(made, models={"writer": script_model("one")}):
            pass
    assert not (tmp_path / "ledger.txt").exists()


async def test_a_lifespan_of_a_test_is_entered_and_left(shop, tmp_path):
    made, _ = await anyio.to_thread.run_sync(shop)
    seen = []

    @asynccontextmanager
    async def mine():
        seen.append("entered")
        yield ledger(tmp_path / "mine")
        seen.append("left")

    async with organism(made, models={"writer": script_model("one")}, resources=mine) as bed:
        assert (await bed.ask(order())).text == "one"
    assert seen == ["entered", "left"]


async def test_a_script_that_is_too_short_fails_the_test(shop):
    made, _ = await anyio.to_thread.run_sync(shop)
    with pytest.raises(AssertionError, match="the model writer was asked 1 times; its script has 0 turns"):
        async with organism(made, models={"writer": script_model()}, resources=[]) as bed:
            await bed.ask(order())


async def test_a_script_of_an_unknown_model_is_an_error(shop):
    made, _ = await anyio.to_thread.run_sync(shop)
    with pytest.raises(ValueError, match="no model 'writr'; did you mean 'writer'"):
        async with organism(made, models={"writr": script_model("x")}, resources=[]):
            pass


async def ask_small(payload: Ask, metadata) -> HandlerResponse:
    done = await complete(model="small", messages=[{"role": "user", "content": payload.text}])
    return HandlerResponse.respond(Answer(f"{done.content} {done.finish} {len(invocation().resource(list))}"))


CODED = organism_of(listener("a", ask_small, Ask, replies=[Answer]))


async def test_an_organism_made_in_code_gets_the_models_of_the_test():
    turns = script_model({"text": "hi"}, {"fault": "rate"})
    async with organism(CODED, models={"small": turns}, resources=[[1, 2]]) as bed:
        assert (await bed.ask(Ask("x"), "a")).text == "hi stop 2"
        refused = await bed.ask(Ask("x"), "a")
    assert isinstance(refused, SystemError)
    assert refused.code == "busy"


@pytest.fixture
def refusal():
    """The error of a call that the environment refuses. Its module imports the SDKs, which takes 4 s."""
    from agentserver.llm.providers import ModelsRefusedError

    return ModelsRefusedError


async def test_the_environment_refuses_every_call_of_a_provider(remote, providers, monkeypatch, refusal):
    monkeypatch.setenv("AGENTSERVER_ALLOW_MODELS", "0")
    async with models(remote("ok")) as completer:
        with pytest.raises(refusal, match="AGENTSERVER_ALLOW_MODELS=0 refuses the call of ok"):
            await completer.complete("m", request())
    assert providers.asked == []


def test_this_run_of_tests_is_guarded():
    assert os.environ["AGENTSERVER_ALLOW_MODELS"] == "0"


@pytest.fixture
def far(tmp_path):
    """A project whose listeners are tools of an MCP server."""

    def make():
        project = Project(tmp_path, ["echo"])
        project.lock()
        for note in project.notes.iterdir():
            note.unlink()
        return project, project.load()

    return make


async def test_no_mcp_server_is_started_and_the_error_names_the_argument(far):
    project, made = await anyio.to_thread.run_sync(far)
    payload = made.listeners[0].listener.payloads[0]
    with pytest.raises(AssertionError, match=r'far.echo is a tool .*scripted=\{"far.echo": \[\.\.\.\]\}'):
        async with organism(made) as bed:
            await bed.ask(payload(text="x"), "far.echo")
    assert [*project.notes.iterdir()] == []


async def test_a_script_answers_in_place_of_a_tool_of_an_mcp_server(far):
    project, made = await anyio.to_thread.run_sync(far)
    kind = made.listeners[0].listener.payloads[0]
    async with organism(made, scripted={"far.echo": [None]}) as bed:
        assert await bed.ask(kind(text="x"), "far.echo") is None
        assert [call.payload for call in bed.calls("far.echo")] == [kind(text="x")]
    assert [*project.notes.iterdir()] == []


def test_the_template_of_a_project_guards_its_tests():
    template = Path(agentserver.__file__).parent / "cli/scaffold/common/tests/conftest.py.txt"
    assert 'os.environ["AGENTSERVER_ALLOW_MODELS"] = "0"' in template.read_text()
