"""An agent that forwards to a peer and returns the peer's answer to its own caller."""

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
    """Person to greet.

    Args:
        name: of the person.
        through: the listener that delivers the greeting.
    """

    name: str
    through: str = "shouter"


@xmlify
@dataclass(frozen=True, slots=True)
class GreetingResponse:
    """Greeting to deliver.

    Args:
        message: the text.
    """

    message: str


@xmlify
@dataclass(frozen=True, slots=True)
class LoudGreeting:
    """Greeting in capitals.

    Args:
        message: the text.
    """

    message: str


async def greet(payload: Greeting | LoudGreeting | SystemError, metadata: HandlerMetadata) -> HandlerResponse:
    """Handle a greeting, the shouter's answer, or an error for a message that could not be delivered."""
    match payload:
        case Greeting():
            return HandlerResponse(
                payload=GreetingResponse(message=f"Hello, {payload.name}!"), to=payload.through
            )
        case SystemError():
            # The thread is still alive: fall back to a peer that exists.
            return HandlerResponse(payload=GreetingResponse(message="Hello, whoever you are!"), to="shouter")
        case LoudGreeting():
            return HandlerResponse.respond(payload)


async def shout(payload: GreetingResponse, metadata: HandlerMetadata) -> HandlerResponse:
    """Return the greeting in capitals."""
    return HandlerResponse.respond(payload=LoudGreeting(message=payload.message.upper()))


async def log(payload: GreetingResponse, metadata: HandlerMetadata) -> None:
    """Log the greeting, without an answer."""
