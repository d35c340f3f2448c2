"""``output=`` and classes as tools: answered by schema, judged by the XSD, repaired with the class's own faults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
from annotated_types import Ge, Le

from agentserver import xmlify
from agentserver.completion import Backend, Completion, CompletionError, CompletionFault, ToolCall, Usage
from tests.llm.conftest import models, request

pytestmark = pytest.mark.anyio


@xmlify
@dataclass
class Grade:
    """How good it is."""

    points: Annotated[int, Ge(1), Le(5)]
    why: str = ""


@xmlify
@dataclass
class Lookup:
    """Looks a word up."""

    word: str


def say_texts(*said):
    """A backend that says this, one after the other, and the prompts that it saw."""
    seen = []

    def script(prompt):
        seen.append(prompt)
        return said[len(seen) - 1]

    return Backend("b", "scripted", "b", script=script), seen


def call(name, arguments, number=1):
    return Completion(calls=(ToolCall(f"c{number}", name, arguments),), usage=Usage(10, 5, 1, 0.5))


async def test_the_answer_is_a_value_of_the_class():
    backend, seen = say_texts(call("Grade", '{"points": 4}'))
    async with models(backend) as completer:
        done = await completer.complete("m", request(output=Grade))
    assert done.output == Grade(4)
    assert done.calls == ()
    assert seen[0].answer.description == "How good it is."
    assert seen[0].answer.schema["properties"]["points"]["maximum"] == 5


async def test_faults_go_back_until_it_is_right():
    backend, seen = say_texts(
        Completion("It is good.", usage=Usage(10, 5, 1, 0.5)),
        call("Grade", '{"points": 9}'),
        call("Grade", '{"points": 5}', 2),
    )
    async with models(backend) as completer:
        done = await completer.complete("m", request(output=Grade))
    assert done.output == Grade(5)
    assert (done.usage.tokens, done.usage.calls, done.usage.money) == (45, 3, 1.5)
    assert "call of the tool Grade" in seen[1].messages[-1].content
    told = seen[2].messages[-1]
    assert (told.role, told.id) == ("tool", "c1")
    assert "/points" in told.content
    assert "5" in told.content


@pytest.mark.parametrize(
    "arguments", ["", "no json", "[]", '{"points": "4"}', '{"points": 4, "more": 1}', "{}"]
)
async def test_an_uncorrected_answer_is_an_error(arguments):
    backend, seen = say_texts(*[call("Grade", arguments)] * 3)
    async with models(backend) as completer:
        with pytest.raises(CompletionError) as caught:
            await completer.complete("m", request(output=Grade, repairs=2))
    assert caught.value.fault is CompletionFault.ANSWER
    assert len(seen) == 3


async def test_json_without_a_call_is_taken():
    backend, _ = say_texts(Completion('{"points": 2}'))
    async with models(backend) as completer:
        assert (await completer.complete("m", request(output=Grade))).output == Grade(2)


async def test_calls_of_tools_go_before_an_answer():
    both = Completion(
        calls=(ToolCall("1", "Grade", '{"points": 1}'), ToolCall("2", "Lookup", '{"word": "x"}'))
    )
    backend, seen = say_texts(both)
    async with models(backend) as completer:
        done = await completer.complete("m", request(output=Grade, tools=(Lookup,)))
    assert done.output is None
    assert [each.name for each in done.calls] == ["Lookup"]
    assert [tool.name for tool in seen[0].tools] == ["Lookup"]


async def test_a_class_that_is_no_payload_is_named():
    backend, _ = say_texts()
    async with models(backend) as completer:
        with pytest.raises(TypeError, match="neither a Tool nor an @xmlify class"):
            await completer.complete("m", request(output=int))
        with pytest.raises(ValueError, match="two tools are called"):
            await completer.complete("m", request(output=Lookup, tools=(Lookup,)))


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize("stream", [False, True])
async def test_both_providers_are_held_to_the_schema(remote, providers, provider, stream):
    providers.replies += [[("Grade", {"points": 0})], [("Grade", {"points": 3})]]
    async with models(remote(provider=provider, stream=stream)) as completer:
        done = await completer.complete("m", request(output=Grade))
    assert done.output == Grade(3)
    assert done.usage.calls == 2
    sent = providers.asked[0]
    assert sent["tool_choice"] in ("required", {"type": "any"}, {"type": "tool", "name": "Grade"}), sent[
        "tool_choice"
    ]
