"""CrewAI, run by a scripted model, in both of its ways of calling tools."""

# ruff: noqa: E402 - the framework is imported after the word on what to do without it

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

import pytest

from agentserver.provenance import Sleuth
from agentserver.provenance.adapters.crewai import WITHHELD, hooks
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
framework("crewai", "crewai")  # else nothing of this process is changed for it
os.environ |= {
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "OTEL_SDK_DISABLED": "true",
}

from crewai import Agent, Crew, Task
from crewai.llms.base_llm import BaseLLM
from crewai.tools import tool


class Scripted(BaseLLM):
    """Gives scripted answers, as text or as function calls, and records its input."""

    def call(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        self.shown.append(str(messages))
        if not self.steps:
            return "done" if self.native else "Thought: I now know the final answer\nFinal Answer: done"
        name, given = self.steps.pop(0)
        if self.native:
            return [
                {"id": name, "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
            ]
        return f"Thought: go\nAction: {name}\nAction Input: {json.dumps(given)}"

    async def acall(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        return self.call(messages)

    def supports_function_calling(self) -> bool:
        return self.native


def scripted(script: list[tuple[str, dict[str, str]]], *, native: bool) -> Scripted:
    """Set from outside, because the base is a plain class in some versions and a pydantic model in others."""
    model = Scripted(model="scripted")
    for name, value in (("steps", list(script)), ("native", native), ("shown", [])):
        object.__setattr__(model, name, value)
    return model


def crew(there: Scene, model: Scripted) -> Crew:
    tools = [tool(fn.__name__)(fn) for fn in there.tools]
    agent = Agent(role="r", goal="g", backstory="b", llm=model, tools=tools)
    return Crew(agents=[agent], tasks=[Task(description=QUERY, expected_output="a word", agent=agent)])


WAYS = pytest.mark.parametrize("native", [False, True], ids=["text", "functions"])


@WAYS
def test_a_refused_call_does_not_run_and_the_agent_continues(native: bool) -> None:
    there, sleuth = scene(), watching()
    with hooks(sleuth):
        result = crew(there, scripted(calls(FOE), native=native)).kickoff()
    assert "done" in str(result)
    assert there.sent == []
    assert came_from(sleuth) == ["fetch_url"]


@WAYS
def test_async_crews_are_watched_too(native: bool) -> None:
    there, sleuth = scene(), watching()
    with hooks(sleuth):
        asyncio.run(crew(there, scripted(calls(FOE), native=native)).kickoff_async())
    assert there.sent == []
    assert came_from(sleuth) == ["fetch_url"]


@WAYS
@pytest.mark.parametrize(("mode", "to"), [("enforce", FRIEND), ("audit", FOE)])
def test_an_allowed_call_runs_normally(mode: str, to: str, native: bool) -> None:
    there, sleuth = scene(), watching(mode)
    bare, watched = scripted(calls(to), native=native), scripted(calls(to), native=native)
    crew(there, bare).kickoff()
    with hooks(sleuth):
        crew(there, watched).kickoff()
    assert len(bare.shown) == len(watched.shown) == 3
    assert there.sent == [to, to]


@WAYS
def test_the_text_of_a_tool_error_is_labelled(native: bool) -> None:
    there, sleuth = scene(), watching()
    with hooks(sleuth):
        crew(there, scripted(calls(FOE, "broken"), native=native)).kickoff()
    assert there.sent == []
    assert came_from(sleuth) == ["fetch_url"]


class Failing:
    """A holder whose engine cannot be had."""

    def __init__(self, sleuth: Sleuth, fails: str) -> None:
        self.sleuth, self.fails = sleuth, fails

    @property
    def engine(self) -> Any:
        return self

    def on_tool_call(self, name: str, args: Any) -> None:
        if self.fails == "call":
            raise LookupError("no engine")

    def on_tool_result(self, name: str, said: Any, **more: Any) -> None:
        if self.fails == "result":
            raise LookupError("no engine")


@WAYS
def test_a_call_that_could_not_be_judged_does_not_run(native: bool) -> None:
    """CrewAI runs a tool whose hook raises."""
    there = scene()
    with hooks(Failing(watching(), "call")):
        crew(there, scripted(calls(FRIEND)[1:], native=native)).kickoff()
    assert there.sent == []


@WAYS
def test_an_output_that_could_not_be_labelled_is_withheld(native: bool) -> None:
    model = scripted(calls(FRIEND), native=native)
    with hooks(Failing(watching(), "result")):
        crew(scene(), model).kickoff()
    assert WITHHELD in model.shown[-1]
    assert not any("evil.com" in shown for shown in model.shown)


def test_the_hooks_are_gone_after_the_block() -> None:
    there, sleuth = scene(), watching()
    with pytest.raises(KeyError), hooks(sleuth):
        raise KeyError
    crew(there, scripted(calls(FOE), native=False)).kickoff()
    assert there.sent == [FOE]
    assert came_from(sleuth) == []
