"""The gate: by which name the door is reached, whose request it is, how large and how slow it may be."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from dataclasses import replace

import anyio
import pytest
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from agentserver.gateways.http import DoorOptions, DoorPart
from agentserver.gateways.http.gate import Gate
from agentserver.gateways.http.parts import read_caller
from agentserver.gateways.principals import Delay, Rate, Rates, Role
from agentserver.gateways.principals.callers import REFUSALS
from tests.foreign_json.bombs import PLAIN
from tests.gateways.http.desk import NoPace, desk, open_conversation, talk
from tests.gateways.principals.people import ManualClock
from tests.machine import HANGS

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "token", [None, "Bearer nobody", "Bearer", "Basic YWRh", "", "Bearer \xe9\xff", "Bearer a b"]
)
async def test_without_a_token_that_somebody_has_nobody_is_let_in_and_all_get_equal_bytes(token):
    async with desk() as door, door.client("") as nobody:
        headers = {} if token is None else {"authorization": token.encode("latin-1")}
        answer = await nobody.post("/v1/conversations", headers=headers)
        bare = await nobody.post("/v1/conversations")
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.content == bare.content


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example", ""])
async def test_a_name_that_is_not_the_doors_own_is_refused(host):
    async with desk() as door, door.client() as ada:
        answer = await ada.post("/v1/conversations", headers={"host": host})
        assert answer.status_code == 421
        assert (await ada.get("/healthz", headers={"host": host})).status_code == 200


async def test_the_doors_own_names_are_accepted():
    async with desk() as door, door.client() as ada:
        for host in (f"LOCALHOST:{door.port}", f"[::1]:{door.port}"):
            assert (await ada.post("/v1/conversations", headers={"host": host})).status_code == 201


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1", "file://", ""])
async def test_a_request_of_another_site_is_refused(origin):
    async with desk() as door, door.client() as ada:
        answer = await ada.post("/v1/conversations", headers={"origin": origin})
        assert answer.status_code == 403
        own = await ada.post("/v1/conversations", headers={"origin": door.url})
        assert own.status_code == 201


def library():
    """A part whose route reads bodies by itself, as libraries do, and the list of bodies read."""
    read = []

    async def route(request):
        read.append(await request.body())
        return Response()

    return DoorPart("library", (Route("/library", route, methods=["POST"]),)), read


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("bomb", ["objects", "texts", "escaped texts", "arrays in arrays"])
async def test_json_beyond_the_limits_is_refused_before_any_route_reads_it(chunked, bomb):
    part, read = library()
    body = PLAIN[bomb]

    async def pieces():
        for start in range(0, len(body), 50_000):
            yield body[start : start + 50_000]

    async with desk(parts=[part]) as door, door.client() as ada:
        headers = {"content-type": "application/json"}
        answer = await ada.post("/library", content=pieces() if chunked else body, headers=headers)
        assert answer.status_code == 422
        assert answer.json()["detail"].startswith("A JSON body must ")
        assert read == []
        whole = await ada.post("/library", content=b'{"a": "[[[["}', headers=headers)
        assert (whole.status_code, read) == (200, [b'{"a": "[[[["}'])


async def test_a_refused_body_is_refused_too_where_a_library_answers_errors_itself():
    """The library of MCP made a 500 with a traceback of each bomb."""

    async def read(request):
        await request.body()
        return Response()

    inner = Starlette(routes=[Route("/library", read, methods=["POST"])])
    part = DoorPart("library", (Route("/library", inner, methods=["POST"]),))
    async with desk(parts=[part]) as door, door.client() as ada:
        headers = {"content-type": "application/json"}
        answer = await ada.post("/library", content=PLAIN["objects"], headers=headers)
        assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
        assert (await ada.post("/library", content=b"[]", headers=headers)).status_code == 200


@pytest.mark.parametrize(
    "kinds",
    [
        ["Application/JSON; charset=utf-8"],
        ["text/plain, application/json"],
        ["application/json", "text/xml"],
        ["text/xml", "application/json"],
    ],
)
async def test_a_type_that_names_json_anywhere_has_the_body_counted(kinds):
    part, read = library()
    async with desk(parts=[part]) as door, door.client() as ada:
        headers = [("content-type", kind) for kind in kinds]
        answer = await ada.post("/library", content=PLAIN["objects"], headers=headers)
        assert (answer.status_code, read) == (422, [])


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_that_is_too_large_is_not_taken(chunked):
    async with talk(body=10_000) as (_, ada, path):
        body = b'{"name": "' + b"x" * 20_000 + b'"}'

        async def pieces():
            for start in range(0, len(body), 1000):
                yield body[start : start + 1000]

        headers = {"content-type": "application/json"}
        content = pieces() if chunked else body
        answer = await ada.post(f"{path}/messages?to=greeter&payload=Greet", content=content, headers=headers)
        assert answer.status_code == 413
        assert answer.headers["content-type"] == "application/problem+json"


async def drip(stream):
    """Send one byte after the other: those that come at once, however slow the door is, are one piece to it."""
    with suppress(anyio.BrokenResourceError):
        for _ in range(90):
            await anyio.sleep(0.05)
            await stream.send(b" ")


async def nothing(stream):
    """Send nothing."""


@pytest.mark.parametrize(
    ("limit", "sending"), [("patience", drip), ("pause", nothing)], ids=["little comes", "nothing comes"]
)
async def test_a_body_that_does_not_come_in_time_is_answered_with_408(limit, sending):
    async with talk(**{limit: 0.2}) as (door, _, path):
        head = f"POST {path}/messages?to=cashier HTTP/1.1\r\nhost: 127.0.0.1:{door.port}\r\nauthorization: Bearer ada\r\n"
        async with await door.connect() as stream, anyio.create_task_group() as tasks:
            await stream.send(
                f"{head}content-type: application/json\r\ncontent-length: 100\r\n\r\n{{".encode()
            )
            tasks.start_soon(sending, stream)
            await door.told(stream, b" 408 ")
            tasks.cancel_scope.cancel()
        assert door.books.paid == 0


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("PUT", "/v1/conversations", 405),
        ("PUT", "/v1/approvals", 405),
        ("POST", "/healthz", 405),
        ("GET", "/v1/conversations/%00/trace", 404),
        ("GET", "/v1/conversations/%ff%fe/trace", 404),
        ("GET", "/v1/conversations/" + "x" * 5000 + "/trace", 404),
        ("GET", "/v1/conversations/a/events/", 404),
        ("GET", "/metrics", 404),
        ("DELETE", "/v1/conversations/x/requests/%F0%9F%92%A9", 404),
    ],
)
async def test_paths_and_methods_that_there_are_not(method, path, status):
    async with desk() as door, door.client() as ada:
        answer = await ada.request(method, path)
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/problem+json"


async def test_a_mistake_of_a_part_is_an_answer_and_says_nothing():
    async def broken(request):
        raise RuntimeError("a secret reason")

    async with desk(parts=[DoorPart("broken", (Route("/broken", broken),))]) as door, door.client() as ada:
        answer = await ada.get("/broken")
        assert answer.status_code == 500
        assert "secret" not in answer.text


async def test_the_routes_of_a_part_ask_for_a_token_unless_it_is_open():
    async def whose(request):
        return Response(read_caller(request).name)

    async def anybody(request):
        return Response("come in")

    entered = []

    class Life:
        async def __aenter__(self):
            entered.append("in")

        async def __aexit__(self, *_):
            entered.append("out")

    parts = [
        DoorPart(
            "closed", (Route("/whose", whose),), headers={"Content-Security-Policy": "default-src 'none'"}
        ),
        DoorPart("open", (Route("/anybody", anybody),), open=True, lifespan=Life),
    ]
    async with desk(parts=parts) as door, door.client() as ada, door.client("") as nobody:
        answer = await ada.get("/whose")
        assert answer.text == "ada"
        assert answer.headers["content-security-policy"] == "default-src 'none'"
        assert (await nobody.get("/whose")).status_code == 401
        assert (await nobody.get("/anybody")).text == "come in"
        assert "content-security-policy" not in (await nobody.get("/anybody")).headers
        assert entered == ["in"]
    assert entered == ["in", "out"]


async def test_an_exceeded_rate_says_when_to_retry():
    class Slow(NoPace):
        def take(self, caller):
            return Delay(1.5, caller.name, caller.rate)

    async with desk(pace=Slow()) as door, door.client() as ada:
        answer = await ada.post("/v1/conversations")
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "2")
        assert answer.json()["detail"] == (
            "Your rate of 1000/s is used up: come again in 2 s, or have an operator raise it."
        )


REFUSED = {
    "an unknown token": ("GET", "/v1/approvals", {"authorization": "Bearer guessed"}, 401),
    "no token": ("GET", "/v1/approvals", {"authorization": ""}, 401),
    "another site": ("GET", "/v1/approvals", {"origin": "https://evil.example"}, 403),
    "another name": ("GET", "/v1/approvals", {"host": "evil.example"}, 421),
    "an open part that refuses": ("POST", "/login", {}, 401),
}


@pytest.mark.parametrize("kind", REFUSED)
async def test_refused_requests_of_nobody_count_against_the_rate_of_their_address(kind):
    async def login(request):
        return Response("no token of a principal's", 401)

    method, path, headers, status = REFUSED[kind]
    parts = [DoorPart("login", (Route("/login", login, methods=["POST"]),), open=True)]
    async with desk(pace=Rates(ManualClock()), parts=parts) as door, door.client() as ada:
        answers = [await ada.request(method, path, headers=headers) for _ in range(REFUSALS.count + 1)]
        assert [each.status_code for each in answers] == [*[status] * REFUSALS.count, 429]
        late = answers[-1]
        assert (late.headers["retry-after"], late.headers["connection"]) == ("1", "close")
        assert late.headers["content-type"] == "application/problem+json"
        assert "refused requests come from this address" in late.json()["detail"]
        assert (await ada.post("/v1/conversations")).status_code == 201, (
            "a valid token is served all the same"
        )


async def test_requests_that_a_role_may_not_make_count_against_the_rate_of_their_principal():
    async def secret(request):
        return Response("for operators")

    parts = [DoorPart("secret", (Route("/secret", secret),), roles=frozenset({Role.OPERATOR}))]
    async with desk(pace=Rates(ManualClock()), parts=parts) as door, door.client() as ada:
        door.people.known["ada"] = replace(door.people.known["ada"], rate=Rate(3, "s"))
        assert [(await ada.get("/secret")).status_code for _ in range(4)] == [403, 403, 403, 429]


async def test_bodies_that_never_end_keep_one_principal_from_the_door_and_nobody_else():
    async with (
        desk(present=3) as door,
        door.client() as ada,
        door.client("bob") as bob,
        AsyncExitStack() as stack,
    ):
        path = await open_conversation(ada)
        head = (
            f"POST {path}/messages HTTP/1.1\r\nHost: 127.0.0.1:{door.port}\r\nAuthorization: Bearer ada\r\n"
            "Content-Type: application/json\r\nContent-Length: 900\r\n\r\n"
        )
        for _ in range(3):
            stream = await stack.enter_async_context(await door.connect())
            await stream.send(head.encode())
        payment = (f"{path}/messages?to=cashier", {"amount": 1})
        with anyio.fail_after(HANGS):
            while (refused := await ada.post(payment[0], json=payment[1])).status_code != 429:  # noqa: ASYNC110 - the door tells nobody
                await anyio.sleep(0.05)
        assert refused.headers["retry-after"] == "1"
        assert (await bob.post("/v1/conversations")).status_code == 201
        await stack.aclose()
        with anyio.fail_after(HANGS):
            while (await ada.post(payment[0], json=payment[1])).status_code == 429:  # noqa: ASYNC110 - as above
                await anyio.sleep(0.05)


async def test_metrics_are_for_operators_and_viewers():
    async with desk(metrics=lambda: b"up 1\n") as door:
        for name, status in (("ada", 403), ("olga", 200), ("vera", 200), ("", 401)):
            async with door.client(name) as client:
                assert (await client.get("/metrics")).status_code == status


async def test_each_answer_forbids_caching_and_sniffing():
    async with desk() as door, door.client() as ada:
        for answer in (await ada.get("/healthz"), await ada.get("/nothing")):
            assert answer.headers["cache-control"] == "no-store"
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert "server" not in answer.headers


async def test_an_answer_has_each_header_once():
    async def page(_request):
        return Response(headers={"Cache-Control": "no-cache", "x-content-type-options": "nosniff"})

    async with desk(parts=[DoorPart("page", (Route("/page", page),))]) as door, door.client() as ada:
        answer = await ada.get("/page")
        assert answer.headers.get_list("cache-control") == ["no-cache"]
        assert answer.headers.get_list("x-content-type-options") == ["nosniff"]


@pytest.mark.parametrize("path", ["/healthz", "/v1/conversations", "/nothing"])
async def test_a_request_with_two_lengths_is_refused_and_its_connection_closed(path):
    """RFC 9112, 6.1: a proxy that reads the other length takes the rest of the bytes for a request of its own."""
    async with desk() as door, await door.connect() as stream:
        head = f"host: 127.0.0.1:{door.port}\r\nauthorization: Bearer ada\r\n"
        smuggled = f"POST /v1/conversations HTTP/1.1\r\n{head}content-length: 0\r\n\r\n"
        both = f"content-length: {5 + len(smuggled)}\r\ntransfer-encoding: chunked\r\n"
        await stream.send(f"POST {path} HTTP/1.1\r\n{head}{both}\r\n0\r\n\r\n{smuggled}".encode())
        said = b""
        with anyio.fail_after(HANGS), suppress(anyio.EndOfStream):
            while True:
                said += await stream.receive()
        assert said.startswith(b"HTTP/1.1 400 ")
        assert said.count(b"HTTP/1.1 ") == 1
        assert b"connection: close" in said.lower()
        assert not door.server.trace.conversations()


async def test_a_refusal_for_a_quota_suggests_a_remedy():
    async with talk(limits={"principal_conversations": 1}) as (_, ada, path):
        refused = await ada.post("/v1/conversations")
        assert refused.status_code == 429
        assert refused.json()["detail"] == (
            "ada has 1 conversations open, which is limits.principal_conversations: close some first; "
            "DELETE /v1/conversations/ID ends one."
        )
        await ada.delete(path)
        assert (await ada.post("/v1/conversations")).status_code == 201


async def test_a_request_that_the_end_of_the_server_cuts_off_is_answered_with_503():
    """The server library cancels late requests, and would answer them with 500."""
    begun, sent = asyncio.Event(), []

    async def waits(scope, receive, send):
        begun.set()
        await asyncio.Event().wait()

    async def send(message):
        sent.append(message)

    gate = Gate(DoorOptions(frozenset(), frozenset()), waits, None, lambda scope, status: None)
    scope = {"type": "http", "method": "GET", "path": "/healthz", "query_string": b"", "headers": []}
    answering = asyncio.ensure_future(gate(scope, asyncio.Event().wait, send))
    await begun.wait()
    answering.cancel()
    await answering
    assert sent[0]["status"] == 503
