"""An organism behind a door on a real socket, with people who have tokens."""

from __future__ import annotations

import contextlib
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import anyio
import anyio.lowlevel
import httpx

from agentserver import HandlerMetadata, HandlerResponse, xmlify
from agentserver.assembly import Principal, Server, Trust, build
from agentserver.core.blueprint import Limits
from agentserver.gateways.http import DoorOptions, HttpDoor, TokenKeeper
from agentserver.gateways.http.options import names
from agentserver.gateways.http.serving import bind, serve
from agentserver.gateways.principals import Caller, Delay, Rate, Role
from agentserver.testing import listener, organism_of
from tests.machine import HANGS, PLAIN


@xmlify
@dataclass(frozen=True)
class Greet:
    """Somebody to greet."""

    name: str


@xmlify
@dataclass(frozen=True)
class Shout:
    text: str
    times: int = 1


@xmlify
@dataclass(frozen=True)
class Greeting:
    text: str


@xmlify
@dataclass(frozen=True)
class Pause:
    seconds: float


@xmlify
@dataclass(frozen=True)
class Pay:
    amount: int


@xmlify
@dataclass(frozen=True)
class Break:
    how: str


@dataclass
class Books:
    """What the listeners have done."""

    paid: int = 0
    cancelled: int = 0


async def greet(payload: Greet | Shout, metadata: HandlerMetadata) -> HandlerResponse:
    if isinstance(payload, Shout):
        return HandlerResponse.respond(Greeting(payload.text * payload.times))
    return HandlerResponse.respond(Greeting(f"Hello, {payload.name}"))


async def pause(payload: Pause, metadata: HandlerMetadata) -> HandlerResponse:
    await anyio.sleep(payload.seconds)
    return HandlerResponse.respond(Greeting("there"))


async def silent(payload: Break, metadata: HandlerMetadata) -> None:
    if payload.how == "crash":
        raise RuntimeError("a secret reason")
    if payload.how == "late":
        await anyio.sleep_forever()


def organism(books: Books, **limits: Any):
    async def pay(payload: Pay, metadata: HandlerMetadata) -> HandlerResponse:
        books.paid += 1
        await anyio.lowlevel.checkpoint()
        return HandlerResponse.respond(Greeting(f"paid {payload.amount}"))

    return organism_of(
        listener("greeter", greet, Greet, Shout),
        listener("pauser", pause, Pause),
        listener("cashier", pay, Pay),
        listener("vault", pay, Pay, approval=True),
        listener("breaker", silent, Break, deadline=0.3),
        limits=Limits(**{"drain": 0.2} | limits),
    )


class People:
    """Tokens without a file: a name is its own token."""

    def __init__(self, *callers: Caller) -> None:
        self.known = {each.name: each for each in callers}

    def authenticate(self, token: str) -> Caller | None:
        return self.known.get(token)

    async def prepare(self, token: str) -> None:
        """Fetch nothing."""

    def explain_absence(self, token: str) -> str:
        return ""

    def stands(self, caller: Caller) -> bool:
        return self.known.get(caller.name) == caller


class NoPace:
    """Everybody may come as often as it likes."""

    def take(self, caller: Caller) -> Delay:
        return Delay()

    def refuse(self, address: str) -> float:
        return 0.0


def person(
    name: str, role: Role = Role.USER, may: tuple[str, ...] | None = None, trust: Trust = Trust.ORDERS
) -> Caller:
    return Caller(Principal(name, trust, may), role, Rate(1000, "s"), 100)


EVERYBODY = (
    person("ada"),
    person("bob"),
    person("olga", Role.OPERATOR),
    person("vera", Role.VIEWER),
    person("eve", may=("greeter",), trust=Trust.STRANGER),
)


class ReadingApprover:
    """An approver that only looks."""

    def show(self, approval: object) -> None:
        pass


@dataclass
class Desk:
    """A door that is open.

    Args:
        door: with its server.
        url: without a path.
        port: of it.
        books: of the listeners.
        people: who are known.
    """

    door: HttpDoor
    server: Server
    port: int
    books: Books
    people: People
    secure: bool = False

    @property
    def url(self) -> str:
        return f"http{'s' if self.secure else ''}://127.0.0.1:{self.port}"

    def client(self, name: str = "ada", **options: Any) -> httpx.AsyncClient:
        headers = {"authorization": f"Bearer {name}"} if name else {}
        options.setdefault("verify", PLAIN)
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=HANGS, **options)

    async def connect(self) -> anyio.abc.SocketStream:
        return await anyio.connect_tcp("127.0.0.1", self.port)

    async def told(self, stream: anyio.abc.SocketStream, words: bytes, within: float = HANGS) -> None:
        """Hold that the door says these words, and closes the connection in time."""
        data = b""
        with anyio.fail_after(within), contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            while True:
                data += await stream.receive()
        assert words in data, data


@asynccontextmanager
async def desk(
    *,
    parts=(),
    made=None,
    metrics=None,
    limits=None,
    pace=None,
    secure=None,
    engine=None,
    guards=None,
    **options,
):
    books = Books()
    if made is None:  # it looks where it is
        made = await anyio.to_thread.run_sync(lambda: organism(books, **(limits or {})))
    server = build(made, approver=ReadingApprover(), engine=engine, guards=guards or {})
    listening = bind("127.0.0.1", 0)
    port = listening.getsockname()[1]
    hosts, origins = names(port, local=True, secure=secure is not None)
    people = People(*EVERYBODY)
    settings = replace(DoorOptions(hosts, origins), **options)
    async with server:
        door = HttpDoor(
            server,
            settings,
            TokenKeeper(people, NoPace() if pace is None else pace),
            parts,
            metrics=metrics,
            name="desk",
        )
        async with door.open(), serve(door, listening, secure, door.connections, settings.idle):
            yield Desk(door, server, port, books, people, secure is not None)


async def open_conversation(client: httpx.AsyncClient) -> str:
    """The path of a new conversation."""
    answer = await client.post("/v1/conversations")
    assert answer.status_code == 201, answer.text
    return f"/v1/conversations/{answer.json()['conversation']}"


@asynccontextmanager
async def talk(**options):
    """A desk, a client of Ada's, and the path of her new conversation."""
    async with desk(**options) as door, door.client() as ada:
        yield door, ada, await open_conversation(ada)


async def until(condition, within: float = 100) -> None:
    """Poll for a state that no event reports."""
    with anyio.fail_after(within):
        while not condition():  # noqa: ASYNC110 - what is looked at belongs to the library, or to another task
            await anyio.sleep(0.01)


async def read_until(client: httpx.AsyncClient, path: str, words: str) -> str:
    """Read a stream until these words have appeared in it."""
    text = ""
    with anyio.fail_after(HANGS):
        async with client.stream("GET", f"{path}/events") as answer:
            async for piece in answer.aiter_text():
                text += piece
                if words in text:
                    return text
    raise AssertionError(text)


async def server_sent(client: httpx.AsyncClient, path: str, **headers: str):
    """The events of a stream as they come: kind, id, text. Comments are left out."""
    async with client.stream("GET", path, headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/event-stream"
        kind = at = data = ""
        async for line in answer.aiter_lines():
            name, _, value = line.partition(": ")
            if name == "event":
                kind = value
            elif name == "id":
                at = value
            elif name == "data":
                data = value
            elif not line and data:
                yield kind, at, data
                data = ""
