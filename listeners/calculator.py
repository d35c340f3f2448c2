"""The calculator: decimal arithmetic, with the last result remembered for as long as the thread lives."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from agentserver import HandlerMetadata, HandlerResponse, invocation, xmlify
from agentserver.tools import calculator
from listeners.payloads import Calculate, Result


@xmlify
@dataclass(frozen=True, slots=True)
class Memory:
    """State of the calculator for one thread.

    Args:
        ans: the last result.
    """

    ans: Decimal


async def calculate(payload: Calculate, metadata: HandlerMetadata) -> HandlerResponse:
    """Answer with the value and store it; the next expression of the same thread may use it as ``ans``."""
    storage = invocation().storage
    memory = storage.get(Memory)
    try:
        value = evaluate(payload.expression, memory.ans if memory else None)
    except ValueError as error:
        return HandlerResponse.respond(Result(payload.expression, problem=str(error)))
    storage.set(Memory(value))
    return HandlerResponse.respond(Result(payload.expression, value))


def evaluate(expression: str, ans: Decimal | None = None) -> Decimal:
    """Evaluate an expression. Raises ValueError with a message for people if it has no value."""
    return calculator.evaluate(expression, {"ans": "there is no earlier result" if ans is None else ans})
