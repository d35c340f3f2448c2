from __future__ import annotations

import sys
from contextlib import suppress
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.tools.calculator import LENGTH, Calculate, Calculated, calculate, evaluate
from tests.core.paper import listener
from tests.pump.desk import desk

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("0.1 + 0.2", "0.3"),
        (" (2 + 3) * 4 / 8 ", "2.5"),
        ("round(1200 * 1.195, 2)", "1434"),
        ("round(2.5)", "2"),
        ("round(2.345, 2)", "2.34"),
        ("-7 // 2", "-3"),
        ("2 ** 10", "1024"),
        ("sqrt(2) ** 2 - 2 < 1", None),
        ("max(1, 2.5, -3) - min(4, 2)", "0.5"),
        ("abs(-1_000)", "1000"),
    ],
)
def test_an_expression_has_its_value(expression, value):
    if value is None:
        with pytest.raises(ValueError, match="not an expression"):
            evaluate(expression)
    else:
        assert evaluate(expression) == Decimal(value)


@pytest.mark.parametrize(
    "expression",
    [
        "", "1 +", "a", "True", "'a'", "1j", "[1]", "lambda: 1", "__import__('os')", "(1).real", "max()", "max(*[1])",
        "sqrt(x=1)", "round(1, 2, 3)", "round(1, 0.5)", "round(1, 999)", "abs", "1 if 1 else 2", "1 and 2", "0x10", "1e400",
        "1 / 0", "0 ** 0", "sqrt(-1)", "9 ** 9 ** 9", "(" * 400 + "1" + ")" * 400, "1" * (LENGTH + 1), "\0", "1;2",
    ],
)  # fmt: skip
def test_an_expression_without_a_value_has_a_reason(expression):
    with pytest.raises(ValueError, match=r"."):
        evaluate(expression)


@pytest.mark.parametrize(
    "expression",
    ["9**" * 300 + "9", "-" * 999 + "1", "sqrt(" * 90 + "2" + ")" * 90, "1+" * 499 + "1", "7**-99.5"],
)
def test_the_work_is_bounded_by_the_length(expression):
    """An operation costs as much as its digits, and these are bounded."""
    calls = []
    sys.setprofile(lambda frame, event, arg: calls.append(event) if event.endswith("call") else None)
    try:
        with suppress(ValueError):
            evaluate(expression)
    finally:
        sys.setprofile(None)
    assert len(calls) < 20 * len(expression) + 100


@given(st.text(max_size=50))
def test_any_text_has_a_value_or_a_reason(text):
    with suppress(ValueError):
        assert isinstance(evaluate(text), Decimal)


def test_a_name_has_a_value_or_a_reason_for_its_absence():
    assert evaluate("ans * 2 + sqrt(ans)", {"ans": Decimal(4)}) == Decimal(10)
    with pytest.raises(ValueError, match="nothing yet"):
        evaluate("ans + 1", {"ans": "nothing yet"})
    with pytest.raises(ValueError, match="not an expression"):
        evaluate("and", {"ans": Decimal(4)})


async def test_it_answers():
    async with desk((listener("calculator", payloads=(Calculate,)), calculate), payloads=(Calculated,)) as d:
        found = await d.ask(Calculate("10 ** 20 * 3"), "calculator")
        assert found == Calculated("10 ** 20 * 3", Decimal(3 * 10**20))
        assert (await d.ask(Calculate("1 / 0"), "calculator")).problem == "division by zero"
