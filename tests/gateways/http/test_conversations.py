"""Conversations over real sockets: each status of a message, and its text."""

from __future__ import annotations

import math

import anyio
import pytest

from agentserver.gateways.http.connections import HeldConnections
from tests.gateways.http.desk import desk, open_conversation, person, read_until, talk, until

pytestmark = pytest.mark.anyio


async def test_a_message_is_answered_with_its_first_reply():
    async with talk() as (_, ada, path):
        answer = await ada.post(f"{path}/messages?to=greeter&payload=Greet", json={"name": "Ada"})
        said = answer.json()
        assert answer.status_code == 200
        assert (said["from"], said["payload"], said["value"]) == (
            "greeter",
            "Greeting",
            {"text": "Hello, Ada"},
        )
        assert answer.headers["agentserver-request"] == said["request"]
        assert answer.headers["agentserver-place"] == said["place"]


async def test_xml_is_answered_with_the_envelope():
    async with talk() as (door, ada, path):
        codec = door.server.rules.codecs.of(type_of("Greet"))
        body = codec.encode(type_of("Greet")("Ada"))
        answer = await ada.post(
            f"{path}/messages?to=greeter", content=body, headers={"content-type": "application/xml"}
        )
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("application/xml")
        assert b"Hello, Ada" in answer.content
        asked = {"content-type": "text/xml; charset=utf-8", "accept": "application/json"}
        answer = await ada.post(f"{path}/messages?to=greeter", content=body, headers=asked)
        assert answer.json()["value"] == {"text": "Hello, Ada"}
        asked = {"accept": "application/xml"}
        answer = await ada.post(
            f"{path}/messages?to=greeter&payload=Greet", json={"name": "Ada"}, headers=asked
        )
        assert b"<" in answer.content


async def test_the_seconds_of_wait_begin_when_the_message_has_arrived(monkeypatch):
    waits = []
    hold = HeldConnections.hold

    def note(self, caller, scope=None, wait=math.inf):
        waits.append(wait)
        return hold(self, caller, scope, wait)

    async with talk() as (door, ada, path):
        submit = type(door.server).submit

        async def submit_slowly(self, *arguments, **more):
            await anyio.sleep(0.5)
            return await submit(self, *arguments, **more)

        monkeypatch.setattr(type(door.server), "submit", submit_slowly)
        monkeypatch.setattr(HeldConnections, "hold", note)
        answer = await ada.post(f"{path}/messages?to=greeter&payload=Greet&wait=3", json={"name": "Ada"})
    assert answer.status_code == 200
    assert max(waits) <= 2.5


def type_of(name):
    from tests.gateways.http import desk as module

    return getattr(module, name)


@pytest.mark.parametrize(
    ("query", "body", "status", "code"),
    [
        ("to=greeter&payload=Greet", {"nam": "Ada"}, 422, "validation"),
        ("to=greeter&payload=Greet", [1], 422, "validation"),
        ("to=greeter", {"name": "Ada"}, 422, None),
        ("to=nobody", {"name": "Ada"}, 404, "routing"),
        ("to=greeter&payload=Nothing", {"name": "Ada"}, 404, "routing"),
        ("to=breaker", {"how": "crash"}, 502, "internal"),
        ("to=breaker", {"how": "late"}, 504, "timeout"),
    ],
)
async def test_each_refusal_has_its_status_and_only_the_text_of_the_system_error(query, body, status, code):
    async with desk() as door, door.client() as ada:
        answer = await ada.post(f"{await open_conversation(ada)}/messages?{query}", json=body)
        said = answer.json()
        assert (answer.status_code, said.get("code")) == (status, code), answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        assert said["status"] == status
        assert "secret" not in answer.text


async def test_the_faults_of_a_value_are_named_by_their_place():
    async with desk() as door, door.client() as ada:
        answer = await ada.post(
            f"{await open_conversation(ada)}/messages?to=greeter&payload=Shout",
            json={"text": "a", "times": "x"},
        )
        assert answer.status_code == 422
        assert [each["pointer"] for each in answer.json()["faults"]] == ["/times"]


