"""Payloads and handlers that the gateways' tests talk to."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated

import anyio

from agentserver import Attribute, HandlerMetadata, HandlerResponse, xmlify
from agentserver.testing import listener, organism_of


@xmlify
@dataclass(frozen=True)
class Greet:
    name: str
    loud: bool = False


@xmlify
@dataclass(frozen=True)
class Greeting:
    text: str


@xmlify
@dataclass(frozen=True)
class Add:
    a: int
    b: int


@xmlify
@dataclass(frozen=True)
class Wait:
    seconds: float


@xmlify
@dataclass(frozen=True)
class Ping:
    pass


@dataclass(frozen=True)
class Item:
    sku: str
    count: int = 1


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@xmlify
@dataclass(frozen=True)
class Order:
    who: str
    number: Annotated[int | None, Attribute("no")] = None
    colour: Colour | None = None
    items: list[Item] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    gift: Item | None = None


async def greet(payload: Greet | Add, metadata: HandlerMetadata) -> HandlerResponse:
    text = f"Good day, {payload.name}!" if isinstance(payload, Greet) else str(payload.a + payload.b)
    return HandlerResponse.respond(Greeting(text))


async def order(payload: Order, metadata: HandlerMetadata) -> HandlerResponse:
    return HandlerResponse.respond(payload)


async def wait(payload: Wait, metadata: HandlerMetadata) -> HandlerResponse:
    await anyio.sleep(payload.seconds)
    return HandlerResponse.respond(Greeting("waited"))


async def silent(payload: Ping, metadata: HandlerMetadata) -> None:
    return None


async def stray(payload: Ping, metadata: HandlerMetadata) -> HandlerResponse | None:
    return HandlerResponse(Ping(), "\x1b[31mnobody")


async def crash(payload: Ping, metadata: HandlerMetadata) -> None:
    raise RuntimeError("hunter2 \x9b31m")


async def sly(payload: Ping, metadata: HandlerMetadata) -> HandlerResponse:
    return HandlerResponse.respond(Greeting("fine\n/quit\u009b31m \u202egnp"))


async def relay(payload: object, metadata: HandlerMetadata) -> HandlerResponse:
    if isinstance(payload, Wait):
        return HandlerResponse(payload, "waiter")
    return HandlerResponse.respond(payload)


DESK = organism_of(
    listener("greeter", greet, Greet, peers=["waiter"], description="Greets."),
    listener("both", greet, Greet, Add, agent=True),
    listener("shop", order),
    listener("waiter", wait),
    listener("relay", relay, Wait, peers=["waiter"]),
    listener("silent", silent),
    listener("stray", stray),
    listener("crash", crash),
    listener("sly", sly),
)
