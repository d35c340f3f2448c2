"""The client at the real door, on real sockets, and through a line that cuts."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, asynccontextmanager, suppress

import anyio
import pytest

from agentserver.client import (
    Client,
    DoneEvent,
    ProblemError,
    ProgressEvent,
    ReplyEvent,
    UnansweredError,
    UnreachableError,
)
from tests.gateways.http.desk import desk
from tests.machine import HANGS

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def cut_connections(port, *after):
    """A line to a port. Its connections are cut after so many bytes of what comes back, one number each; then none is."""
    left, cut = list(after), []

    async def carry(reader, writer, most):
        with suppress(ConnectionError):
            while most > 0 and (data := await reader.read(min(65_536, int(min(most, 65_536))))):
                writer.write(data)
                await writer.drain()
                most -= len(data)

    async def serve(reader, writer):
        most = left.pop(0) if left else float("inf")
        near, far = await asyncio.open_connection("127.0.0.1", port)
        there = asyncio.ensure_future(carry(reader, far, float("inf")))
        await carry(near, writer, most)
        cut.append(most)
        there.cancel()
        for each in (writer, far):
            each.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_a_message_is_answered_in_json_and_in_xml():
    async with desk() as door, Client(door.url, "ada") as client:
        conversation = await client.open()
        reply = await conversation.ask({"name": "Ada"}, "greeter", payload="Greet")
        assert (reply.sender, reply.payload, reply.value) == ("greeter", "Greeting", {"text": "Hello, Ada"})
        xml = b'<Greet xmlns="urn:agentserver:payload:Greet:v1"><name>Bob</name></Greet>'
        assert (await conversation.ask(xml)).value == {"text": "Hello, Bob"}
        last = await conversation.ask(xml, key="k")
        assert conversation.last_taken == last.place
        assert await conversation.close()
        with pytest.raises(ProblemError) as caught:
            await conversation.ask(xml)
        assert caught.value.status in {404, 410}


async def test_a_key_of_ones_own_gives_the_same_conversation_and_the_same_answer():
    async with desk() as door, Client(door.url, "ada") as client:
        first, again = await client.open("mine"), await client.open("mine")
        assert first.id == again.id
        await first.ask({"amount": 3}, "cashier", key="pay")
        reply = await again.ask({"amount": 3}, "cashier", key="pay")
        assert (reply.value, door.books.paid) == ({"text": "paid 3"}, 1)


async def test_an_answer_says_whether_its_message_was_there_before():
    async with desk() as door, Client(door.url, "ada") as client:
        conversation = await client.open()
        asked = [await conversation.ask({"amount": 3}, "cashier", key="pay") for _ in range(2)]
        assert [one.again for one in asked] == [False, True]
        sent = [await conversation.send({"amount": 4}, "cashier", key="more")]
        await conversation.ask({"amount": 4}, "cashier", key="more")
        sent.append(await conversation.send({"amount": 4}, "cashier", key="more"))
        assert [one.again for one in sent] == [False, True]
        assert sent[0].request == sent[1].request
        assert door.books.paid == 2


async def test_an_error_comes_with_its_correction():
    async with desk() as door, Client(door.url, "ada") as client:
        conversation = await client.open()
        with pytest.raises(ProblemError) as caught:
            await conversation.ask({"amount": "much"}, "cashier")
        assert (caught.value.status, caught.value.code) == (422, "validation")
        assert caught.value.faults[0]["pointer"] == "/amount"
        for listener, status in (("nobody", 404), ("breaker", 502)):
            with pytest.raises(ProblemError) as caught:
                await conversation.ask({"how": "crash"}, listener)
            assert caught.value.status == status


async def test_a_request_that_ends_without_an_answer_gives_none():
    async with desk() as door, Client(door.url, "ada") as client:
        assert await (await client.open()).ask({"how": ""}, "breaker") is None


async def test_events_come_until_the_conversation_is_closed():
    async with desk() as door, Client(door.url, "ada") as client:
        conversation = await client.open()
        sent = await conversation.send({"name": "Ada"}, "greeter", payload="Greet")
        found = []
        async for event in conversation.events():
            found.append(event)
            if isinstance(event, DoneEvent):
                await conversation.close()
        kept = [event for event in found if not isinstance(event, ProgressEvent)]
        assert [(type(event), event.request) for event in kept] == [
            (ReplyEvent, sent.request),
            (DoneEvent, sent.request),
        ]


@pytest.mark.parametrize("after", [0, 30, 120, 260])
async def test_a_payment_whose_answer_was_lost_is_made_once(after):
    async with (
        desk() as door,
        cut_connections(door.port, 400, after, after) as url,
        Client(door.url, "ada") as direct,
    ):
        conversation = await direct.open()
        client = Client(url, "ada")
        client._http.headers["host"] = f"127.0.0.1:{door.port}"  # the line is not the door
        async with client:
            reply = await client.conversation(conversation.id).ask({"amount": 3}, "cashier")
        assert (reply.value, door.books.paid) == ({"text": "paid 3"}, 1)


async def test_a_stream_through_a_bad_line_gives_each_event_once_to_a_program_that_takes_them():
    async with desk() as door, Client(door.url, "ada") as direct:
        conversation = await direct.open()
        for number in range(5):
            await conversation.send({"text": str(number)}, "greeter", payload="Shout")
        async with cut_connections(door.port, 600, 900, 500, 700) as url, Client(url, "ada") as client:
            client._http.headers["host"] = f"127.0.0.1:{door.port}"
            found = []
            async with aclosing(client.conversation(conversation.id).events()) as events:
                async for event in events:
                    found.append(event)
                    if sum(isinstance(each, DoneEvent) for each in found) == 5:
                        break
        replies = [event.value["text"] for event in found if isinstance(event, ReplyEvent)]
        assert sorted(replies) == ["0", "1", "2", "3", "4"]


async def test_another_process_resumes_where_this_one_stopped():
    async with desk() as door, Client(door.url, "ada") as client:
        conversation = await client.open()
        first = await conversation.ask({"text": "a"}, "greeter", payload="Shout")
        await conversation.send({"text": "b"}, "greeter", payload="Shout")
        other = client.conversation(conversation.id, first.place)
        async with aclosing(other.events()) as events:
            async for event in events:
                if isinstance(event, ReplyEvent):
                    break
        assert event.value == {"text": "b"}


async def test_a_late_answer_is_waited_for_under_its_key():
    async with desk() as door, Client(door.url, "ada") as client:
        conversation = await client.open()
        with pytest.raises(UnansweredError) as caught:
            await conversation.ask({"seconds": 1.2}, "pauser", within=0.2)
        reply = await conversation.ask({"seconds": 1.2}, "pauser", key=caught.value.key, within=HANGS)
        assert (reply.value, reply.request) == ({"text": "there"}, caught.value.request)


async def test_a_request_is_cancelled():
    async with desk() as door, Client(door.url, "ada") as client:
        conversation = await client.open()
        sent = await conversation.send({"seconds": 60}, "pauser")
        assert await conversation.cancel(sent.request)
        assert not await conversation.cancel(sent.request)


async def test_operators_decide_and_users_do_not():
    async with desk() as door, Client(door.url, "ada") as ada, Client(door.url, "olga") as olga:
        conversation = await ada.open()
        await conversation.send({"amount": 7}, "vault")
        with anyio.fail_after(HANGS):
            while not (found := await olga.approvals()):  # noqa: ASYNC110 - over HTTP
                await anyio.sleep(0.02)
        (one,) = found
        assert (one.to, one.value, one.conversation) == ("vault", {"amount": 7}, conversation.id)
        assert one.until > one.at
        assert one.reasons
        with pytest.raises(ProblemError) as caught:
            await ada.approvals()
        assert caught.value.status == 403
        with pytest.raises(ProblemError) as caught:
            await ada.decide(one, "once")
        assert (caught.value.status, door.books.paid) == (403, 0)
        await olga.decide(one, "once")
        with pytest.raises(ProblemError) as caught:
            await olga.decide(one, "once")
        assert caught.value.status in {404, 409}
        async with aclosing(conversation.events()) as events:
            async for event in events:
                if isinstance(event, ReplyEvent):
                    break
        assert (event.value, door.books.paid) == ({"text": "paid 7"}, 1)


async def test_a_viewer_is_shown_no_content():
    async with desk() as door, Client(door.url, "ada") as ada, Client(door.url, "vera") as vera:
        conversation = await ada.open()
        await conversation.send({"amount": 7}, "vault")
        with anyio.fail_after(HANGS):
            while not (found := await vera.approvals()):  # noqa: ASYNC110 - over HTTP
                await anyio.sleep(0.02)
        assert (found[0].value, found[0].xml) == (None, "")


async def test_a_revoked_token_ends_a_stream():
    async with desk() as door, Client(door.url, "ada") as client:
        conversation = await client.open()

        async def watch():
            with pytest.raises(ProblemError) as caught:
                async for _ in conversation.events():
                    pass
            assert caught.value.status == 401

        with anyio.fail_after(HANGS):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(watch)
                await anyio.sleep(0.1)
                del door.people.known["ada"]


async def test_an_unknown_caller_and_an_address_without_a_server_are_reported():
    async with desk() as door:
        async with Client(door.url, "nobody") as client:
            with pytest.raises(ProblemError) as caught:
                await client.open()
            assert caught.value.status == 401
        url = door.url
    async with Client(url, "ada", patience=0.2) as client:
        with pytest.raises(UnreachableError):
            await client.open()
