"""Requests of the client to a server, and its behaviour at lost connections; the server is scripted."""

from __future__ import annotations

from contextlib import aclosing

import anyio
import pytest

from agentserver.client import (
    DoneEvent,
    ProblemError,
    ProgressEvent,
    ProtocolError,
    ReplyEvent,
    UnansweredError,
    UnreachableError,
)
from tests.client.scripted import LOST, TOKEN, answer, cut, event_bytes, script_door, stream
from tests.machine import HANGS

pytestmark = pytest.mark.anyio


def reply(request="r1", place="3-0", **more):
    found = {
        "type": "reply",
        "request": request,
        "from": "greeter",
        "payload": "greeting",
        "value": {"text": "hi"},
    }
    return found | {"place": place} | more


def done(request="r1", place="4-0"):
    return {"type": "done", "request": request, "answered": True, "place": place}


OPENED = answer(201, {"conversation": "c1"})
ACCEPTED = answer(202, {"request": "r1", "after": "2-0"})
CLOSED = event_bytes({"type": "end", "reason": "closed", "after": "9-0"})
STOPPING = answer(503, {"status": 503, "detail": "The server is stopping."}, [("retry-after", "0")])
RATE = answer(429, {"status": 429, "detail": "Too many requests."}, [("retry-after", "0")])
BUSY = answer(429, {"status": 429, "detail": "Busy.", "code": "busy", "retry": True, "request": "r0"})
GREETED = ReplyEvent("r1", "greeter", "greeting", "3-0", {"text": "hi"})


async def test_an_answer_is_asked_for_with_a_key_and_a_token():
    async with script_door(OPENED, answer(200, reply())) as (door, client):
        conversation = await client.open("mine")
        assert await conversation.ask({"name": "Ada"}, "greeter", payload="greet") == GREETED
        opened, asked = door.heard
        assert opened.headers["idempotency-key"] == "mine"
        assert (asked.method, asked.path) == ("POST", "/v1/conversations/c1/messages")
        assert (asked.query["to"], asked.query["payload"]) == ("greeter", "greet")
        assert asked.headers["authorization"] == f"Bearer {TOKEN}"
        assert asked.headers["content-type"] == "application/json"
        assert asked.json() == {"name": "Ada"}
        assert len(asked.headers["idempotency-key"]) > 20


async def test_bytes_are_sent_as_xml_and_answered_as_json():
    async with script_door(answer(200, reply())) as (door, client):
        await client.conversation("c1").ask(b"<greet/>")
        assert door.heard[0].headers["content-type"] == "application/xml"
        assert door.heard[0].headers["accept"] == "application/json"
        assert door.heard[0].body == b"<greet/>"


PHASES = {
    "before the answer": LOST,
    "within the head": cut(answer(200, reply()), 20),
    "within the body": cut(answer(200, reply()), 120),
    "the door stops": STOPPING,
    "too many requests": RATE,
    "it says no number of seconds": answer(429, {"status": 429}, [("retry-after", "\xb2")]),
    "a proxy has lost the door": answer(502, b"<html>", kind="text/html"),
}


@pytest.mark.parametrize("lost", PHASES.values(), ids=list(PHASES))
async def test_a_lost_message_is_resent_as_the_same_message(lost):
    async with script_door(lost, answer(200, reply())) as (door, client):
        assert await client.conversation("c1").ask({}) == GREETED
        first, second = door.heard
        assert first.headers["idempotency-key"] == second.headers["idempotency-key"]
        assert first.body == second.body


@pytest.mark.parametrize("place", ["\xb2-0", "9" * 5000])
async def test_a_place_that_is_no_number_comes_before_every_place(place):
    async with script_door(answer(200, reply(place=place))) as (_, client):
        assert (await client.conversation("c1").ask({})).place == place


async def test_an_answer_that_was_asked_for_twice_since_it_was_slow_is_the_first():
    again = [("agentserver-again", "true")]
    async with script_door(OPENED, ACCEPTED, answer(200, reply(), again), answer(200, reply(), again)) as (
        _,
        client,
    ):
        conversation = await client.open()
        slow = await conversation.ask({"name": "Ada"})
        known = await conversation.ask({"name": "Ada"})
    assert [slow.again, known.again] == [False, True]


async def test_a_message_refused_as_busy_is_resent_as_another_message():
    async with script_door(BUSY, answer(200, reply())) as (door, client):
        assert await client.conversation("c1").ask({}) == GREETED
        first, second = door.heard
        assert first.headers["idempotency-key"] != second.headers["idempotency-key"]


