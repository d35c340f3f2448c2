"""Streams of events over real sockets: Server-sent events and WebSocket."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import anyio
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from agentserver.assembly import build
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions
from agentserver.gateways.http import connections
from agentserver.gateways.http.forms import format_place_id
from tests.gateways.http.desk import (
    Books,
    desk,
    open_conversation,
    organism,
    read_until,
    server_sent,
    talk,
    until,
)

pytestmark = pytest.mark.anyio


async def pay(client, path, amount=1, **headers):
    return (await client.post(f"{path}/messages?to=cashier", json={"amount": amount}, headers=headers)).json()


async def read(client, path, **headers):
    """The events that are there, as (event, id, data)."""
    return [(kind, at, json.loads(data)) async for kind, at, data in server_sent(client, path, **headers)]


@asynccontextmanager
async def socket(door, path, name="ada", **options):
    headers = {"authorization": f"Bearer {name}"} if name else {}
    address = f"ws://127.0.0.1:{door.port}{path}"
    async with connect(address, additional_headers=headers, **options) as one:
        yield one


async def test_events_have_their_place_as_id_and_the_end_says_where_to_come_back():
    async with talk() as (_, ada, path):
        reply = await pay(ada, path, 5)
        events = await read(ada, f"{path}/events?wait=1")
        assert [(kind, name) for kind, name, _ in events] == [
            ("reply", reply["place"]),
            ("done", events[1][2]["place"]),
            ("end", events[1][2]["place"]),  # an event without an id of its own has the last one
        ]
        assert {**events[0][2], "again": False} == reply
        assert events[2][2] == {"type": "end", "reason": "waited", "after": events[1][2]["place"]}


async def test_a_stream_resumes_after_its_readers_last_event():
    async with talk() as (_, ada, path):
        first, second = await pay(ada, path, 1), await pay(ada, path, 2)
        again = await read(ada, f"{path}/events?wait=1", **{"last-event-id": first["place"]})
        assert [data["request"] for kind, _, data in again if kind == "reply"] == [second["request"]]
        after = await read(ada, f"{path}/events?wait=1&after={second['place']}")
        assert [kind for kind, _, _ in after] == ["done", "end"]


async def test_all_available_events_are_sent_however_short_the_wait(tmp_path):
    """Clients that did not wait have missed the events in a journal; another thread reads them."""
    guards = build(await anyio.to_thread.run_sync(lambda: organism(Books()))).rules.guards
    engine = SqliteEngine(JournalOptions(tmp_path / "j"), guards)
    async with talk(engine=engine) as (_, ada, path):
        paid = [await pay(ada, path, amount) for amount in range(1, 4)]
        events = await read(ada, f"{path}/events?wait=0")
        assert [data["request"] for kind, _, data in events if kind == "reply"] == [
            one["request"] for one in paid
        ]
        assert events[-1][2]["reason"] == "waited"


async def test_an_invalid_place_is_a_bad_request():
    async with talk() as (_, ada, path):
        for bad in ("x", "1", "1-", "-1-1", "1-1-1", "01-1", "1" * 30 + "-1", "\u0663-1"):
            assert (await ada.get(f"{path}/events", params={"after": bad})).status_code == 400
        assert (await ada.get(f"{path}/events", headers={"last-event-id": "x"})).status_code == 400


async def test_a_silent_stream_shows_signs_of_life():
    async with talk(beat=0.05) as (_, ada, path):
        assert await read_until(ada, path, ": \n\n: \n\n: \n\n")


@pytest.mark.parametrize("why", ["stopping", "revoked", "closed"])
async def test_a_stream_that_ends_says_why(why):
    async with desk() as door, door.client() as ada, anyio.create_task_group() as tasks:
        path = await open_conversation(ada)
        found = []

        async def watch():
            found.extend(await read(ada, f"{path}/events"))

        tasks.start_soon(watch)
        await until(lambda: len(door.door.holding))
        if why == "stopping":
            door.door.stop()
        elif why == "revoked":
            del door.people.known["ada"]
        else:
            await ada.delete(path)
        await until(lambda: found)
        assert found[-1][2]["reason"] == why
        assert connections.LOOK < 1, "a token counts no more within a second"


async def test_a_watcher_that_never_reads_does_not_block_two_others():
    async with (
        desk(limits={"payload": 300_000}) as door,
        door.client() as ada,
        anyio.create_task_group() as tasks,
    ):
        path = await open_conversation(ada)
        seen = {1: 0, 2: 0}

        async def watch(number):
            async for kind, _, _ in server_sent(ada, f"{path}/events"):
                seen[number] += kind == "reply"

        deaf = await door.connect()
        await deaf.send(
            f"GET {path}/events HTTP/1.1\r\nhost: 127.0.0.1:{door.port}\r\nauthorization: Bearer ada\r\n\r\n".encode()
        )
        for number in seen:
            tasks.start_soon(watch, number)
        await until(lambda: len(door.door.holding) == 3)
        for _ in range(60):
            body = {"text": "x" * 1000, "times": 200}
            answer = await ada.post(f"{path}/messages?to=greeter&payload=Shout", json=body)
            assert answer.status_code == 200
        await until(lambda: min(seen.values()) == 60)
        await deaf.aclose()
        tasks.cancel_scope.cancel()


async def test_a_websocket_has_the_same_events():
    async with talk() as (door, ada, path):
        reply = await pay(ada, path, 5)
        async with socket(door, f"{path}/events") as one:
            assert {**json.loads(await one.recv()), "again": False} == reply
            assert json.loads(await one.recv())["type"] == "done"
            later = await pay(ada, path, 6)
            assert {**json.loads(await one.recv()), "again": False} == later


async def test_events_taken_over_a_websocket_count_as_taken():
    async with talk() as (door, ada, path):
        conversation, confirmed = path.rpartition("/")[2], []
        acknowledge = door.server.engine.acknowledge

        def note_place(of, place):
            confirmed.append((of, format_place_id(place)))
            acknowledge(of, place)

        door.server.engine.acknowledge = note_place
        await pay(ada, path, 5)
        async with socket(door, f"{path}/events") as one:
            await one.recv()
            done = json.loads(await one.recv())
            await one.send(json.dumps({"taken": done["place"]}))
            await until(lambda: (conversation, done["place"]) in confirmed)


async def test_a_place_that_is_said_again_and_again_is_confirmed_once():
    async with talk() as (door, ada, path):
        asked = []
        confirm = door.server.confirm

        async def note_place(principal, conversation, place):
            asked.append(format_place_id(place))
            await confirm(principal, conversation, place)

        door.server.confirm = note_place
        await pay(ada, path, 5)
        async with socket(door, f"{path}/events") as one:
            first, done = json.loads(await one.recv()), json.loads(await one.recv())
            for place in (first["place"], first["place"], done["place"], first["place"], done["place"]):
                await one.send(json.dumps({"taken": place}))
            await one.send("x")
            with pytest.raises(ConnectionClosed):
                while True:
                    await one.recv()
        assert asked == [first["place"], done["place"]]


@pytest.mark.parametrize("word", ["x", "{}", '{"taken": 7}', '{"taken": "1-1", "more": 1}', "[" * 5000])
async def test_an_invalid_message_ends_a_websocket(word):
    async with talk() as (door, ada, path):
        async with socket(door, f"{path}/events") as one:
            await one.send(word)
            with pytest.raises(ConnectionClosed) as closed:
                while True:
                    await one.recv()
        assert closed.value.rcvd.code in (1008, 1009)
        assert (await ada.get("/healthz")).status_code == 200


@pytest.mark.parametrize(
    ("name", "path", "options", "status"),
    [
        ("", None, {}, 401),
        ("nobody", None, {}, 401),
        ("bob", None, {}, 404),
        ("ada", "/v1/conversations/x/events", {}, 404),
        ("ada", "/v1/nothing", {}, 404),
        ("ada", None, {"origin": "https://evil.example"}, 403),
    ],
)
async def test_a_refused_websocket_gets_an_error_and_the_log_shows_none(name, path, options, status, caplog):
    async with desk() as door, door.client() as ada:
        way = path or f"{await open_conversation(ada)}/events"
        with pytest.raises(InvalidStatus) as refused:
            async with socket(door, way, name, **options):
                pass
        assert refused.value.response.status_code == status
    assert not [each for each in caplog.records if each.levelname == "ERROR"]


async def test_the_server_ends_a_websocket_with_its_reason():
    async with talk() as (door, _, path):
        async with socket(door, f"{path}/events") as one:
            await until(lambda: len(door.door.holding))
            door.door.stop()
            assert json.loads(await one.recv())["reason"] == "stopping"
            with pytest.raises(ConnectionClosed) as closed:
                await one.recv()
        assert closed.value.rcvd.code == 1001


async def test_operators_see_others_and_viewers_see_no_content():
    async with desk() as door, door.client() as ada, door.client("olga") as olga, door.client("vera") as vera:
        path = await open_conversation(ada)
        await pay(ada, path, 5)
        whole = await read(olga, f"{path}/events?wait=0")
        assert whole[0][2]["value"] == {"text": "paid 5"}
        less = await read(vera, f"{path}/events?wait=0")
        assert "value" not in less[0][2]
        assert less[0][2]["redacted"] > 0
        again = await read(olga, f"{path}/events?wait=0", **{"last-event-id": whole[0][1]})
        assert again[0][0] == "done"
