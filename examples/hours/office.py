"""The handlers of the office: a clerk who has letters sent, and the post."""

from __future__ import annotations

from dataclasses import dataclass

from agentserver import HandlerMetadata, HandlerResponse, SystemError, xmlify


@xmlify
@dataclass(frozen=True)
class Letter:
    """A letter to be sent."""

    text: str


@xmlify
@dataclass(frozen=True)
class Sent:
    """What became of a letter."""

    done: bool


async def clerk(payload: Letter | Sent | SystemError, metadata: HandlerMetadata) -> HandlerResponse:
    """Have a letter sent, and say whether it was."""
    if isinstance(payload, Letter):
        return HandlerResponse(payload, "post")
    return HandlerResponse.respond(Sent(isinstance(payload, Sent) and payload.done))


async def post(payload: Letter, metadata: HandlerMetadata) -> HandlerResponse:
    """Send a letter."""
    return HandlerResponse.respond(Sent(done=True))
