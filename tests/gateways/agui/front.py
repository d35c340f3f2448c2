"""A front end that speaks AG-UI to an organism behind a door on a real socket."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import anyio
import httpx
from ag_ui.core import Event, EventType, RunAgentInput, UserMessage
from pydantic import TypeAdapter

from agentserver import HandlerMetadata, HandlerResponse, invocation, xmlify
from agentserver.assembly import Server, build
from agentserver.config.yaml.secrets import Secrets
from agentserver.core.blueprint import Limits
from agentserver.gateways.agui import part
from agentserver.gateways.http import DoorOptions, HttpDoor, TokenKeeper
from agentserver.gateways.http.options import names
from agentserver.gateways.http.serving import bind, serve
from agentserver.testing import listener, organism_of
from tests.gateways.http.desk import EVERYBODY, NoPace, People, ReadingApprover
from tests.machine import HANGS, PLAIN

EVENT = TypeAdapter(Event)


@xmlify
@dataclass(frozen=True)
class Say:
    """What somebody says."""

    text: str
    loud: bool = False


@xmlify
@dataclass(frozen=True)
class Said:
    text: str


@xmlify
@dataclass(frozen=True)
class Sum:
    left: int
    right: int


@xmlify
@dataclass(frozen=True)
class Result:
    total: int
    odd: bool


@dataclass
class Heard:
    """Messages that the listeners got, and a gate that holds them."""

    said: list[str] = field(default_factory=list)
    free: anyio.Event = field(default_factory=anyio.Event)


def organism(heard: Heard, **limits: Any):
    async def chat(payload: Say, metadata: HandlerMetadata) -> HandlerResponse:
        heard.said.append(payload.text)
        invocation().progress("half")
        return HandlerResponse.respond(Said(f"You said {payload.text}"))

    async def vault(payload: Say, metadata: HandlerMetadata) -> HandlerResponse:
        heard.said.append(payload.text)
        return HandlerResponse.respond(Said(f"paid {payload.text}"))

    async def slow(payload: Say, metadata: HandlerMetadata) -> HandlerResponse:
        heard.said.append(payload.text)
        await heard.free.wait()
        return HandlerResponse.respond(Said("at last"))

    async def adder(payload: Sum, metadata: HandlerMetadata) -> HandlerResponse:
        total = payload.left + payload.right
        return HandlerResponse.respond(Result(total, bool(total % 2)))

    async def breaker(payload: Say, metadata: HandlerMetadata) -> HandlerResponse:
        raise RuntimeError("a secret reason")

    async def silent(payload: Say, metadata: HandlerMetadata) -> None:
        heard.said.append(payload.text)

    return organism_of(
        listener("chat", chat, Say, progress=True),
        listener("vault", vault, Say, approval=True),
        listener("slow", slow, Say),
        listener("adder", adder, Sum),
        listener("both", adder, Sum, Say),
        listener("breaker", breaker, Say),
        listener("silent", silent, Say),
        limits=Limits(**limits),
    )


@dataclass
class Front:
    """One principal's front end, at one door.

    It keeps the messages of each thread as the protocol's own clients do: those of its user, and those that it received.
    """

    server: Server
    door: HttpDoor
    heard: Heard
    port: int
    name: str = "ada"
    numbers: count = field(default_factory=lambda: count(1))
    threads: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def of(self, name: str) -> Front:
        """Another principal's."""
        return Front(self.server, self.door, self.heard, self.port, name)

    async def conversations(self) -> list[str]:
        """The ids of those that its principal has."""
        return await self.server.read(
            lambda kept: [one.id for one in kept.conversations() if one.principal == self.name]
        )

    def client(self) -> httpx.AsyncClient:
        headers = {"authorization": f"Bearer {self.name}"}
        return httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{self.port}", headers=headers, timeout=HANGS, verify=PLAIN
        )

    def asked(self, text: str | None, thread: str, resume: list[Any] | None, props: Any) -> dict[str, Any]:
        """The input of a run, made by the package."""
        number = next(self.numbers)
        messages = self.threads.setdefault(thread, [])
        if text is not None:
            said = UserMessage(id=f"m{number}", content=text)
            messages.append(json.loads(said.model_dump_json(by_alias=True)))
        found = RunAgentInput(
            thread_id=thread, run_id=f"run{number}", messages=messages, protocol_version="1.0", resume=resume,
            forwarded_props=props,
        )  # fmt: skip
        return json.loads(found.model_dump_json(by_alias=True))

    async def post(self, listener: str, body: Any) -> httpx.Response:
        """A run that the door may refuse before it begins."""
        async with self.client() as client:
            return await client.post(f"/v1/agui/{listener}", json=body)

    async def run(
        self,
        listener: str,
        text: str | None = None,
        *,
        thread: str = "t1",
        resume: Any = None,
        props: Any = None,
    ) -> list[Any]:
        """The events of a run, as the package reads them."""
        return await self.events(listener, self.asked(text, thread, resume, props))

    async def events(self, listener: str, body: dict[str, Any]) -> list[Any]:
        answer = await self.post(listener, body)
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"] == "text/event-stream"
        found = read(answer.text)
        self.threads.setdefault(body["threadId"], []).extend(messages(found))
        return found


def read(text: str) -> list[Any]:
    """A stream as the package's types."""
    lines = [line.removeprefix("data: ") for line in text.split("\n") if line.startswith("data: ")]
    return [EVENT.validate_json(line) for line in lines]


def messages(events: list[Any]) -> list[dict[str, Any]]:
    """List the messages that a run sent."""
    found: dict[str, str] = {}
    for event in events:
        if event.type is EventType.TEXT_MESSAGE_CONTENT:
            found[event.message_id] = found.get(event.message_id, "") + event.delta
    return [{"id": key, "role": "assistant", "content": text} for key, text in found.items()]


def words(events: list[Any]) -> list[str]:
    return [each["content"] for each in messages(events)]


def kinds(events: list[Any]) -> list[str]:
    """The kinds of the events, without those of steps and of the state."""
    every = [event.type.value for event in events]
    return [kind for kind in every if not kind.startswith(("STEP_", "STATE_"))]


def interrupts(events: list[Any]) -> list[Any]:
    """What the last event of a run waits for."""
    assert events[-1].outcome.type == "interrupt"
    return events[-1].outcome.interrupts


def resolved(interrupt: Any, answer: str = "once", digest: str | None = None) -> dict[str, Any]:
    """An answer, as the interrupt's own schema asks for it."""
    wanted = interrupt.response_schema["properties"]["digest"]["const"] if digest is None else digest
    return {
        "interruptId": interrupt.id,
        "status": "resolved",
        "payload": {"answer": answer, "digest": wanted},
    }


def abandon_interrupt(interrupt: Any) -> dict[str, Any]:
    return {"interruptId": interrupt.id, "status": "cancelled"}


@asynccontextmanager
async def front(secrets: tuple[str, ...] = (), **limits: Any):
    """A front end of ada's, a user, of an organism that has these secrets."""
    heard = Heard()
    made = await anyio.to_thread.run_sync(lambda: organism(heard, **limits))
    server = build(replace(made, secrets=Secrets.of(secrets)), approver=ReadingApprover())
    listening = bind("127.0.0.1", 0)
    port = listening.getsockname()[1]
    options = DoorOptions(*names(port, local=True, secure=False))
    async with server:
        door = HttpDoor(server, options, TokenKeeper(People(*EVERYBODY), NoPace()), [part()])
        async with door.open(), serve(door, listening, None, door.connections):
            yield Front(server, door, heard, port)
