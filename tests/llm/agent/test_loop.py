"""The agent behind a listener with a model: turns, results, repairs, and reports to its caller."""

from __future__ import annotations

import json
from dataclasses import replace

import anyio
import pytest

from agentserver.completion import Completion, Finish
from agentserver.llm.agent.loop import CONTINUE
from tests.llm.agent.conftest import CODE, Model, calls, done_call, wish

pytestmark = pytest.mark.anyio


async def test_it_answers(desk):
    model = Model(done_call("well"))
    async with desk(model) as bed:
        assert (await bed.ask(wish(), "agent")).text == "well"
    prompt = model.seen[0]
    assert prompt.messages[0].role == "system"
    assert prompt.messages[0].content.startswith("You work at a desk.")
    assert prompt.messages[1].content == 'Wish: {"text": "go"}'
    assert [tool.name for tool in prompt.tools] == ["calc_add", "web"]
    assert prompt.tools[0].description == "Calculates. Adds two numbers."
    assert prompt.answer.name == "Done"


async def test_calls_of_a_turn_go_out_together_and_come_back_in_order(desk):
    made = [
        ("calc_add", '{"a": 1, "b": 2}'),
        ("web", '{"page": "x"}'),
        ("calc_add", '{"a": 13, "b": 2}'),
        ("calc_add", '{"a": 2, "b": 2}'),
    ]
    model = Model(calls(*made), done_call("well"))
    async with desk(model) as bed:
        assert (await bed.ask(wish(), "agent")).text == "well"
        assert len(model.seen) == 2
    *_, asked, one, page, crash, four = model.seen[1].messages
    assert [call.name for call in asked.calls] == [name for name, _ in made]
    assert (one.content, page.content, four.content) == (
        'Odd: {"value": 3}',
        f'Page: {{"text": "{"x" * 10}"}}',
        'Sum: {"value": 4}',
    )
    assert crash.content.startswith("Refused (internal)")
    assert [result.id for result in (one, page, crash, four)] == [call.id for call in asked.calls]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (calls(("nothing", "{}")), "There is no such tool. The tools are: calc_add, web, Done."),
        (calls(("calc_add", '{"a": 1}')), "missing member b"),
        (calls(("calc_add", '{"a": 1, "b": 2000}')), "/b"),
        (calls(("calc_add", "no json")), "must be JSON"),
        (calls(("Done", '{"txt": "x"}')), "not allowed here"),
        (calls(text="I am done."), "Answer with a call of the tool Done."),
        (calls(), "Answer with a call of the tool Done."),
    ],
)
async def test_mistakes_go_back_to_the_model(desk, wrong, told):
    model = Model(wrong, done_call("mended"))
    async with desk(model) as bed:
        assert (await bed.ask(wish(), "agent")).text == "mended"
    assert told in model.told()[-1]


async def test_uncorrected_mistakes_reach_the_caller_as_internal(desk):
    model = Model(calls(text="prose"))
    async with desk(model, agent="agent: {repairs: 1}") as bed:
        assert (await bed.ask(wish(), "agent")).code == "internal"
        assert len(model.seen) == 2
        model.said.append(done_call("later"))
        assert (await bed.ask(wish("again"), "agent")).text == "later"


async def test_turns_are_bounded(desk):
    model = Model(calls(("calc_add", '{"a": 1, "b": 2}')))
    async with desk(model, agent="agent: {turns: 3}") as bed:
        assert (await bed.ask(wish(), "agent")).code == "budget"
    assert len(model.seen) == 3


async def test_a_wrong_call_does_not_stop_a_right_one(desk):
    model = Model(
        calls(("calc_add", '{"a": 1, "b": 1}'), ("gone", "{}"), ("Done", '{"text": "early"}')),
        done_call("well"),
    )
    async with desk(model) as bed:
        assert (await bed.ask(wish(), "agent")).text == "well"
    told = model.told()
    assert told[-3:] == [
        'Sum: {"value": 2}',
        "There is no such tool. The tools are: calc_add, web, Done.",
        "Not taken: answer alone, when you have the results of your calls.",
    ]


async def test_it_remembers_its_thread_and_another_conversation_does_not(desk):
    model = Model(done_call("one"), done_call("two"))
    async with desk(model) as bed:
        await bed.ask(wish("first"), "agent")
        await bed.ask(wish("second"), "agent")
    assert 'Wish: {"text": "first"}' in model.told()
    assert "This was your answer." in model.told()


async def test_a_failing_model_is_reported_to_the_caller(desk):
    from agentserver.completion import CompletionError, CompletionFault

    def raise_unavailable(prompt):
        raise CompletionError(CompletionFault.UNAVAILABLE, "b")

    model = Model(calls(("web", '{"page": "x"}')), raise_unavailable, done_call("back"))
    async with desk(model) as bed:
        assert (await bed.ask(wish(), "agent")).code == "busy"
        assert (await bed.ask(wish(), "agent")).text == "back"
    told = model.told()
    assert told.count('Wish: {"text": "go"}') == 2


