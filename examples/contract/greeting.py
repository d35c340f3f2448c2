"""An agent that forwards to a peer and passes the peer's answer on to its own caller."""

from __future__ import annotations

from dataclasses import dataclass

from agentserver import (
    HandlerMetadata,
    HandlerResponse,
    SystemError,
    xmlify,
)


@xmlify
@dataclass(frozen=True, slots=True)
class Greeting:
    """Somebody to be greeted.

    Args:
        name: of the person.
        through: the listener that is to say it.
    """

    name: str
    through: str = "shouter"


@xmlify
@dataclass(frozen=True, slots=True)
class GreetingResponse:
    """What is to be said.

    Args:
        message: the text.
    """

    message: str


@xmlify
@dataclass(frozen=True, slots=True)
class Shouted:
    """What was said, loudly.

    Args:
        message: the text.
    """

    message: str


async def greet(payload: Greeting | Shouted | SystemError, metadata: HandlerMetadata) -> HandlerResponse:
    """Take a greeting, the shouter's answer, or word from the system that a message went nowhere."""
    match payload:
        case Greeting():
            return HandlerResponse(
                payload=GreetingResponse(message=f"Hello, {payload.name}!"), to=payload.through
            )
        case SystemError():
            # The thread is still alive: try the peer that is known to be there.
            return HandlerResponse(payload=GreetingResponse(message="Hello, whoever you are!"), to="shouter")
        case Shouted():
            return HandlerResponse.respond(payload)


async def shout(payload: GreetingResponse, metadata: HandlerMetadata) -> HandlerResponse:
    """Say it louder."""
    return HandlerResponse.respond(payload=Shouted(message=payload.message.upper()))


async def log(payload: GreetingResponse, metadata: HandlerMetadata) -> None:
    """Take note, and answer nobody."""
