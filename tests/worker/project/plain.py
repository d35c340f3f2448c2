"""A handler in the server."""

from __future__ import annotations

from words import Got, Try

from agentserver import HandlerResponse


async def reply(payload: Try, metadata) -> HandlerResponse:
    return HandlerResponse.respond(Got(f"here {payload.about}"))
