"""Connections: how long each may take for what, how many there may be, and TLS."""

from __future__ import annotations

import ssl
import subprocess

import anyio
import httpx
import pytest

from agentserver.gateways.http import serving
from agentserver.gateways.http.serving import bound, tls
from tests.gateways.http.desk import desk, opened, until
from tests.machine import HANGS

pytestmark = pytest.mark.anyio


@pytest.fixture
def quick(monkeypatch):
    """Times in which a test ends."""
    monkeypatch.setattr(serving, "HEADS", 0.3)
    monkeypatch.setattr(serving, "IDLE", 0.3)
    monkeypatch.setattr(serving, "STUCK", 0.5)


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"POST /v1/conv",
        b"GET / HTTP/1.1\r\nhost: x\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nx",
    ],
)
async def test_a_client_that_does_not_say_what_it_wants_is_cut_off(quick, said):
    async with desk() as door, await door.connect() as stream:
        if said:
            await stream.send(said)
        await door.told(stream, b"", within=HANGS)


async def test_a_client_that_says_it_letter_by_letter_is_cut_off(quick):
    async with desk() as door, await door.connect() as stream:
        with anyio.fail_after(HANGS), pytest.raises((anyio.BrokenResourceError, anyio.EndOfStream)):
            for letter in b"GET /" + b"x" * 1000:
                await stream.send(bytes([letter]))
                await anyio.sleep(0.02)


async def test_an_idle_connection_is_closed_after_its_answer(quick):
    async with desk() as door, await door.connect() as stream:
        await stream.send(f"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1:{door.port}\r\n\r\n".encode())
        await door.told(stream, b'{"status":"ok"}', within=HANGS)


async def test_a_client_that_never_reads_is_cut_off(quick):
    async with (
        desk(limits={"payload": 2_000_000}) as door,
        door.client() as ada,
        await door.connect() as deaf,
    ):
        path = await opened(ada)
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
async def test_what_is_no_request_is_told_so(quick, said):
    async with desk() as door, await door.connect() as stream:
        await stream.send(said)
        await door.told(stream, b" 4", within=HANGS)


async def test_more_connections_than_there_may_be_are_told_so_and_others_go_on():
    async with desk(connections=3) as door, door.client() as ada:
        assert (await ada.get("/healthz")).status_code == 200
        streams = [await door.connect() for _ in range(3)]
        try:
            assert (await ada.get("/healthz")).status_code == 503
        finally:
            for stream in streams:
                await stream.aclose()
        with anyio.fail_after(HANGS):
            while (await ada.get("/healthz")).status_code != 200:  # noqa: ASYNC110 - nothing tells it
                await anyio.sleep(0.05)


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
    with bound("127.0.0.1", 0) as taken, pytest.raises(OSError, match="in use"):
        bound("127.0.0.1", taken.getsockname()[1])


def test_an_address_of_version_6_is_listened_on():
    with bound("::1", 0) as listening:
        assert listening.getsockname()[0] == "::1"
