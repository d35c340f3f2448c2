"""A handler as it was written before ``HandlerResponse``: deprecated, and still loaded.

What it returns is payload text, never an envelope: checked against its schema and routed by its root element.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentserver import xmlify


@xmlify
@dataclass(frozen=True, slots=True)
class Ping:
    """Asks whether anybody is there."""


@xmlify
@dataclass(frozen=True, slots=True)
class Pong:
    """Somebody is there.

    Args:
        text: what they say.
    """

    text: str


async def old_handler(payload, metadata) -> bytes:  # type: ignore[no-untyped-def] # noqa: ANN001 - the old form
    """Answer with text."""
    return b"<Pong xmlns='urn:agentserver:payload:Pong:v1'><text>still here</text></Pong>"