async def test_a_key_of_the_programs_own_is_never_exchanged():
    async with script_door(BUSY) as (_, client):
        with pytest.raises(ProblemError) as caught:
            await client.conversation("c1").ask({}, key="mine")
    assert (caught.value.code, caught.value.request, caught.value.retry) == ("busy", "r0", True)


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 409, 410, 413, 415, 422])
async def test_a_problem_of_the_requests_own_is_raised_at_once(status):
    faults = [{"pointer": "/name", "rule": "a text is expected"}]
    body = {"status": status, "detail": "No.", "code": "validation", "faults": faults}
    async with script_door(answer(status, body, kind="application/problem+json")) as (door, client):
        with pytest.raises(ProblemError) as caught:
            await client.conversation("c1").ask({})
    assert (caught.value.status, caught.value.detail, caught.value.faults) == (status, "No.", tuple(faults))
    assert len(door.heard) == 1


@pytest.mark.parametrize("status", [502, 504])
async def test_a_system_error_is_an_answer_and_is_not_asked_for_again(status):
    async with script_door(answer(status, {"detail": "No.", "code": "internal", "retry": True})) as (
        _,
        client,
    ):
        with pytest.raises(ProblemError):
            await client.conversation("c1").ask({})


async def test_an_answer_that_takes_its_time_is_waited_for_under_the_same_key():
    async with script_door(ACCEPTED, ACCEPTED, answer(200, reply())) as (door, client):
        assert await client.conversation("c1").ask({}) == GREETED
        assert len({each.headers["idempotency-key"] for each in door.heard}) == 1


async def test_no_answer_in_time_is_an_error_with_the_key_to_come_back_with():
    async with script_door(ACCEPTED, answer(200, reply())) as (door, client):
        conversation = client.conversation("c1")
        with pytest.raises(UnansweredError) as caught:
            await conversation.ask({}, within=0.05)
        assert caught.value.request == "r1"
        assert await conversation.ask({}, key=caught.value.key) == GREETED
        assert conversation.last_taken == "3-0"
        assert door.heard[0].headers["idempotency-key"] == door.heard[1].headers["idempotency-key"]


async def test_a_request_that_ends_without_an_answer_gives_none():
    place = [("agentserver-place", "3-1")]
    async with script_door(answer(204, headers=place), answer(204)) as (door, client):
        conversation = client.conversation("c1")
        assert await conversation.ask({}) is None
        assert await conversation.ask({}) is None
        assert "last-event-id" not in door.heard[0].headers
        assert door.heard[1].headers["last-event-id"] == "3-1"


async def test_sending_does_not_wait():
    async with script_door(ACCEPTED) as (door, client):
        sent = await client.conversation("c1").send({}, key="mine")
        assert (sent.request, sent.key, sent.after) == ("r1", "mine", "2-0")
        assert door.heard[0].headers["prefer"] == "respond-async"
        assert "wait" not in door.heard[0].query


async def test_a_door_that_is_gone_is_said_to_be_after_some_time():
    async with script_door() as (door, client):
        door.answers.extend([LOST] * 50)
        with pytest.raises(UnreachableError):
            await client.conversation("c1").ask({}, within=2.0)
        assert len(door.heard) > 1


@pytest.mark.parametrize("body", [b"", b"[]", b"nothing", b'{"request": 1}', b"{}", b"[" * 100_000])
async def test_a_foreign_server_at_the_address_is_recognised(body):
    async with script_door(answer(200, body), answer(201, body)) as (_, client):
        with pytest.raises(ProtocolError):
            await client.conversation("c1").ask({})
        with pytest.raises(ProtocolError):
            await client.open()


# --- what counts as taken ---------------------------------------------------------------------------------------------


async def test_the_next_request_acknowledges_received_events():
    async with script_door(answer(200, reply(place="3-0")), answer(200, reply(place="5-2"))) as (
        door,
        client,
    ):
        conversation = client.conversation("c1", taken="1-0")
        await conversation.ask({})
        await conversation.ask({})
        assert [each.headers["last-event-id"] for each in door.heard] == ["1-0", "3-0"]
        assert conversation.last_taken == "5-2"


async def test_the_order_of_places_is_that_of_their_numbers():
    async with script_door(answer(200, reply(place="10-0")), answer(200, reply(place="9-0"))) as (_, client):
        conversation = client.conversation("c1")
        await conversation.ask({})
        await conversation.ask({})
        assert conversation.last_taken == "10-0"


async def test_nothing_counts_as_taken_while_another_answer_is_owed():
    async with script_door(ACCEPTED, answer(200, reply("r2", "5-0")), answer(200, reply("r3", "6-0"))) as (
        door,
        client,
    ):
        conversation = client.conversation("c1")
        await conversation.send({})
        await conversation.ask({})
        await conversation.ask({})
        assert "last-event-id" not in door.heard[2].headers


# --- events -----------------------------------------------------------------------------------------------------------


async def gather_events(conversation, after=None):
    return [event async for event in conversation.events(after)]


