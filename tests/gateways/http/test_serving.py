"""Connections: how long each may take for what, how many there may be, and TLS."""

from __future__ import annotations

import resource
import ssl
import subprocess
from contextlib import AsyncExitStack

import anyio
import httpx
import pytest

from agentserver.gateways.http import serving
from agentserver.gateways.http.connections import Connections
from agentserver.gateways.http.options import DoorOptions
from agentserver.gateways.http.serving import bind, limit_connections, tls
from tests.gateways.http.desk import desk, open_conversation, until
from tests.machine import HANGS

pytestmark = pytest.mark.anyio


@pytest.fixture
def hasty(monkeypatch):
    """Little time for what a client has to say. On a machine at work a client that means well may need more."""
    monkeypatch.setattr(serving, "HEADS", 0.3)
    monkeypatch.setattr(serving, "BODY", 0.3)


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"POST /v1/conv",
        b"GET / HTTP/1.1\r\nhost: x\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nx",
    ],
)
async def test_a_client_that_sends_no_request_is_cut_off(hasty, said):
    async with desk() as door, await door.connect() as stream:
        if said:
            await stream.send(said)
        await door.told(stream, b"", within=HANGS)


async def test_a_client_that_says_it_letter_by_letter_is_cut_off(hasty):
    async with desk() as door, await door.connect() as stream:
        with anyio.fail_after(HANGS), pytest.raises((anyio.BrokenResourceError, anyio.EndOfStream)):
            for letter in b"GET /" + b"x" * 1000:
                await stream.send(bytes([letter]))
                await anyio.sleep(0.02)


async def test_a_connection_without_a_request_is_closed_after_the_time_that_is_set():
    async with desk(idle=0.3) as door, await door.connect() as stream:
        await stream.send(f"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1:{door.port}\r\n\r\n".encode())
        await door.told(stream, b'{"status":"ok"}', within=HANGS)


async def test_a_client_that_never_reads_is_cut_off(monkeypatch):
    monkeypatch.setattr(serving, "STUCK", 0.5)
    async with (
        desk(limits={"payload": 2_000_000}) as door,
        door.client() as ada,
        await door.connect() as deaf,
    ):
        path = await open_conversation(ada)
        await deaf.send(
            f"GET {path}/events HTTP/1.1\r\nhost: 127.0.0.1:{door.port}\r\nauthorization: Bearer ada\r\n\r\n".encode()
        )
        with anyio.fail_after(HANGS):
            await until(lambda: len(door.door.holding))
            while len(door.door.holding):
                body = {"text": "x" * 1000, "times": 900}
                await ada.post(f"{path}/messages?to=greeter&payload=Shout&wait=0", json=body)
        assert (await ada.get("/healthz")).status_code == 200


@pytest.mark.parametrize(
    "said",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nbad header\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\nx: " + b"y" * 70_000 + b"\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n",
        b"GET /v1/conversations/x/events HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
    ],
)
async def test_an_invalid_request_gets_an_error(hasty, said):
    async with desk(idle=0.3) as door, await door.connect() as stream:
        await stream.send(said)
        await door.told(stream, b" 4", within=HANGS)


def head(door, method, path, *lines):
    fields = [f"host: 127.0.0.1:{door.port}", "authorization: Bearer ada", *lines]
    return "\r\n".join([f"{method} {path} HTTP/1.1", *fields, "", ""]).encode()


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/messages?to=greeter"), ("GET", "/events"), ("POST", "/nowhere")]
)
async def test_a_chunk_that_is_none_ends_its_request_without_an_error_in_the_log(caplog, method, path):
    async with desk() as door, door.client() as ada:
        path = await open_conversation(ada) + path
        chunked = ("content-type: application/json", "transfer-encoding: chunked")
        async with await door.connect() as stream:
            await stream.send(head(door, method, path, *chunked) + b"zz\r\n{}")
            await door.told(stream, b" 400 ", within=HANGS)
        await until(lambda: not len(door.door.holding))
    assert not [each for each in caplog.records if each.levelname == "ERROR"]


async def test_a_chunk_that_is_none_after_the_answer_closes_the_connection_without_an_error_in_the_log(
    caplog,
):
    async with desk() as door, await door.connect() as stream:
        await stream.send(head(door, "POST", "/nowhere", "transfer-encoding: chunked"))
        assert b" 404 " in await stream.receive()
        await stream.send(b"zz\r\n")
        await door.told(stream, b"", within=HANGS)
    assert not [each for each in caplog.records if each.levelname == "ERROR"]


async def test_a_stream_begins_when_the_body_of_its_request_is_there(caplog):
    async with desk(pause=0.3) as door, door.client() as ada:
        path = f"{await open_conversation(ada)}/events"
        async with await door.connect() as stream:
            await stream.send(head(door, "GET", path, "content-length: 10"))
            await door.told(stream, b" 408 ", within=HANGS)
        async with await door.connect() as stream:
            await stream.send(
                head(door, "GET", f"{path}?wait=0", "content-length: 2", "connection: close") + b"{}"
            )
            await door.told(stream, b"event: end", within=HANGS)
    assert not [each for each in caplog.records if each.levelname == "ERROR"]


