"""Parts of a tool and of a call that a host gets: progress, the release of the server, the schema of answers."""

from __future__ import annotations

from dataclasses import dataclass

import anyio
import jsonschema
import pytest
from mcp import Client

from agentserver import HandlerMetadata, HandlerResponse, xmlify
from agentserver.assembly import Principal, Trust, build
from agentserver.mcp import ToolData, ToolFailure, ToolResult
from agentserver.mcp.serving.transport import RELEASE, ServedOrganism
from agentserver.testing import listener, organism_of
from tests.mcp.serving.test_given_up import book, home, serve_teller  # noqa: F401 - fixtures

pytestmark = pytest.mark.anyio


@xmlify
@dataclass(frozen=True)
class Ask:
    text: str


@xmlify
@dataclass(frozen=True)
class Other:
    text: str


ANSWERS = {
    "well": ToolResult(["it is done"], [ToolData("image/png", b"\x00\x01")]),
    "badly": ToolFailure(["it cannot be done"]),
    "otherwise": Other("what nobody knew"),
}


async def answer(payload: Ask, metadata: HandlerMetadata) -> HandlerResponse:
    return HandlerResponse.respond(ANSWERS[payload.text])


@dataclass(frozen=True)
class Exposed:
    """The keys of ``mcp_server:``."""

    expose: tuple[str, ...] = ("known", "unknown")
    trust: Trust = Trust.ORDERS
    approvals: str = ""
    deadline: float = 60.0


@pytest.fixture
def organism():
    return organism_of(
        listener("known", answer, Ask, answers=(ToolResult, ToolFailure)),
        listener("unknown", answer, Ask, replies=(Other, ToolResult, ToolFailure)),
    )


@pytest.fixture
async def client(organism):
    async with build(organism) as server:
        offering = ServedOrganism.build(server, Exposed())
        async with Client(offering.build_protocol(lambda: Principal("host"), "desk")) as found:
            yield found


@pytest.mark.parametrize("way", ["stdio", "legacy stdio", "http", "legacy http"])
async def test_words_of_a_listener_reach_the_host_of_their_call_alone(home, book, way):  # noqa: F811 - fixtures
    heard = {1: [], 2: []}
    async with serve_teller(home, way) as connect, connect() as client, anyio.create_task_group() as tasks:

        async def call(amount):
            async def progress(_done, _total, text):
                heard[amount].append(text)

            await client.call_tool("transfer", {"to": "bob", "amount": amount}, progress_callback=progress)

        for amount in heard:
            tasks.start_soon(call, amount)
        while not all(f"booked {amount}" in texts for amount, texts in heard.items()):  # noqa: ASYNC110 - told by calls
            await anyio.sleep(0.01)
        book.go()
    assert {amount: [text for text in texts if "booked" in text] for amount, texts in heard.items()} == {
        1: ["booked 1"],
        2: ["booked 2"],
    }


@pytest.mark.parametrize("way", ["stdio", "legacy stdio"])
async def test_a_host_sees_the_release_of_agentserver(home, book, way):  # noqa: F811 - fixtures
    async with serve_teller(home, way) as connect, connect() as client:
        assert (client.server_info.name, client.server_info.version) == ("teller", RELEASE)


@pytest.mark.parametrize("text", ["well", "badly"])
async def test_a_tools_answer_satisfies_its_own_schema(client, text):
    known, unknown = (await client.list_tools()).tools
    assert unknown.output_schema is None
    result = await client.call_tool("known", {"text": text})
    assert not result.is_error
    jsonschema.validate(result.structured_content, known.output_schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"other": 1}, known.output_schema)


async def add(a: int, b: int = 1) -> int:
    """Add two numbers.

    Args:
        a: the first.
    """
    return a + b


@pytest.fixture
def adding_organism():
    return organism_of(listener("add", add))


async def test_a_function_is_a_tool_with_its_arguments_and_its_answer(adding_organism):
    async with build(adding_organism) as server:
        offering = ServedOrganism.build(server, Exposed(("add",)))
        async with Client(offering.build_protocol(lambda: Principal("host"), "desk")) as host:
            (tool,) = (await host.list_tools()).tools
            result = await host.call_tool("add", {"a": 2})
    assert tool.input_schema["properties"]["a"]["description"] == "the first."
    assert (tool.input_schema["required"], list(tool.output_schema["properties"])) == (["a"], ["value"])
    assert result.structured_content == {"value": 3}


async def test_an_answer_that_the_schema_of_its_tool_does_not_know_is_an_error(client):
    result = await client.call_tool("known", {"text": "otherwise"})
    assert (result.is_error, result.structured_content) == (True, None)
    assert result.content[0].text == '{"text": "what nobody knew"}'
    loose = await client.call_tool("unknown", {"text": "otherwise"})
    assert (loose.is_error, loose.structured_content) == (False, {"text": "what nobody knew"})