async def test_xml_that_does_not_fit_gets_a_correction():
    async with desk() as door, door.client() as ada:
        codec = door.server.rules.codecs.of(type_of("Greet"))
        body = codec.encode(type_of("Greet")("Ada")).replace("name", "nme")
        answer = await ada.post(
            f"{await open_conversation(ada)}/messages?to=greeter",
            content=body,
            headers={"content-type": "application/xml"},
        )
        assert answer.status_code == 422
        assert "name" in answer.json()["detail"]


async def test_a_request_that_ends_without_an_answer_has_no_content():
    async with desk() as door, door.client() as ada:
        answer = await ada.post(
            f"{await open_conversation(ada)}/messages?to=breaker", json={"how": "silence"}
        )
        assert (answer.status_code, answer.content) == (204, b"")


async def test_a_client_that_does_not_wait_gets_the_request_id():
    async with talk() as (_, ada, path):
        answer = await ada.post(
            f"{path}/messages?to=cashier", json={"amount": 5}, headers={"prefer": "respond-async"}
        )
        assert answer.status_code == 202
        assert answer.headers["location"].startswith(f"{path}/events?after=")
        assert answer.headers["location"].partition("after=")[2]
        assert answer.json()["request"] in await read_until(ada, path, "paid 5")


async def test_a_wait_times_out_and_the_message_continues():
    async with talk() as (_, ada, path):
        answer = await ada.post(f"{path}/messages?to=pauser&wait=1", json={"seconds": 1.5})
        assert answer.status_code == 202
        assert await read_until(ada, path, "there")


async def test_a_request_can_be_cancelled_without_its_conversation():
    async with talk() as (_, ada, path):
        asked = await ada.post(
            f"{path}/messages?to=pauser", json={"seconds": 60}, headers={"prefer": "respond-async"}
        )
        request = asked.json()["request"]
        assert (await ada.delete(f"{path}/requests/{request}")).status_code == 204
        assert (await ada.delete(f"{path}/requests/{request}")).status_code == 404
        answer = await ada.post(f"{path}/messages?to=cashier", json={"amount": 1})
        assert answer.status_code == 200


async def test_an_ended_conversation_is_closed():
    async with talk() as (_, ada, path):
        assert (await ada.delete(path)).status_code == 204
        answer = await ada.post(f"{path}/messages?to=cashier", json={"amount": 1})
        assert answer.status_code == 410


async def test_the_same_key_is_the_same_request_and_pays_once():
    async with talk() as (door, ada, path):
        key = {"idempotency-key": "k-1"}
        first, again = [
            await ada.post(f"{path}/messages?to=cashier", json={"amount": 5}, headers=key) for _ in range(2)
        ]
        assert first.json()["request"] == again.json()["request"]
        assert first.json()["value"] == again.json()["value"]
        other = await ada.post(f"{path}/messages?to=cashier", json={"amount": 6}, headers=key)
        assert other.status_code == 422
        assert door.books.paid == 1


@pytest.mark.parametrize("wait", [0, 30])
@pytest.mark.parametrize("accept", ["application/json", "application/xml"])
async def test_a_repeated_message_gets_the_existing_answer_marked_as_such(wait, accept):
    async with talk() as (door, ada, path):
        answers = {}
        for key, to, body in (
            ("reply", "cashier", {"amount": 5}),
            ("error", "breaker", {"how": "crash"}),
            ("rest", "breaker", {"how": "quiet"}),
        ):
            headers = {"idempotency-key": key, "accept": accept}
            first = await ada.post(f"{path}/messages?to={to}", json=body, headers=headers)
            place = first.headers["agentserver-place"]
            await ada.get(f"{path}/events?wait=0", headers={"last-event-id": place})  # it counts as taken
            again = await ada.post(f"{path}/messages?to={to}&wait={wait}", json=body, headers=headers)
            answers[key] = first.status_code, again.status_code
            assert [each.headers["agentserver-again"] for each in (first, again)] == ["false", "true"]
            assert again.headers["agentserver-place"] == place
            assert again.headers["agentserver-request"] == first.headers["agentserver-request"]
        assert answers == {"reply": (200, 200), "error": (502, 502), "rest": (204, 204)}
        assert door.books.paid == 1