@pytest.mark.parametrize(
    "lines", [["content-length: 5"], ["x: y"] * 200, ["x: " + "y" * 9000]], ids=["a body", "many", "long"]
)
async def test_a_request_for_a_websocket_that_is_not_understood_is_refused_and_closed(lines):
    async with desk() as door, await door.connect() as stream:
        asks = ["upgrade: websocket", "connection: upgrade", "sec-websocket-version: 13"]
        key = "sec-websocket-key: eHh4eHh4eHh4eHh4eHh4eA=="
        await stream.send(head(door, "GET", "/v1/conversations/x/events", *asks, key, *lines))
        await door.told(stream, b" 400 ", within=HANGS)
        await until(lambda: not len(door.door.connections))


async def test_the_time_of_a_head_ends_no_websocket(hasty):
    async with desk() as door, door.client() as ada, await door.connect() as stream:
        path = f"{await open_conversation(ada)}/events"
        asks = ["upgrade: websocket", "connection: upgrade", "sec-websocket-version: 13"]
        await stream.send(head(door, "GET", path, *asks, "sec-websocket-key: eHh4eHh4eHh4eHh4eHh4eA=="))
        assert b" 101 " in await stream.receive()
        await anyio.sleep(3 * serving.HEADS)
        assert len(door.door.holding) == 1


async def test_connections_without_a_request_make_room_for_new_ones():
    async with desk(connections=3, reserved=1) as door, AsyncExitStack() as stack:
        silent = [await stack.enter_async_context(await door.connect()) for _ in range(3)]
        async with door.client() as ada:
            assert (await ada.post("/v1/conversations")).status_code == 201
        with anyio.fail_after(HANGS), pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
            await silent[0].receive()


async def test_streams_of_one_principal_leave_connections_for_probes_and_operators():
    settings = {"connections": 12, "reserved": 8, "streams": 100}
    async with desk(**settings) as door, door.client("olga") as olga, AsyncExitStack() as stack:
        async with door.client() as ada:
            path = await open_conversation(ada)
        head = f"host: 127.0.0.1:{door.port}\r\nauthorization: Bearer ada\r\n\r\n"
        for _ in range(20):
            stream = await stack.enter_async_context(await door.connect())
            await stream.send(f"GET {path}/events HTTP/1.1\r\n{head}".encode())
        await until(lambda: len(door.door.holding) == 4)
        for _ in range(3):
            assert (await olga.get("/v1/approvals")).status_code == 200
            assert (await olga.get("/healthz")).status_code == 200
        async with door.client("bob") as bob:
            refused = await bob.get("/v1/approvals")
            assert (refused.status_code, refused.headers["connection"]) == (503, "close")
            assert (await bob.get("/readyz")).status_code == 200
        assert len(door.door.holding) == 4


async def test_the_last_connections_of_the_reserve_are_for_probes_alone():
    seats = Connections(DoorOptions(frozenset(), frozenset(), connections=12, reserved=8))
    taken = [Cut() for _ in range(12)]
    for number, each in enumerate(taken, 1):
        assert seats.add(each)
        seats.work(each)
        assert (seats.crowded, seats.scarce) == (number > 4, number > 10)
    assert not seats.add(Cut())
    seats.rest(taken[5])
    assert seats.add(Cut())
    assert [each.cut for each in taken] == [number == 5 for number in range(12)]
    seats.remove(taken[0])
    assert len(seats) == 11


class Cut:
    """A connection that knows whether it was cut."""

    cut = False

    def abort(self):
        self.cut = True


def test_connections_are_limited_by_available_file_descriptors(monkeypatch):
    limits = {"now": (256, 4096)}
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits["now"])
    monkeypatch.setattr(resource, "setrlimit", lambda _, said: limits.update(now=said))
    assert limit_connections(2000) == 2000
    assert limits["now"] == (2512, 4096)
    assert limit_connections(9000) == 4096 - 512
    assert limits["now"] == (4096, 4096)


@pytest.fixture
def certificate(tmp_path):
    files = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = [
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-subj",
        "/CN=localhost",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
    ]
    command = ["openssl", "req", "-x509", *made, "-keyout", files[1], "-out", files[0], "-days", "1"]
    subprocess.run(command, check=True, capture_output=True)
    return files


async def test_tls_is_version_13_and_no_older(certificate):
    def client(version=None):
        context = ssl.create_default_context(cafile=certificate[0])
        if version is not None:
            context.maximum_version = version
        return context

    secure, new, old = [
        await anyio.to_thread.run_sync(make)
        for make in (lambda: tls(*certificate), client, lambda: client(ssl.TLSVersion.TLSv1_2))
    ]
    async with desk(secure=secure) as door:
        async with door.client(verify=new) as ada:
            assert (await ada.post("/v1/conversations")).status_code == 201
        async with door.client(verify=old) as ada:
            with pytest.raises(httpx.ConnectError):
                await ada.get("/healthz")


def test_an_address_that_is_taken_is_an_error():
    with bind("127.0.0.1", 0) as taken, pytest.raises(OSError, match="in use"):
        bind("127.0.0.1", taken.getsockname()[1])


def test_an_address_of_version_6_is_listened_on():
    with bind("::1", 0) as listening:
        assert listening.getsockname()[0] == "::1"
