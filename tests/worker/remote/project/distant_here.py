"""A handler in the server."""

from __future__ import annotations

from distant_words import Ask, Done

from agentserver import HandlerResponse


async def reply(payload: Ask, metadata) -> HandlerResponse:
    return HandlerResponse.respond(Done(f"here {payload.act}"))
