"""Runs that show an answer, calls and steps as they come, read by the package's own types."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import anyio
import pytest
from ag_ui.core import EventType, RunAgentInput, UserMessage

from agentserver.gateways.agui import part
from tests.gateways.agui.front import EVENT, messages
from tests.gateways.http.desk import until
from tests.gateways.streaming import stream_desk
from tests.machine import HANGS

pytestmark = pytest.mark.anyio


def request_input(number=1, messages=(), **more):
    own = [*messages, {"id": f"m{number}", "role": "user", "content": "go"}]
    body = RunAgentInput(
        thread_id="t1", run_id=f"run{number}", messages=[UserMessage(id="m", content="x")], **more
    )
    return json.loads(body.model_dump_json(by_alias=True)) | {"messages": own}


@asynccontextmanager
async def run(client, body):
    """Gives a function that returns the next event of a run; None at its end."""
    async with client.stream("POST", "/v1/agui/agent", json=body) as answer:
        assert answer.status_code == 200
        lines = answer.aiter_lines()

        async def parse_events():
            with anyio.fail_after(HANGS):
                async for line in lines:
                    if line.startswith("data: "):
                        return EVENT.validate_json(line.removeprefix("data: "))
            return None

        yield parse_events


async def rest(following):
    found = []
    while (event := await following()) is not None:
        found.append(event)
    return found


async def until_kind(following, kind):
    """The event of this kind that comes next."""
    while (event := await following()) is not None:
        if event.type is kind:
            return event
    raise AssertionError(kind)


def events_of(events, *kinds):
    return [event for event in events if event.type.value.startswith(kinds)]


async def test_a_run_streams_its_message_under_the_id_that_a_later_run_has_for_it(tmp_path):
    async with stream_desk(tmp_path, parts=[part()]) as (door, provider), door.client() as ada:
        async with run(ada, request_input()) as following:
            exchange = await provider.next()
            await exchange.begin()
            await exchange.call("Told")
            await exchange.say('{"text": "One ')
            start = await until_kind(following, EventType.TEXT_MESSAGE_START)
            first = await following()
            assert (first.delta, start.name) == ("One ", "agent")
            await exchange.say('two"}')
            await exchange.finish()
            after = await rest(following)
        assert [event.type.value for event in events_of(after, "TEXT_")] == [
            "TEXT_MESSAGE_CONTENT",
            "TEXT_MESSAGE_END",
        ]
        assert after[-1].result["value"] == {"text": "One two"}
        async with run(ada, request_input() | {"runId": "again"}) as following:
            assert messages(await rest(following)) == [
                {"id": start.message_id, "role": "assistant", "content": "One two"}
            ]


async def test_the_run_begins_with_the_id_of_its_conversation_and_ends_all_that_it_began(tmp_path):
    async with stream_desk(tmp_path, parts=[part()]) as (door, provider), door.client() as ada:
        async with run(ada, request_input(state={"own": 1})) as following:
            await (await provider.next()).whole("web", '{"page": "x"}')
            await (await provider.next()).whole("Told", '{"text": "ab"}')
            events = await rest(following)
        (found,) = await door.server.read(lambda kept: [one.id for one in kept.conversations()])
    snapshot = events[1].snapshot
    assert snapshot["own"] == 1
    assert (snapshot["agentserver"]["conversation"], snapshot["agentserver"]["status"]) == (found, "running")
    call, end = events_of(events, "TOOL_CALL_START")[0], events_of(events, "TOOL_CALL_RESULT")[0]
    assert (call.tool_call_name, end.tool_call_id, end.content) == ("web", call.tool_call_id, "answered")
    steps = events_of(events, "STEP_")
    begun = [event.step_name for event in steps if event.type is EventType.STEP_STARTED]
    assert begun[:2] == ["agent", "web"]
    assert sorted(begun) == sorted(
        event.step_name for event in steps if event.type is EventType.STEP_FINISHED
    )
    assert [one.value for one in events[-2].delta] == ["finished"]
    assert events[-1].type is EventType.RUN_FINISHED


async def test_a_message_that_is_void_is_taken_back(tmp_path):
    async with stream_desk(tmp_path, parts=[part()]) as (door, provider), door.client() as ada:
        earlier = [{"id": "a", "role": "assistant", "content": "before"}]
        async with run(ada, request_input(messages=earlier)) as following:
            exchange = await provider.next()
            await exchange.begin()
            await exchange.call("Told")
            await exchange.say('{"text": "Wrong')
            start = await until_kind(following, EventType.TEXT_MESSAGE_START)
            exchange.cut()
            reset = await until_kind(following, EventType.CUSTOM)
            assert (reset.name, reset.value["messageId"]) == ("agentserver:reset", start.message_id)
            snapshot = await following()
            assert [each.id for each in snapshot.messages] == ["a", "m1"]
            await (await provider.next()).whole("Told", '{"text": "Right"}')
            assert messages(await rest(following))[-1]["content"] == "Right"


async def test_a_front_end_that_aborts_its_run_ends_the_request_and_the_call_of_the_model(tmp_path):
    async with stream_desk(tmp_path, parts=[part()]) as (door, provider), door.client() as ada:
        async with run(ada, request_input()) as following:
            exchange = await provider.next()
            await exchange.begin()
            await until_kind(following, EventType.STEP_STARTED)
        with anyio.fail_after(HANGS):
            await exchange.gone.wait()
        async with run(ada, request_input() | {"runId": "again"}) as following:
            assert (await rest(following))[-1].outcome.type == "cancelled"


async def test_a_run_that_is_detached_continues_without_its_connection(tmp_path):
    async with stream_desk(tmp_path, parts=[part()]) as (door, provider), door.client() as ada:
        async with run(ada, request_input(forwarded_props={"detach": True})) as following:
            exchange = await provider.next()
            await until_kind(following, EventType.STEP_STARTED)
        await until(lambda: not len(door.door.holding))
        await exchange.whole("Told", '{"text": "ab"}')
        async with run(ada, request_input() | {"runId": "again"}) as following:
            assert (await rest(following))[-1].result["value"] == {"text": "ab"}


async def test_a_request_that_is_cancelled_elsewhere_ends_the_run_as_cancelled(tmp_path):
    async with (
        stream_desk(tmp_path, parts=[part()]) as (door, provider),
        door.client() as ada,
        run(ada, request_input()) as following,
    ):
        await (await provider.next()).begin()
        state = (await until_kind(following, EventType.STATE_SNAPSHOT)).snapshot["agentserver"]
        path = f"/v1/conversations/{state['conversation']}/requests/{state['request']}"
        assert (await ada.delete(path)).status_code == 204
        assert (await rest(following))[-1].outcome.type == "cancelled"
