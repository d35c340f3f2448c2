"""Handlers of the office: a clerk, and the post that sends its letters."""

from __future__ import annotations

from dataclasses import dataclass

from agentserver import HandlerMetadata, HandlerResponse, SystemError, xmlify


@xmlify
@dataclass(frozen=True)
class Letter:
    """Letter to send."""

    text: str


@xmlify
@dataclass(frozen=True)
class Sent:
    """Outcome of a letter."""

    done: bool


async def clerk(payload: Letter | Sent | SystemError, metadata: HandlerMetadata) -> HandlerResponse:
    """Pass a letter to the post, and report whether it was sent."""
    if isinstance(payload, Letter):
        return HandlerResponse(payload, "post")
    return HandlerResponse.respond(Sent(isinstance(payload, Sent) and payload.done))


async def post(payload: Letter, metadata: HandlerMetadata) -> HandlerResponse:
    """Send a letter."""
    return HandlerResponse.respond(Sent(done=True))
