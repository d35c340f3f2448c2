"""A pure tool: it answers its caller and has no state."""

from __future__ import annotations

from dataclasses import dataclass

from agentserver import HandlerMetadata, HandlerResponse, xmlify


@xmlify
@dataclass(frozen=True, slots=True)
class AddPayload:
    """Two numbers to add.

    Args:
        a: the first.
        b: the second.
    """

    a: int
    b: int


@xmlify
@dataclass(frozen=True, slots=True)
class ResultPayload:
    """A number.

    Args:
        value: the number.
    """

    value: int


async def add_handler(payload: AddPayload, metadata: HandlerMetadata) -> HandlerResponse:
    """Add the numbers. Naming the caller in ``to`` is the same as ``HandlerResponse.respond``."""
    result = payload.a + payload.b
    return HandlerResponse(payload=ResultPayload(value=result), to=metadata.from_id)
