"""Multiples of a step, which XSD 1.0 states by the form of a numeral alone."""

from __future__ import annotations

from decimal import Decimal
from itertools import product
from typing import TYPE_CHECKING, Any

from agentserver.payload.fields.lexical import ScalarKind

if TYPE_CHECKING:
    from collections.abc import Iterator

STEPS = 3
"""An integer step divides 10 to this power, so that the last digits decide; XSD 1.0 has no other way."""
_POWERS = 100


def step_of(kind: ScalarKind, raw: Any) -> Decimal:
    """Return the step of a number. Raises ValueError when XSD cannot state it."""
    if type(raw) not in {int, Decimal}:
        raise ValueError(
            "has a MultipleOf that is neither int nor Decimal: XSD can state it of int and Decimal"
        )
    step = Decimal(raw)
    power = _power_of_ten(step)
    if kind is ScalarKind.INT and not (
        step >= 1 and step == int(step) and (power or not 10**STEPS % int(step))
    ):
        raise ValueError(
            f"has a MultipleOf that XSD cannot state; use a power of ten or a divisor of {10**STEPS}"
        )
    if not power:
        if kind is ScalarKind.DECIMAL:
            raise ValueError(
                "has a MultipleOf that XSD cannot state; use a power of ten such as Decimal('0.01')"
            )
    elif abs(step.adjusted()) > _POWERS:
        raise ValueError(f"has a MultipleOf beyond 10 to the power of {_POWERS}")
    return step


def _power_of_ten(step: Decimal) -> bool:
    return step > 0 and step.normalize().as_tuple().digits == (1,)


def multiples(kind: ScalarKind, step: Decimal) -> str:
    """Return the last digits of every multiple, as a pattern. Shorter numerals are multiples by their own value."""
    power = step.adjusted()
    if _power_of_ten(step):
        whole = rf"([0-9]*0{{{power}}}|0*)" if power else "[0-9]*"
        return rf"[+\-]?{whole}" + (r"(\.0*)?" if kind is ScalarKind.DECIMAL else "")
    every = int(step)
    digits = next(count for count in range(1, STEPS + 1) if not 10**count % every)
    ends = [f"[0-9]*({'|'.join(_numerals(digits, every))})"]
    ends += ["|".join(_numerals(count, every)) for count in range(1, digits)]
    return rf"[+\-]?({'|'.join(ends)})"


def _numerals(count: int, every: int) -> Iterator[str]:
    for digits in product("0123456789", repeat=count):
        numeral = "".join(digits)
        if int(numeral) % every == 0:
            yield numeral
