"""An agent that works in a loop by sending messages to itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

from agentserver import HandlerMetadata, HandlerResponse, xmlify


@xmlify
@dataclass(frozen=True, slots=True)
class Countdown:
    """Steps to go.

    Args:
        left: their number.
    """

    left: Annotated[int, Ge(0), Le(1000)]


@xmlify
@dataclass(frozen=True, slots=True)
class Landed:
    """The countdown is over.

    Args:
        steps: messages that the agent sent to itself.
        alone: whether the last step was taken at the agent's own call.
    """

    steps: int
    alone: bool


async def count_down(payload: Countdown | Landed, metadata: HandlerMetadata) -> HandlerResponse:
    """Send one step less to oneself. Each step answers the one before it, the first one the caller."""
    match payload:
        case Countdown(left=0):
            return HandlerResponse.respond(Landed(0, metadata.is_self_call))
        case Countdown():
            return HandlerResponse(Countdown(payload.left - 1), to=str(metadata.own_name))
        case Landed():
            return HandlerResponse.respond(Landed(payload.steps + 1, payload.alone))
