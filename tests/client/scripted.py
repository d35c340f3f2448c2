"""A door on a real socket that answers as a test says, and can lose connections in each phase."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

from agentserver.client import Client
from tests.machine import HANGS

TOKEN = "t" * 43


@dataclass
class Heard:
    method: str
    path: str
    query: dict
    headers: dict
    body: bytes

    def json(self):
        return json.loads(self.body)


@dataclass
class Door:
    """Requests received, and the remaining answers, each a function of a request."""

    answers: list = field(default_factory=list)
    heard: list = field(default_factory=list)
    url: str = ""

    @property
    def paths(self):
        return [f"{each.method} {each.path}" for each in self.heard]


def answer(status=200, body=None, headers=(), kind="application/json"):
    """A whole answer as bytes."""
    data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    head = (
        f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(data)}\r\nconnection: close\r\n"
    )
    return [head.encode() + b"".join(f"{n}: {v}\r\n".encode() for n, v in headers) + b"\r\n" + data]


def stream(*pieces):
    """A stream of events in pieces as they are sent."""
    return [b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n", *pieces]


def event_bytes(found):
    return b"event: x\ndata: " + json.dumps(found).encode() + b"\n\n"


LOST = []
"""An answer of a connection that is lost before it."""


def cut(pieces, at):
    """The first bytes of an answer."""
    return [b"".join(pieces)[:at]]


async def _read_request(reader):
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = head[0].split(" ")
    headers = {
        name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:]) if name
    }
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    address = urlsplit(target)
    query = {name: values[0] for name, values in parse_qs(address.query).items()}
    return Heard(method, address.path, query, headers, body)


@asynccontextmanager
async def script_door(*answers):
    """A door and a client of it."""
    door = Door(list(answers))

    async def serve(reader, writer):
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            heard = await _read_request(reader)
            door.heard.append(heard)
            said = door.answers.pop(0)
            for piece in said(heard) if callable(said) else said:
                writer.write(piece)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    door.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, Client(door.url, TOKEN, patience=HANGS) as client:
        yield door, client
