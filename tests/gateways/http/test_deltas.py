"""Pieces of an agent's answer, which leave before the answer is committed."""

from __future__ import annotations

import json
import logging

import anyio
import pytest

from agentserver.guards import Guard
from tests.gateways.http.desk import open_conversation
from tests.gateways.http.test_streams import socket
from tests.gateways.streaming import events, stream_desk
from tests.machine import HANGS

pytestmark = pytest.mark.anyio

ENFORCE = """
provenance:
  mode: enforce
  sources: [web]
"""


async def send(client, path, to="agent"):
    answer = await client.post(f"{path}/messages?to={to}&wait=0", json={"text": "go"})
    assert answer.status_code == 202, answer.text
    return answer.json()["request"]


async def test_pieces_come_before_the_answer_and_say_that_they_are_not_durable(tmp_path):
    async with stream_desk(tmp_path) as (door, provider), door.client() as ada:
        path = await open_conversation(ada)
        async with events(ada, path) as following:
            request = await send(ada, path)
            asked = await provider.next()
            await asked.begin()
            await asked.call("Told")
            await asked.say('{"text": "One ')
            first = await following()
            await asked.say('t\\u00e4wo"}')
            second = await following()
            await asked.finish()
            reply = await following()
        common = {"type": "delta", "durable": False, "request": request, "from": "agent", "kind": "text"}
        assert first == {**common, "offset": 0, "text": "One "}
        assert second == {**common, "offset": 4, "text": "täwo"}
        assert reply["value"] == {"text": "One täwo"}


async def test_without_asking_for_them_nobody_gets_pieces(tmp_path):
    async with stream_desk(tmp_path) as (door, provider), door.client() as ada, door.client("vera") as vera:
        path = await open_conversation(ada)
        async with events(ada, path, "") as plain, events(vera, path) as viewer:
            await send(ada, path)
            await (await provider.next()).whole("Told", '{"text": "a', 'b"}')
            assert [(await one())["type"] for one in (plain, viewer)] == ["reply", "reply"]


async def test_a_socket_gets_them_too(tmp_path):
    async with stream_desk(tmp_path) as (door, provider), door.client() as ada:
        path = await open_conversation(ada)
        async with socket(door, f"{path}/events?deltas=true") as one:
            await send(ada, path)
            asked = await provider.next()
            await asked.begin()
            await asked.call("Told")
            await asked.say('{"text": "One')
            assert json.loads(await one.recv())["text"] == "One"
            await asked.say('"}')
            await asked.finish()
            assert json.loads(await one.recv())["type"] == "reply"


@pytest.mark.parametrize("how", ["cut", "filter"])
async def test_another_backend_voids_the_pieces_of_the_first(tmp_path, how):
    async with stream_desk(tmp_path) as (door, provider), door.client() as ada:
        path = await open_conversation(ada)
        async with events(ada, path) as following:
            await send(ada, path)
            asked = await provider.next()
            await asked.begin()
            await asked.call("Told")
            await asked.say('{"text": "Wrong')
            assert (await following())["text"] == "Wrong"
            if how == "cut":
                asked.cut()
            else:
                await asked.finish("content_filter")
            assert (await following())["kind"] == "reset"
            await (await provider.next()).whole("Told", '{"text": "Right"}')
            assert [(await following())["type"] for _ in range(2)] == ["delta", "reply"]


@pytest.mark.parametrize("arguments", ['{"text": "One", "more": 1}', '{"text": "One'])
async def test_an_answer_that_is_repaired_voids_its_pieces(tmp_path, arguments):
    async with stream_desk(tmp_path) as (door, provider), door.client() as ada:
        path = await open_conversation(ada)
        async with events(ada, path) as following:
            await send(ada, path)
            await (await provider.next()).whole("Told", arguments)
            assert [(await following())["kind"] for _ in range(2)] == ["text", "reset"]
            await (await provider.next()).whole("Told", '{"text": "Right"}')
            assert [(await following())["type"] for _ in range(2)] == ["delta", "reply"]


async def test_an_answer_that_comes_with_calls_is_not_taken(tmp_path):
    async with stream_desk(tmp_path) as (door, provider), door.client() as ada:
        path = await open_conversation(ada)
        async with events(ada, path) as following:
            await send(ada, path)
            asked = await provider.next()
            await asked.begin()
            await asked.call("Told")
            await asked.say('{"text": "Early"}')
            await asked.call("web", 1)
            await asked.say('{"page": "x"}', 1)
            await asked.finish()
            assert [(await following())["kind"] for _ in range(2)] == ["text", "reset"]
            await (await provider.next()).whole("Told", '{"text": "Late"}')
            assert [(await following()).get("text") for _ in range(2)] == ["Late", None]


RELAY = """
  - {name: relay, handler: streaming_code.relay, payload_class: streaming_code.Wish, description: Asks., peers: [agent]}
"""


