"""Two servers of one organism behind two doors: which of them a client speaks to changes nothing."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from types import SimpleNamespace

import anyio
import pytest

from tests.engines.together.storage import Storage
from tests.gateways.http.desk import desk, open_conversation, read_until, server_sent, until

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def doors():
    """Two doors with their engines; conversations are opened at the first, and both are asked."""
    storage = Storage()
    async with desk(engine=storage.engine("a")) as first, desk(engine=storage.engine("b")) as second:
        yield SimpleNamespace(first=first, second=second, storage=storage)


async def read(client, path, **headers):
    return [(kind, json.loads(data)) async for kind, _, data in server_sent(client, path, **headers)]


async def test_a_conversation_of_one_server_is_used_through_the_other():
    async with doors() as two, two.first.client() as ada, two.second.client() as there:
        path = await open_conversation(ada)
        answer = await there.post(f"{path}/messages?to=greeter&payload=Greet", json={"name": "Ada"})
        assert (answer.status_code, answer.json()["value"]) == (200, {"text": "Hello, Ada"})
        again = {"idempotency-key": "mine"}
        sent = [
            (await client.post(f"{path}/messages?to=cashier", json={"amount": 5}, headers=again)).json()
            for client in (ada, there, there)
        ]
        assert len({each["request"] for each in sent}) == 1
        assert two.first.books.paid + two.second.books.paid == 1
        for client in (ada, there):
            events = await read(client, f"{path}/events?wait=1")
            assert [kind for kind, _ in events] == ["reply", "done", "reply", "done", "end"]
        assert (await there.post(f"{path}/messages?to=nobody", json={"amount": 5})).status_code == 404
        assert (await there.delete(path)).status_code == 204
        assert (await ada.post(f"{path}/messages?to=cashier", json={"amount": 5})).status_code == 410


async def test_a_conversation_unknown_to_the_other_server_is_simply_unknown():
    async with doors() as two, two.first.client("bob") as bob, two.second.client() as ada:
        path = await open_conversation(bob)
        for where in (path, f"{path[:-4]}ffff", "/v1/conversations/x"):
            assert (await ada.get(f"{where}/events?wait=0")).status_code == 404
            assert (await ada.post(f"{where}/messages?to=cashier", json={"amount": 5})).status_code == 404


async def test_a_stream_at_one_server_continues_when_the_other_dies():
    async with doors() as two, two.first.client() as ada, two.second.client() as there:
        path = await open_conversation(ada)
        await ada.post(f"{path}/messages?to=greeter&payload=Greet", json={"name": "1"})
        found = []

        async def follow():
            async for kind, at, data in server_sent(there, f"{path}/events"):
                found.append((kind, at, json.loads(data)))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow)
            await until(lambda: len(found) == 2)
            two.storage.still("a")
            answer = await there.post(f"{path}/messages?to=greeter&payload=Greet", json={"name": "2"})
            assert answer.json()["value"] == {"text": "Hello, 2"}
            await until(lambda: len(found) == 4)
            await there.delete(path)
            await until(lambda: found[-1][0] == "end")
        places = [at for kind, at, _ in found if kind != "end"]
        assert len(set(places)) == len(places) == 4
        assert found[-1][2]["reason"] == "closed"


async def test_a_message_waiting_at_one_server_is_approved_at_the_other():
    async with doors() as two, two.first.client() as ada, two.second.client("olga") as olga:
        path = await open_conversation(ada)
        await ada.post(f"{path}/messages?to=vault", json={"amount": 5}, headers={"prefer": "respond-async"})
        await until(lambda: two.second.server.approvals())
        (one,) = (await olga.get("/v1/approvals")).json()["approvals"]
        answer = {"digest": one["digest"], "answer": "once"}
        assert (await olga.post(f"/v1/approvals/{one['id']}", json=answer)).status_code == 204
        assert await read_until(ada, path, "paid 5")
        records = (await olga.get(f"{path}/trace")).json()["records"]
        assert [each["event"] for each in records].count("approved") == 1
