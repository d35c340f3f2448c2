"""A handler in the form that preceded ``HandlerResponse``: deprecated, but still loaded.

It returns the text of a payload, never an envelope; the server validates it and routes it by its root element.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentserver import xmlify


@xmlify
@dataclass(frozen=True, slots=True)
class Ping:
    """Liveness check."""


@xmlify
@dataclass(frozen=True, slots=True)
class Pong:
    """Answer to a liveness check.

    Args:
        text: any text.
    """

    text: str


async def old_handler(payload, metadata) -> bytes:  # type: ignore[no-untyped-def] # noqa: ANN001 - the old form
    """Answer with text."""
    return b"<Pong xmlns='urn:agentserver:payload:Pong:v1'><text>still here</text></Pong>"
