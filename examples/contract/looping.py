"""An agent that works in a loop by sending messages to itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

from agentserver import HandlerMetadata, HandlerResponse, xmlify


@xmlify
@dataclass(frozen=True, slots=True)
class Countdown:
    """Countdown in progress.

    Args:
        left: number of remaining steps.
    """

    left: Annotated[int, Ge(0), Le(1000)]


@xmlify
@dataclass(frozen=True, slots=True)
class CountdownResult:
    """Result of a finished countdown.

    Args:
        steps: messages that the agent sent to itself.
        alone: whether the agent itself requested the last step.
    """

    steps: int
    alone: bool


async def count_down(payload: Countdown | CountdownResult, metadata: HandlerMetadata) -> HandlerResponse:
    """Send the next step to itself. Each step answers the previous one; the first answers the caller."""
    match payload:
        case Countdown(left=0):
            return HandlerResponse.respond(CountdownResult(0, metadata.is_self_call))
        case Countdown():
            return HandlerResponse(Countdown(payload.left - 1), to=str(metadata.own_name))
        case CountdownResult():
            return HandlerResponse.respond(CountdownResult(payload.steps + 1, payload.alone))
