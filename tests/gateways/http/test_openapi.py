"""The description of the door, and a generator of requests that reads it."""

from __future__ import annotations

import asyncio
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

from agentserver.gateways.http.openapi import described
from tests.gateways.http.desk import desk
from tests.machine import HANGS

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@contextmanager
def threaded(**options):
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
    with threaded(wait=1, limits={"principal_conversations": 100_000}) as one:
        yield one


@pytest.fixture(scope="module")
def api(door):
    return schemathesis.openapi.from_dict(dict(described(door.server.rules, "desk", ("greeter", "cashier"))))


def headers(case):
    """What the generator does not know: a token; and a stream that ends."""
    case.headers = {**(case.headers or {}), "authorization": "Bearer olga"}
    if case.operation.path.endswith("/events"):
        case.query = {**(case.query or {}), "wait": 0}
    return case


def test_requests_that_follow_links_meet_documented_answers_and_no_failure(door, api):
    seen = set()

    class Following(api.as_state_machine()):
        def get_call_kwargs(self, case):
            return {"base_url": door.url}

        def before_call(self, case):
            headers(case)

        def validate_response(self, response, case, **_):
            seen.add((case.operation.label, response.status_code))
            case.validate_response(response, checks=CHECKS)

    api.config.base_url = door.url
    Following.run(
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


def test_a_caller_is_told_of_whom_it_may_address_and_of_nobody_else(door):
    told = described(door.server.rules, "desk", ("greeter",))
    assert {"payload.Greet", "payload.Shout"} == {
        name for name in told["components"]["schemas"] if name.startswith("payload.")
    }
    assert "cashier" not in str(told)


def test_what_a_schema_refers_to_lies_in_the_description(door):
    told = described(door.server.rules, "desk", None)

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
    told = described(door.server.rules, "desk", None)
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
