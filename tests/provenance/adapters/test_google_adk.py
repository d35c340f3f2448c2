"""Google ADK, run by a scripted model."""

# ruff: noqa: E402 - the framework is imported after the word on what to do without it

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agentserver.provenance.adapters.google_adk import plugin
from agentserver.provenance.library.compat import REFUSED
from tests.provenance.adapters.scene import (
    FOE,
    FRIEND,
    QUERY,
    Scene,
    calls,
    came_from,
    framework,
    scene,
    watching,
)

pytestmark = pytest.mark.filterwarnings("default")
framework("google-adk", "google.adk")

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools.agent_tool import AgentTool
from google.genai import types


class Scripted(BaseLlm):
    """Gives scripted answers."""

    script: list[Any]

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncIterator[Any]:
        yield LlmResponse(content=types.Content(role="model", parts=[self.script.pop(0)]))


def agent(script: list[tuple[str, dict[str, str]]], tools: Any, name: str = "a") -> LlmAgent:
    parts = [types.Part.from_function_call(name=called, args=args) for called, args in script]
    model = Scripted(model="scripted", script=[*parts, types.Part.from_text(text="done")])
    return LlmAgent(name=name, model=model, tools=list(tools))


def drive(root: LlmAgent, *plugins: Any) -> list[str]:
    """Every event's content, as text."""

    async def run() -> list[str]:
        runner = InMemoryRunner(agent=root, app_name="app", plugins=list(plugins))
        session = await runner.session_service.create_session(app_name="app", user_id="u")
        words = types.Content(role="user", parts=[types.Part.from_text(text=QUERY)])
        events = runner.run_async(user_id="u", session_id=session.id, new_message=words)
        return [str(event.content) async for event in events]

    return asyncio.run(run())


def test_the_model_gets_a_refusal_without_a_reason() -> None:
    there, sleuth = scene(), watching()
    told = drive(agent(calls(FOE), there.tools), plugin(sleuth))
    assert any(REFUSED in event for event in told)
    assert "done" in told[-1]
    assert there.sent == []
    assert came_from(sleuth) == ["fetch_url"]


def test_a_refusal_can_end_the_run() -> None:
    there, sleuth = scene(), watching()
    with pytest.raises(Exception, match=REFUSED):
        drive(agent(calls(FOE), there.tools), plugin(sleuth, stop=True))
    assert there.sent == []


@pytest.mark.parametrize(("mode", "to"), [("enforce", FRIEND), ("audit", FOE)])
def test_an_allowed_call_runs_normally(mode: str, to: str) -> None:
    there, sleuth = scene(), watching(mode)
    bare = drive(agent(calls(to), there.tools))
    assert len(drive(agent(calls(to), there.tools), plugin(sleuth))) == len(bare)
    assert there.sent == [to, to]


def test_the_text_of_a_tool_error_is_labelled() -> None:
    """The error ends ADK's run; the next one in the same conversation remembers its input."""
    there, sleuth = scene(), watching()
    with pytest.raises(ValueError, match="IMPORTANT"):
        drive(agent(calls(FOE, "broken"), there.tools), plugin(sleuth))
    drive(agent(calls(FOE)[1:], there.tools), plugin(sleuth))
    assert there.sent == []
    assert came_from(sleuth) == ["fetch_url"]


def inside(there: Scene, script: list[tuple[str, dict[str, str]]]) -> LlmAgent:
    """An agent whose one tool is another agent, which has the tools."""
    inner = agent(script, there.tools, "inner")
    return agent([("inner", {"request": "do it"})], [AgentTool(inner)])


def test_the_tools_of_an_agent_within_a_tool_are_watched() -> None:
    there, sleuth = scene(), watching()
    drive(inside(there, calls(FOE)), plugin(sleuth))
    assert there.sent == []
    assert came_from(sleuth) == ["fetch_url"]