async def test_an_answer_says_in_its_json_whether_the_message_was_there_before():
    async with talk() as (_, ada, path):
        key = {"idempotency-key": "k-1"}
        accepted = [
            await ada.post(f"{path}/messages?to=pauser&wait=0", json={"seconds": 0.5}, headers=key)
            for _ in range(2)
        ]
        assert [(each.status_code, each.json()["again"]) for each in accepted] == [(202, False), (202, True)]
        later = await ada.post(f"{path}/messages?to=pauser", json={"seconds": 0.5}, headers=key)
        assert (later.status_code, later.json()["again"]) == (200, True)
        fresh = await ada.post(f"{path}/messages?to=cashier", json={"amount": 1})
        assert (fresh.status_code, fresh.json()["again"]) == (200, False)
        events = (await ada.get(f"{path}/events?wait=0")).text
        assert '"type":"reply"' in events
        assert "again" not in events


async def test_a_message_that_was_refused_is_refused_again_without_a_wait():
    async with talk() as (_, ada, path):
        key = {"idempotency-key": "k-1", "content-type": "application/xml"}
        found = [
            await ada.post(f"{path}/messages?to=cashier&wait=0", content=b"<odd/>", headers=key)
            for _ in range(2)
        ]
        assert [each.status_code for each in found] == [422, 422]
        assert [each.headers["agentserver-again"] for each in found] == ["false", "true"]


async def test_the_same_key_opens_the_same_conversation_for_each_principal():
    async with desk() as door, door.client() as ada, door.client("bob") as bob:
        key = {"idempotency-key": "k-1"}
        mine = [(await ada.post("/v1/conversations", headers=key)).json() for _ in range(2)]
        his = (await bob.post("/v1/conversations", headers=key)).json()
        assert mine[0] == mine[1] != his


@pytest.mark.parametrize("way", ["messages?to=cashier", "events", "trace", "requests/x", ""])
async def test_a_foreign_and_an_unknown_conversation_get_equal_bytes(way):
    async with desk() as door, door.client() as ada, door.client("bob") as bob:
        path = await open_conversation(bob)
        method = {"messages?to=cashier": "POST", "events": "GET", "trace": "GET"}.get(way, "DELETE")
        body = {"json": {"amount": 1}} if method == "POST" else {}
        foreign = await ada.request(method, f"{path}/{way}".rstrip("/"), **body)
        unknown = await ada.request(method, f"/v1/conversations/{'0' * 36}/{way}".rstrip("/"), **body)
        assert foreign.status_code == unknown.status_code == 404
        assert foreign.content == unknown.content
        assert without_date(foreign) == without_date(unknown)
        assert door.books.paid == 0


def without_date(answer):
    return {name: value for name, value in answer.headers.items() if name != "date"}


async def test_a_stranger_reaches_only_its_permitted_targets():
    async with desk() as door, door.client("eve") as eve:
        path = await open_conversation(eve)
        allowed = await eve.post(f"{path}/messages?to=greeter&payload=Greet", json={"name": "Eve"})
        assert allowed.status_code == 200
        barred = await eve.post(f"{path}/messages?to=cashier", json={"amount": 1})
        absent = await eve.post(f"{path}/messages?to=nobody", json={"amount": 1})
        assert (barred.status_code, barred.content) == (404, absent.content)
        assert door.books.paid == 0


async def test_a_full_queue_says_when_to_retry():
    async with talk(limits={"principal_queue": 1}) as (_, ada, path):
        for _ in range(3):
            asked = {"prefer": "respond-async"}
            answer = await ada.post(f"{path}/messages?to=pauser", json={"seconds": 60}, headers=asked)
        assert answer.status_code == 429
        assert (answer.json()["code"], answer.headers["retry-after"]) == ("busy", "1")


async def test_as_many_conversations_as_one_may_have():
    async with desk(limits={"principal_conversations": 1}) as door, door.client() as ada:
        await open_conversation(ada)
        answer = await ada.post("/v1/conversations")
        assert answer.status_code == 429
        assert "retry-after" in answer.headers


