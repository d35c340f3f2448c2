"""The tool that evaluates arithmetic.

An expression has decimal numbers, ``+ - * / // % **``, brackets, and the functions ``abs``, ``max``, ``min``,
``round`` and ``sqrt``. Its syntax tree is evaluated here, in decimals of bounded precision and size, so the work is
bounded by the length of the text. Libraries that evaluate Python (simpleeval, asteval) use binary floats, where 0.1 +
0.2 is not 0.3, and have to guard a much larger language.

Declare it as ``trust: inert``: it has no effects, and its output derives from its input alone.
"""

from __future__ import annotations

import ast
import decimal
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Final

from annotated_types import MaxLen, MinLen

from agentserver.contract import HandlerMetadata, HandlerResponse
from agentserver.payload.xmlify import xmlify

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Calculate", "Calculated", "calculate", "evaluate"]

DIGITS: Final = 28
"""Significant digits of a result."""

LARGEST: Final = 99
"""Largest exponent; larger results are an error."""

LENGTH: Final = 1000
"""Characters of an expression."""

_OPERATORS: Final[Mapping[type[ast.operator | ast.unaryop], Callable[..., Decimal]]] = MappingProxyType(
    {
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
)


def _round_value(value: Decimal, places: Decimal = Decimal(0)) -> Decimal:
    if places != places.to_integral_value() or abs(places) > DIGITS:
        raise ValueError(f"round takes whole places up to {DIGITS}")
    return round(value, int(places)) if places else value.to_integral_value(decimal.ROUND_HALF_EVEN)


_FUNCTIONS: Final[Mapping[str, Callable[..., Decimal]]] = MappingProxyType(
    {"abs": abs, "max": max, "min": min, "round": _round_value, "sqrt": Decimal.sqrt}
)

_NAMES: Final[Mapping[str, Decimal | str]] = MappingProxyType({})


@xmlify(namespace="urn:agentserver-tools:calculator")
@dataclass(frozen=True, slots=True)
class Calculate:
    """An expression that is to be calculated.

    Args:
        expression: such as ``(2 + 3) * 4 / 7``, ``round(1200 * 1.19, 2)`` or ``sqrt(2)``.
    """

    expression: Annotated[str, MinLen(1), MaxLen(LENGTH)]


@xmlify(namespace="urn:agentserver-tools:calculator")
@dataclass(frozen=True, slots=True)
class Calculated:
    """The value of an expression, or the reason for not having one."""

    expression: str
    value: Decimal | None = None
    problem: str = ""


async def calculate(payload: Calculate, metadata: HandlerMetadata) -> HandlerResponse:  # noqa: ARG001 - a handler's signature
    """Answer with the value, or with the reason for not having one."""
    try:
        found = Calculated(payload.expression, evaluate(payload.expression))
    except ValueError as error:
        found = Calculated(payload.expression, problem=str(error))
    return HandlerResponse.respond(found)


def evaluate(expression: str, names: Mapping[str, Decimal | str] = _NAMES) -> Decimal:
    """Evaluate an expression. Raises ValueError with a reason for people.

    Args:
        expression: at most LENGTH characters.
        names: the value of each name, or the reason that it has none.
    """
    source = expression.strip()
    if len(source) > LENGTH:
        raise ValueError(f"an expression has at most {LENGTH} characters")
    with decimal.localcontext(prec=DIGITS, Emax=LARGEST, Emin=-LARGEST):
        try:
            line = " ".join(source.split())  # one line, so that a number is a slice of it
            return _make_value(ast.parse(line, mode="eval").body, line.encode(), names).normalize()
        except ZeroDivisionError:
            raise ValueError("division by zero") from None
        except decimal.DecimalException as error:
            raise ValueError(f"not a number to work with: {type(error).__name__}") from None
        except (SyntaxError, RecursionError, MemoryError, TypeError):
            raise ValueError("not an expression") from None


def _make_value(node: ast.expr, source: bytes, names: Mapping[str, Decimal | str]) -> Decimal:
    match node:
        case ast.Constant():
            # From the text and not the constant, because a float would already have lost digits.
            return +Decimal(source[node.col_offset : node.end_col_offset].decode())
        case ast.Name(id=name) if name in names:
            if isinstance(known := names[name], Decimal):
                return +known
            raise ValueError(known)
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_make_value(operand, source, names))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_make_value(left, source, names), _make_value(right, source, names))
        case ast.Call(func=ast.Name(id=name), args=[_, *_] as given, keywords=[]) if name in _FUNCTIONS:
            return +_FUNCTIONS[name](*[_make_value(one, source, names) for one in given])
        case _:
            raise ValueError("not an expression")
