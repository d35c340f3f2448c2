"""The handler examples of the contract, each run through the server."""

from __future__ import annotations

import logging

import pytest

from agentserver import SystemError
from agentserver.config.loading import inspect
from tests.examples.conftest import run

pytestmark = pytest.mark.anyio


def example(name):
    @pytest.fixture
    def it(loaded):
        return loaded(f"examples/contract/{name}.yaml")

    return it


adding, greeting, legacy, looping = map(example, ("adding", "greeting", "legacy", "looping"))
reminding, researching = map(example, ("reminding", "researching"))


async def test_a_pure_tool_answers_whoever_called(adding):
    async with run(adding) as o:
        c = await o.open()
        assert await c.ask(o.make("AddPayload", 40, 2), "calculator.add") == o.make("ResultPayload", 42)


async def test_an_agent_forwards_and_a_terminal_handler_ends_the_chain(researching, capsys):
    async with run(researching) as o:
        c = await o.open()
        assert await c.replies(o.make("ResearchPayload", "otters"), "research") == []
        assert [record.thread for record in c.records("ended")]
    assert capsys.readouterr().out == "[research] research asked grok-4.1 about otters\n"


async def test_an_agent_sees_its_peers_only(researching):
    async with run(researching) as o:
        usage = o.server.rules.blueprint.usage["research"]
        assert "## summarizer" in usage
        assert "display" not in usage
        assert o.codecs.of(type(o.make("ResearchResult", ""))).example() in usage


async def test_a_forward_comes_back_through_the_forwarder(greeting):
    async with run(greeting) as o:
        c = await o.open()
        shouted = await c.ask(o.make("Greeting", "Ada"), "greeter")
        assert shouted == o.make("LoudGreeting", "HELLO, ADA!")


@pytest.mark.parametrize("through", ["vault", "nobody"])
async def test_who_is_no_peer_is_not_reached_and_the_agent_may_try_again(greeting, through):
    async with run(greeting) as o:
        c = await o.open()
        shouted = await c.ask(o.make("Greeting", "Ada", through), "greeter")
        assert shouted == o.make("LoudGreeting", "HELLO, WHOEVER YOU ARE!")
        assert [(r.sender, r.to, r.code) for r in c.records("refused")] == [("greeter", through, "routing")]
        assert [r for r in c.records("sent") if r.to == "vault"] == []


async def test_the_refusal_is_the_same_whether_the_target_exists_or_not(greeting):
    async with run(greeting) as o:
        refusals = []
        for through in ("vault", "nobody"):
            c = await o.open()
            await c.ask(o.make("Greeting", "Ada", through), "greeter")
            (sent,) = (r.message for r in c.records("sent") if r.sender == "system")
            refusals.append(sent.partition(b"</thread>")[2])
        assert refusals[0] == refusals[1]


async def test_a_peer_that_answers_nobody_leaves_the_question_unanswered(greeting):
    async with run(greeting) as o:
        c = await o.open()
        assert await c.replies(o.make("Greeting", "Ada", "logger"), "greeter") == []


async def test_a_handler_that_returns_bytes_still_works_and_is_warned_once(legacy, caplog):
    async with run(legacy) as o:
        c = await o.open()
        for _ in range(3):
            assert await c.ask(o.make("Ping"), "old") == o.make("Pong", "still here")
    told = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert len(told) == 1
    assert "old returned bytes, which is deprecated" in told[0]


def test_the_check_points_at_a_handler_that_returns_bytes(legacy):
    _, findings = inspect(legacy.files[0], {})
    assert ["returns bytes, which is deprecated" in str(finding) for finding in findings] == [True]


async def test_a_todo_is_nudged_about_and_closed(reminding):
    async with run(reminding) as o:
        c = await o.open()
        outcome = await c.ask(o.make("Plan", 40, 2), "planner")
        assert (outcome.value, outcome.closed) == (42, 1)
        first, middle, last = outcome.nudge.split("\n")
        assert first == "SYSTEM NOTE: The following todos appear complete and should be closed:"
        assert middle.startswith("- watcher_id: ")
        assert middle.endswith(" (registered for: calculator.add response)")
        assert last == "Call todo_registry.close(watcher_id) to acknowledge."


async def test_a_closed_todo_is_not_nudged_about_again(reminding):
    async with run(reminding) as o:
        c = await o.open()
        closed = [(await c.ask(o.make("Plan", n, n), "planner")).closed for n in range(3)]
        assert closed == [1, 1, 1]


async def test_an_agent_works_in_a_loop_by_calling_itself(looping):
    async with run(looping) as o:
        c = await o.open()
        assert await c.ask(o.make("Countdown", 5), "counter") == o.make("CountdownResult", 5, alone=True)
        assert await c.ask(o.make("Countdown", 0), "counter") == o.make("CountdownResult", 0, alone=False)


async def test_a_loop_that_does_not_end_is_ended(looping):
    async with run(looping) as o:
        c = await o.open()
        refused = await c.ask(o.make("Countdown", 1000), "counter")
        assert isinstance(refused, SystemError)
        assert refused.code == "budget"
