"""The calculator: decimal arithmetic, with the last result remembered for as long as the thread lives."""

from __future__ import annotations

import ast
import decimal
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from agentserver import HandlerMetadata, HandlerResponse, invocation, xmlify
from listeners.payloads import Calculate, Result

DIGITS = 28
"""To which a result is exact."""

LARGEST = 99
"""Powers of ten beyond which a calculation is given up; this bounds the work as well as the result."""

_OPERATORS: dict[type[ast.operator | ast.unaryop], Callable[..., Decimal]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.Pow: lambda a, b: a**b,
    ast.UAdd: lambda a: +a,
    ast.USub: lambda a: -a,
}


@xmlify
@dataclass(frozen=True, slots=True)
class Memory:
    """What the calculator remembers.

    Args:
        ans: the last result.
    """

    ans: Decimal


async def calculate(payload: Calculate, metadata: HandlerMetadata) -> HandlerResponse:
    """Answer with the value, and keep it: whoever calls again from the same thread may say ``ans``."""
    storage = invocation().storage
    memory = storage.get(Memory)
    try:
        value = evaluate(payload.expression, memory.ans if memory else None)
    except ValueError as error:
        return HandlerResponse.respond(Result(payload.expression, problem=str(error)))
    storage.set(Memory(value))
    return HandlerResponse.respond(Result(payload.expression, value))


def evaluate(expression: str, ans: Decimal | None = None) -> Decimal:
    """The value of an expression. Raises ValueError, with a reason for people, when there is none."""
    source = expression.strip()
    with decimal.localcontext(prec=DIGITS, Emax=LARGEST, Emin=-LARGEST):
        try:
            return _value(ast.parse(source, mode="eval").body, source, ans).normalize()
        except ZeroDivisionError:
            raise ValueError("division by zero") from None
        except decimal.DecimalException as error:
            raise ValueError(f"not a number to work with: {type(error).__name__}") from None
        except (SyntaxError, RecursionError, MemoryError):
            raise ValueError("not an expression") from None


def _value(node: ast.expr, source: str, ans: Decimal | None) -> Decimal:
    match node:
        case ast.Constant():
            # The text, not the constant: a float would have lost digits already.
            return Decimal(ast.get_source_segment(source, node) or "")
        case ast.Name(id="ans"):
            if ans is None:
                raise ValueError("there is no result before this one")
            return ans
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(operand, source, ans))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left, source, ans), _value(right, source, ans))
        case _:
            raise ValueError("not an expression")
