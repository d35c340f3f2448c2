"""The description of the door, and a generator of requests that reads it."""

from __future__ import annotations

import asyncio
import re
import threading
from contextlib import contextmanager

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from agentserver.gateways.http import DoorOptions
from agentserver.gateways.http.forms import KEY
from agentserver.gateways.http.openapi import describe
from agentserver.gateways.http.options import names
from tests.gateways.http.desk import desk, open_conversation
from tests.machine import HANGS

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@contextmanager
def desk_thread(**options):
    """A desk in a thread of its own, for clients that block."""
    ready, told = threading.Event(), {}

    async def run():
        async with desk(**options) as door:
            told["door"], told["loop"], told["over"] = door, asyncio.get_running_loop(), asyncio.Event()
            ready.set()
            await told["over"].wait()

    thread = threading.Thread(target=asyncio.run, args=[run()])
    thread.start()
    assert ready.wait(HANGS)
    try:
        yield told["door"]
    finally:
        told["loop"].call_soon_threadsafe(told["over"].set)
        thread.join()


@pytest.fixture(scope="module")
def door():
    with desk_thread(wait=1, limits={"principal_conversations": 100_000}) as one:
        yield one


@pytest.fixture(scope="module")
def api(door):
    return schemathesis.openapi.from_dict(dict(describe(door.server.rules, "desk", ("greeter", "cashier"))))


def headers(case):
    """What the generator does not know: a token; and a stream that ends."""
    case.headers = {**(case.headers or {}), "authorization": "Bearer olga"}
    if case.operation.path.endswith("/events"):
        case.query = {**(case.query or {}), "wait": 0}
    return case


def test_requests_that_follow_links_meet_documented_answers_and_no_failure(door, api):
    seen = set()

    class ApiStateMachine(api.as_state_machine()):
        def get_call_kwargs(self, case):
            return {"base_url": door.url}

        def before_call(self, case):
            headers(case)

        def validate_response(self, response, case, **_):
            seen.add((case.operation.label, response.status_code))
            case.validate_response(response, checks=CHECKS)

    api.config.base_url = door.url
    ApiStateMachine.run(
        settings=settings(
            max_examples=12,
            stateful_step_count=6,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
    )
    assert ("POST /v1/conversations", 201) in seen
    assert ("GET /v1/conversations/{conversation}/trace", 200) in seen, seen  # links were followed


def test_a_caller_sees_its_permitted_targets_and_no_others(door):
    told = describe(door.server.rules, "desk", ("greeter",))
    assert {"payload.Greet", "payload.Shout"} == {
        name for name in told["components"]["schemas"] if name.startswith("payload.")
    }
    assert "cashier" not in str(told)


def test_references_of_a_schema_resolve_in_the_description(door):
    told = describe(door.server.rules, "desk", None)

    def refs(value):
        if isinstance(value, dict):
            for name, each in value.items():
                if name == "$ref":
                    yield each
                yield from refs(each)
        elif isinstance(value, list | tuple):
            for each in value:
                yield from refs(each)

    for ref in refs(told):
        found = told
        for step in ref.removeprefix("#/").split("/"):
            found = found[step]


def test_the_links_name_operations(door):
    told = describe(door.server.rules, "desk", None)
    operations = [each for path in told["paths"].values() for each in path.values()]
    names = {each["operationId"] for each in operations}
    links = [
        link["operationId"]
        for each in operations
        for answer in each["responses"].values()
        for link in answer.get("links", {}).values()
    ]
    assert links
    assert set(links) <= names


def test_each_listener_has_an_operation_with_a_schema_of_its_own(door):
    told = describe(door.server.rules, "desk", None)
    bodies = told["components"]["schemas"]
    assert bodies["listener.cashier"] == {"$ref": "#/components/schemas/payload.Pay"}
    assert bodies["listener.greeter"] == {
        "anyOf": [{"$ref": f"#/components/schemas/payload.{name}"} for name in ("Greet", "Shout")]
    }
    one = told["paths"]["/v1/conversations/{conversation}/messages/cashier"]["post"]
    assert one["operationId"] == "send.cashier"
    body = one["requestBody"]["content"]["application/json"]["schema"]
    assert body == {"$ref": "#/components/schemas/listener.cashier"}
    assert "to" not in [each["name"] for each in one["parameters"]]


@pytest.mark.parametrize(
    ("host", "url"),
    [("desk.example", "https://desk.example"), ("Desk.Example:443", "https://desk.example"),
     ("localhost:8420", "https://localhost:8420"), ("elsewhere", "/")],
)  # fmt: skip
def test_the_address_in_the_description_is_the_one_by_which_the_caller_came(host, url):
    options = DoorOptions(*names(8420, "https://desk.example", local=True, secure=True))
    assert options.address(host) == url


@pytest.mark.anyio
async def test_the_description_says_where_the_door_is():
    async with desk() as one, one.client() as ada:
        assert (await ada.get("/openapi.json")).json()["servers"] == [{"url": one.url}]


@pytest.mark.anyio
async def test_a_message_is_for_the_listener_that_its_path_names():
    async with desk() as one, one.client() as ada:
        path = await open_conversation(ada)
        answer = await ada.post(f"{path}/messages/greeter?payload=Greet", json={"name": "Ada"})
        assert answer.json()["value"] == {"text": "Hello, Ada"}
        assert (await ada.post(f"{path}/messages/greeter?to=cashier", json={})).status_code == 400
        assert (await ada.post(f"{path}/messages/nobody", json={})).status_code == 404


@pytest.mark.anyio
@pytest.mark.parametrize("key", ["a b", "\xe9", '"', '""', '"a', 'a"b', "x" * 513, ""])
async def test_an_idempotency_key_that_its_pattern_does_not_allow_is_refused(key):
    async with desk() as one, one.client() as ada:
        heads = {"idempotency-key": key.encode("latin-1")}
        answer = await ada.post("/v1/conversations", headers=heads)
        assert answer.status_code == 400
        assert "visible characters of ASCII" in answer.json()["detail"]
        assert re.search(KEY, key) is None


@pytest.mark.anyio
async def test_an_idempotency_key_may_stand_in_quotes():
    async with desk() as one, one.client() as ada:
        found = [
            (await ada.post("/v1/conversations", headers={"idempotency-key": key})).json()["conversation"]
            for key in ("!a~", '"!a~"', "other")
        ]
    assert found[0] == found[1] != found[2]
    assert re.search(KEY, '"!a~"')