async def test_a_long_history_loses_whole_turns(desk):
    def call_web(prompt):
        number = sum(message.role == "assistant" for message in prompt.messages)
        calls_ = [message for message in prompt.messages if message.calls]
        results = {message.id for message in prompt.messages if message.role == "tool"}
        assert {call.id for message in calls_ for call in message.calls} == results
        return calls(("web", json.dumps({"page": f"{number}<" * 30})), text="so")

    model = Model(*[call_web] * 11, done_call("well"))
    async with desk(model, agent="agent: {history: 4000}") as bed:
        assert (await bed.ask(wish(), "agent")).text == "well"
    assert all(prompt.messages[1].content == 'Wish: {"text": "go"}' for prompt in model.seen)
    assert max(len(prompt.messages) for prompt in model.seen) < 16


async def test_a_named_model_summarises_text_that_does_not_fit(desk):
    def call_web(prompt):
        if prompt.messages[0].content.startswith("You sum up."):
            return calls(text="It fetched a lot.")
        return calls(("web", json.dumps({"page": "abc " * 20})))

    model = Model(*[call_web] * 9, done_call("well"))
    async with desk(model, agent="agent: {history: 5000, summary: brief, turns: 30}") as bed:
        assert (await bed.ask(wish(), "agent")).text == "well"
    assert any("It fetched a lot." in text for text in model.told())


async def test_an_answer_may_be_long_and_hold_characters_that_xml_lacks(desk):
    model = Model(
        calls(("web", json.dumps({"page": "a\x00b"})), text="\ud800\x0b" + "t" * 99_000), done_call("well")
    )
    async with desk(model) as bed:
        assert (await bed.ask(wish("<&>" * 30_000), "agent")).text == "well"


SLOW = CODE.replace(
    "    return HandlerResponse.respond(Page(payload.page * 10))",
    "    import asyncio\n    await asyncio.sleep(0.3 if payload.page == 'slow' else 0)\n    return HandlerResponse.respond(Page(payload.page))",
)


async def test_two_requests_at_once_have_exchanges_of_their_own(desk):
    both = calls(("web", '{"page": "quick"}'), ("web", '{"page": "slow"}'))

    def later(prompt):
        return done_call("both") if any(message.role == "tool" for message in prompt.messages) else both

    model = Model(later)
    async with desk(model, code=SLOW) as bed:
        await bed.send(wish("first"), "agent")
        await anyio.sleep(0.1)
        assert (await bed.ask(wish("second"), "agent")).text == "both"
        await bed.drain()
    assert len(model.seen) == 4
    for prompt in model.seen:
        texts = [message.content for message in prompt.messages]
        assert ('Wish: {"text": "first"}' in texts) != ('Wish: {"text": "second"}' in texts)


async def test_a_call_that_is_refused_takes_the_turn_with_it(desk):
    spent = calls(*[("calc_add", '{"a": 1, "b": 1}')] * 5)
    model = Model(spent, done_call("told"))
    async with desk(model, more="limits: {messages: 4}") as bed:
        assert (await bed.ask(wish(), "agent")).code == "budget"


async def test_more_calls_than_are_made_at_once(desk):
    model = Model(calls(*[("calc_add", '{"a": 1, "b": 1}')] * 40), done_call("told"))
    async with desk(model) as bed:
        assert (await bed.ask(wish(), "agent")).text == "told"
    told = model.told()
    assert told.count('Sum: {"value": 2}') == 32
    assert "Only the first 32 of your calls were made." in told


@pytest.mark.parametrize("name", ["system.todo", "", "calc.add", "x" * 65, "\ud800\x00", "a b"])
async def test_a_name_that_no_provider_takes_is_not_said_to_one_again(desk, name):
    model = Model(calls((name, "{}")), done_call("well"))
    async with desk(model) as bed:
        assert (await bed.ask(wish(), "agent")).text == "well"
    *_, asked, result = model.seen[1].messages
    assert result.content.startswith("There is no such tool.")
    assert (asked.calls[0].name, result.name) == ("no_such_tool", "no_such_tool")


async def test_a_short_history_holds_the_longest_answer_of_a_model(desk):
    model = Model(calls(*[("&" * 900, '{"a": "&"}')] * 1000, text="&" * 9000), done_call("well"))
    async with desk(model, agent="agent: {history: 1000}", more="limits: {storage: 15000}") as bed:
        assert (await bed.ask(wish("&" * 9000), "agent")).text == "well"


async def test_it_continues_after_an_answer_that_was_cut_and_makes_none_of_its_calls(desk):
    cut = replace(calls(("calc_add", '{"a": 1, "b": 1}'), text="First I"), finish=Finish.LENGTH)
    model = Model(cut, done_call("whole"))
    async with desk(model) as bed:
        assert (await bed.ask(wish(), "agent")).text == "whole"
        assert "calc.add" not in str(bed.trace())
    assert model.told()[-2:] == ["First I", CONTINUE]


async def test_the_loop_ends(desk):
    model = Model(Completion("half", finish=Finish.LENGTH))
    async with desk(model, agent="agent: {repairs: 2}") as bed:
        assert (await bed.ask(wish(), "agent")).code == "internal"
    assert len(model.seen) == 3


@pytest.mark.parametrize("finish", [Finish.FILTER, Finish.REFUSAL, Finish.CUT])
async def test_another_answer_that_is_not_whole_is_never_repaired(desk, finish):
    cut = replace(done_call("half of it"), finish=finish)
    model = Model(cut)
    async with desk(model) as bed:
        assert (await bed.ask(wish(), "agent")).code == "internal"
        trace = str(bed.trace())
    assert len(model.seen) == 1
    assert f"b ({finish.value})" in trace