async def test_an_agent_called_by_another_listener_streams_nothing(tmp_path):
    async with stream_desk(tmp_path, listeners=RELAY) as (door, provider), door.client() as ada:
        path = await open_conversation(ada)
        async with events(ada, path) as following:
            await send(ada, path, to="relay")
            await (await provider.next()).whole("Told", '{"text": "a', 'b"}')
            assert (await following())["type"] == "reply"


class Strict(Guard):
    def judge(self, message, memory):
        return None


class Lenient(Strict):
    passes_answers = True


@pytest.mark.parametrize(("guard", "kinds"), [(Strict, ["reply"]), (Lenient, ["delta", "reply"])])
async def test_a_guard_of_a_program_that_may_deny_the_answer_holds_its_pieces_back(tmp_path, guard, kinds):
    async with stream_desk(tmp_path, guards={"own": guard()}) as (door, provider), door.client() as ada:
        path = await open_conversation(ada)
        async with events(ada, path) as following:
            await send(ada, path)
            await (await provider.next()).whole("Told", '{"text": "ab"}')
            assert [(await following())["type"] for _ in kinds] == kinds


async def test_a_bounded_answer_could_be_refused_and_is_not_streamed(tmp_path):
    async with stream_desk(tmp_path, answer="Short") as (door, provider), door.client() as ada:
        path = await open_conversation(ada)
        async with events(ada, path) as following:
            await send(ada, path)
            await (await provider.next()).whole("Short", '{"text": "a', 'b"}')
            assert (await following())["type"] == "reply"


async def test_in_enforce_an_agent_that_read_untrusted_text_streams_nothing(tmp_path):
    async with stream_desk(tmp_path, more=ENFORCE) as (door, provider), door.client() as ada:
        path = await open_conversation(ada)
        async with events(ada, path) as following:
            await send(ada, path)
            await (await provider.next()).whole("Told", '{"text": "clean"}')
            assert [(await following())["type"] for _ in range(3)] == ["delta", "reply", "done"]
            await send(ada, path)
            await (await provider.next()).whole("web", '{"page": "x"}')
            await (await provider.next()).whole("Told", '{"text": "exposed"}')
            assert [(await following())["type"] for _ in range(2)] == ["reply", "done"]


async def test_a_difference_to_the_committed_answer_is_reported(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(
        "agentserver.llm.agent.pieces.TextReader.feed", lambda self, piece: "other" * bool(piece)
    )
    async with stream_desk(tmp_path) as (door, provider), door.client() as ada:
        path = await open_conversation(ada)
        async with events(ada, path) as following:
            await send(ada, path)
            asked = await provider.next()
            with caplog.at_level(logging.WARNING):
                await asked.whole("Told", '{"text": "said"}')
                kinds = [(await following()) for _ in range(3)]
        assert kinds[1]["kind"] == "difference"
        assert kinds[2]["value"] == {"text": "said"}
        assert "differ" in caplog.text
        assert door.server.answer_differences == 1


async def test_calls_and_their_ends_are_shown_without_content(tmp_path):
    async with stream_desk(tmp_path) as (door, provider), door.client() as ada:
        path = await open_conversation(ada)
        async with events(ada, path, calls=True) as following:
            request = await send(ada, path)
            asked = await provider.next()
            await asked.begin()
            for index, arguments in enumerate(['{"page": "secret"}', '{"page": "crash"}']):
                await asked.call("web", index)
                await asked.say(arguments, index)
            await asked.finish()
            found = [await following() for _ in range(4)]
            # The model is asked again, and the end of the server would wait for its answer.
            assert (await ada.delete(f"{path}/requests/{request}")).status_code == 204
        one, two = (event["id"] for event in found[:2])
        common = {"type": "delta", "durable": False, "request": request, "from": "agent", "name": "web"}
        assert found[:2] == [{**common, "kind": "call", "id": key, "text": ""} for key in (one, two)]
        assert {event["id"]: (event["kind"], event["text"]) for event in found[2:]} == {
            one: ("result", ""),
            two: ("result", "internal"),
        }


async def test_a_request_that_is_deleted_ends_the_call_of_its_model_and_says_so(tmp_path):
    async with stream_desk(tmp_path) as (door, provider), door.client() as ada:
        path = await open_conversation(ada)
        async with events(ada, path) as following:
            request = await send(ada, path)
            asked = await provider.next()
            await asked.begin()
            await asked.call("Told")
            await asked.say('{"text": "One')
            assert (await following())["text"] == "One"
            with anyio.fail_after(HANGS):
                assert (await ada.delete(f"{path}/requests/{request}")).status_code == 204
                assert [(await following()).get("kind", "done") for _ in range(2)] == ["reset", "done"]
                await asked.gone.wait()