async def test_a_server_that_stops_takes_nothing_and_says_so():
    async with talk() as (door, ada, path):
        assert (await ada.get("/readyz")).status_code == 200
        door.door.stop()
        assert (await ada.get("/readyz")).status_code == 503
        assert (await ada.get("/healthz")).status_code == 200
        assert (await ada.post("/v1/conversations")).status_code == 503
        answer = await ada.post(f"{path}/messages?to=cashier", json={"amount": 1})
        assert answer.status_code == 503
        assert (await ada.get(f"{path}/events")).status_code == 503
        assert door.books.paid == 0


async def test_a_client_waiting_at_a_server_stop_gets_the_request_id():
    async with desk() as door, door.client() as ada, anyio.create_task_group() as tasks:
        path = await open_conversation(ada)
        told = []

        async def ask():
            told.append(await ada.post(f"{path}/messages?to=pauser&wait=30", json={"seconds": 30}))

        tasks.start_soon(ask)
        await until(lambda: len(door.door.holding))
        door.door.stop()
        await until(lambda: told)
        assert told[0].status_code == 202
        tasks.cancel_scope.cancel()


async def test_a_caller_that_disconnects_while_waiting_frees_its_connection():
    async with talk() as (door, ada, path):
        with anyio.move_on_after(0.3):
            await ada.post(f"{path}/messages?to=pauser&wait=30", json={"seconds": 30})
        await until(lambda: not len(door.door.holding))


async def test_a_viewer_changes_nothing():
    async with desk() as door, door.client("vera") as vera, door.client() as ada:
        path = await open_conversation(ada)
        for method, way in [
            ("POST", "/v1/conversations"),
            ("POST", f"{path}/messages?to=cashier"),
            ("DELETE", path),
            ("DELETE", f"{path}/requests/x"),
        ]:
            assert (await vera.request(method, way)).status_code == 403


async def test_a_client_beyond_its_waiting_limit_gets_the_request_id_at_once():
    async with desk(streams=1) as door, door.client() as ada, anyio.create_task_group() as tasks:
        path = await open_conversation(ada)
        tasks.start_soon(ada.get, f"{path}/events")
        await until(lambda: len(door.door.holding))
        answer = await ada.post(f"{path}/messages?to=cashier", json={"amount": 1})
        assert answer.status_code == 202
        assert (await ada.get(f"{path}/events")).status_code == 429
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("query", "told"),
    [
        (
            "",
            "The message is for one of several listeners: name it with to=: breaker, cashier, greeter, pauser, vault.",
        ),
        ("to=greeter", "greeter takes several payloads: name one with payload=: Greet, Shout."),
        ("wait=1e9", "wait= is a whole number of seconds from 0 to 99999."),
        ("wait=100000", "wait= is a whole number of seconds from 0 to 99999."),
    ],
)
async def test_a_refusal_names_missing_and_possible_values(query, told):
    async with talk() as (_, ada, path):
        answer = await ada.post(f"{path}/messages?{query}", json={"amount": 1})
        assert answer.json()["detail"] == told
    async with desk() as door, door.client("eve") as eve:
        answer = await eve.post(f"{await open_conversation(eve)}/messages", json={"amount": 1})
        assert answer.json()["detail"].startswith("greeter takes several payloads"), "it may address no other"


@pytest.mark.parametrize(
    ("query", "headers"),
    [
        ("wait=x", {}),
        ("wait=-1", {}),
        ("wait=1234567", {}),
        ("nonsense=1", {}),
        ("to=", {}),
        ("to=" + "x" * 301, {}),
        ("to=cashier", {"idempotency-key": ""}),
        ("to=cashier", {"idempotency-key": "x" * 513}),
        ("to=cashier", {"last-event-id": "7"}),
    ],
)
async def test_an_unknown_parameter_is_a_bad_request(query, headers):
    async with talk() as (door, ada, path):
        answer = await ada.post(f"{path}/messages?{query}", json={"amount": 1}, headers=headers)
        assert answer.status_code == 400
        assert door.books.paid == 0


async def test_a_revoked_caller_is_nobody():
    async with desk() as door, door.client("carl") as carl:
        door.people.known["carl"] = person("carl")
        await open_conversation(carl)
        del door.people.known["carl"]
        assert (await carl.post("/v1/conversations")).status_code == 401
