"""The OpenAI Agents SDK, run by a scripted model."""

# ruff: noqa: E402 - the framework is imported after the word on what to do without it

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agentserver.provenance import TaintViolationError
from agentserver.provenance.adapters.mcp import TrackedSession
from agentserver.provenance.adapters.openai_agents import guard_tools
from agentserver.provenance.library.compat import REFUSED
from tests.provenance.adapters.scene import (
    FOE,
    FRIEND,
    PAGE,
    QUERY,
    calls,
    came_from,
    framework,
    scene,
    watching,
)

pytestmark = pytest.mark.filterwarnings("default")
agents = framework("openai-agents", "agents")

from agents.items import ModelResponse
from agents.models.interface import Model
from agents.usage import Usage
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

agents.set_tracing_disabled(True)


class Scripted(Model):
    """Gives scripted answers, and records its input."""

    def __init__(self, script: list[tuple[str, dict[str, str]]]) -> None:
        said = ResponseOutputText(text="done", annotations=[], type="output_text")
        last = ResponseOutputMessage(
            id="m", content=[said], role="assistant", status="completed", type="message"
        )
        self.outputs: list[Any] = [
            ResponseFunctionToolCall(
                call_id=name, name=name, arguments=json.dumps(args), type="function_call"
            )
            for name, args in script
        ] + [last]
        self.shown: list[str] = []

    async def get_response(self, *args: Any, **kwargs: Any) -> Any:
        self.shown.append(str(kwargs.get("input") or args))
        return ModelResponse(output=[self.outputs.pop(0)], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


def drive(model: Scripted, **parts: Any) -> str:
    agent = agents.Agent(name="a", model=model, **parts)
    return str(asyncio.run(agents.Runner.run(agent, QUERY)).final_output)


def refused(error: BaseException | None) -> bool:
    """Whether the SDK's error was caused by ours."""
    return error is not None and (isinstance(error, TaintViolationError) or refused(error.__cause__))


def test_a_refusal_ends_the_run() -> None:
    there, sleuth, model = scene(), watching(), Scripted(calls(FOE))
    with pytest.raises(Exception, match="The call was not permitted") as stopped:
        drive(model, tools=guard_tools(map(agents.function_tool, there.tools), sleuth))
    assert refused(stopped.value)
    assert there.sent == []
    assert came_from(sleuth) == ["fetch_url"]


def test_a_refusal_can_be_shown_to_the_model_without_a_reason() -> None:
    there, sleuth, model = scene(), watching(), Scripted(calls(FOE))
    tools = guard_tools(map(agents.function_tool, there.tools), sleuth, stop=False)
    assert drive(model, tools=tools) == "done"
    assert REFUSED in model.shown[-1]
    assert there.sent == []


@pytest.mark.parametrize(("mode", "to"), [("enforce", FRIEND), ("audit", FOE)])
def test_an_allowed_call_runs_normally(mode: str, to: str) -> None:
    there, sleuth = scene(), watching(mode)
    bare, watched = Scripted(calls(to)), Scripted(calls(to))
    functions = [agents.function_tool(tool) for tool in there.tools]
    assert drive(bare, tools=functions) == drive(watched, tools=guard_tools(functions, sleuth)) == "done"
    assert bare.shown == watched.shown
    assert there.sent == [to, to]


def test_the_text_of_a_tool_error_is_labelled() -> None:
    there, sleuth = scene(), watching()
    with pytest.raises(Exception, match="The call was not permitted"):
        drive(
            Scripted(calls(FOE, "broken")), tools=guard_tools(map(agents.function_tool, there.tools), sleuth)
        )
    assert there.sent == []


def test_a_confirmation_is_awaited() -> None:
    async def confirm(violation: object, told: str) -> bool:
        await asyncio.sleep(0)
        return "attacker@evil.com" in told

    there = scene()
    sleuth = watching("confirm", confirm_callback=confirm)
    assert (
        drive(Scripted(calls(FOE)), tools=guard_tools(map(agents.function_tool, there.tools), sleuth))
        == "done"
    )
    assert there.sent == [FOE]


def test_arguments_that_are_no_object_are_judged_as_they_are() -> None:
    there, sleuth = scene(), watching(strict=True)
    sleuth.engine.on_tool_result("fetch_url", PAGE)
    _, send = guard_tools(map(agents.function_tool, there.tools), sleuth)
    for text in ('["attacker@evil.com"]', "attacker@evil.com"):
        with pytest.raises(TaintViolationError):
            asyncio.run(send.on_invoke_tool(None, text))
    assert there.sent == []


def test_tools_that_run_elsewhere_are_refused() -> None:
    with pytest.raises(TypeError, match="WebSearchTool"):
        guard_tools([agents.WebSearchTool()], watching())


def test_an_mcp_server_of_an_agent_is_watched_as_a_session() -> None:
    """Its tools are not in the agent's list, so the server is wrapped instead.

    The SDK shows a model the text of a server's error, unless an option ends the run.
    """
    from agents.mcp import MCPServer
    from mcp.types import CallToolResult, TextContent, Tool

    there, sleuth = scene(), watching()

    class Local(MCPServer):
        name = "local"

        async def connect(self) -> None: ...
        async def cleanup(self) -> None: ...
        async def list_prompts(self) -> Any: ...
        async def get_prompt(self, name: str, arguments: Any = None) -> Any: ...

        async def list_tools(self, *_: Any, **__: Any) -> list[Tool]:
            return [Tool(name=fn.__name__, inputSchema={"type": "object"}) for fn in there.tools]

        async def call_tool(self, tool_name: str, arguments: Any, *_: Any, **__: Any) -> CallToolResult:
            said = {fn.__name__: fn for fn in there.tools}[tool_name](**arguments)
            return CallToolResult(content=[TextContent(type="text", text=said)])

    settings = {"failure_error_function": None}
    with pytest.raises(Exception, match="The call was not permitted"):
        drive(Scripted(calls(FOE)), mcp_servers=[TrackedSession(Local(), sleuth)], mcp_config=settings)
    assert there.sent == []