async def test_events_come_until_the_conversation_is_closed():
    word = {"type": "progress", "request": "r1", "from": "greeter", "text": "half"}
    body = (
        event_bytes(reply())
        + b": \n\n"
        + event_bytes(word)
        + event_bytes({"type": "later"})
        + event_bytes(done())
        + CLOSED
    )
    async with script_door(stream(body)) as (door, client):
        found = await gather_events(client.conversation("c1"))
    assert found == [GREETED, ProgressEvent("r1", "greeter", "half"), DoneEvent("r1", True, "4-0")]
    assert door.paths == ["GET /v1/conversations/c1/events"]


@pytest.mark.parametrize("size", [1, 2, 7, 64])
async def test_events_come_whole_however_they_are_cut(size):
    body = (event_bytes(reply()) + b": \n\n" + event_bytes(done()) + CLOSED).replace(b"\n", b"\r\n")
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    async with script_door(stream(*pieces)) as (_, client):
        assert [type(each) for each in await gather_events(client.conversation("c1"))] == [
            ReplyEvent,
            DoneEvent,
        ]


ENDS = {
    "lagged": stream(event_bytes(reply()), event_bytes({"type": "end", "reason": "lagged", "after": "3-0"})),
    "stopping": stream(
        event_bytes(reply()), event_bytes({"type": "end", "reason": "stopping", "after": "3-0"})
    ),
    "cut within an event": stream(event_bytes(reply()), event_bytes(done())[:20]),
    "cut between events": stream(event_bytes(reply())),
}


@pytest.mark.parametrize("lost", ENDS.values(), ids=list(ENDS))
async def test_a_stream_that_ends_early_resumes_after_the_last_received_event(lost):
    async with script_door(lost, LOST, STOPPING, stream(event_bytes(done()), CLOSED)) as (door, client):
        found = await gather_events(client.conversation("c1"))
    assert [type(each) for each in found] == [ReplyEvent, DoneEvent]
    assert "last-event-id" not in door.heard[0].headers
    assert {each.headers["last-event-id"] for each in door.heard[1:]} == {"3-0"}


async def test_an_event_counts_as_taken_when_the_program_comes_back():
    both = stream(event_bytes(reply()), event_bytes(done()))
    async with script_door(both, answer(204)) as (door, client):
        conversation = client.conversation("c1")
        async with aclosing(conversation.events()) as events:
            await anext(events)
            await anext(events)
        await conversation.ask({})
    assert door.heard[1].headers["last-event-id"] == "3-0"


async def test_a_start_position_does_not_acknowledge_earlier_events():
    async with script_door(LOST, stream(event_bytes(done()), CLOSED)) as (door, client):
        await gather_events(client.conversation("c1", taken="1-0"), after="0-0")
    assert [each.query for each in door.heard] == [{"after": "0-0"}] * 2
    assert all("last-event-id" not in each.headers for each in door.heard)


async def test_expired_events_are_left_out():
    gone = event_bytes({"type": "end", "reason": "gone", "after": "7-0"})
    async with script_door(stream(gone), LOST, stream(event_bytes(done(place="8-0")), CLOSED)) as (
        door,
        client,
    ):
        assert len(await gather_events(client.conversation("c1", taken="1-0"))) == 1
    assert [each.query.get("after") for each in door.heard] == [None, "7-0", "7-0"]


@pytest.mark.parametrize("status", [401, 403, 404, 410])
async def test_a_stream_that_may_not_be_had_is_an_error(status):
    async with script_door(stream(event_bytes(reply())), answer(status, {"detail": "No."})) as (_, client):
        with pytest.raises(ProblemError) as caught:
            await gather_events(client.conversation("c1"))
    assert caught.value.status == status


async def test_a_stream_that_stays_lost_is_an_error():
    async with script_door() as (door, client):
        door.answers.extend([LOST] * 50)
        conversation = client.conversation("c1")
        conversation._patience = 0.5
        with pytest.raises(UnreachableError):
            await gather_events(conversation)


async def test_an_event_without_end_is_refused():
    async with script_door(stream(*[b"data: " + b"x" * 1_000_000] * 70)) as (_, client):
        with pytest.raises(ProtocolError):
            await gather_events(client.conversation("c1"))


async def test_a_request_is_cancelled_and_a_conversation_ended():
    async with script_door(answer(204), answer(404), answer(204), answer(410)) as (door, client):
        conversation = client.conversation("c1/../x")
        with anyio.fail_after(HANGS):
            assert (await conversation.cancel("r1"), await conversation.cancel("r1")) == (True, False)
            assert (await conversation.close(), await conversation.close()) == (True, False)
    assert door.heard[0].path == "/v1/conversations/c1%2F..%2Fx/requests/r1"
