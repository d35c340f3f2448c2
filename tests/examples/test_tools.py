"""The calculator's arithmetic, the summariser's choice, the model's rules."""

from __future__ import annotations

import re
import sys
from decimal import Decimal

import pytest

from agentserver.config import forget, load
from tests.examples.conftest import PROJECT


@pytest.fixture(scope="module")
def tools():
    """The desk's modules, by name."""
    organism = load(PROJECT / "config/organism.yaml", environ={})
    names = ("calculator", "scripted", "summariser")
    yield {name: sys.modules[f"listeners.{name}"] for name in names}
    forget(organism)


@pytest.fixture
def evaluate(tools):
    return tools["calculator"].evaluate


@pytest.fixture
def extract(tools):
    return tools["summariser"].extract


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1240 * 17.5 / 100", "217"),
        ("0.1 + 0.2", "0.3"),
        (" -(2 + 3) * +4 ", "-20"),
        ("7 // 2 + 7 % 2", "4"),
        ("2 ** 10", "1024"),
        ("2 ** 0.5", "1.414213562373095048801688724"),
        ("1e3", "1000"),
        ("0.12345678901234567890123", "0.12345678901234567890123"),
    ],
)
def test_arithmetic_is_decimal(evaluate, expression, value):
    assert evaluate(expression) == Decimal(value)


def test_the_result_before_is_at_hand(evaluate):
    assert evaluate("ans / 2", Decimal(5)) == Decimal("2.5")


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("1 / 0", "division by zero"),
        ("0 / 0", "not a number to work with: InvalidOperation"),
        ("9 ** 9 ** 9", "not a number to work with: Overflow"),
        ("1e100 * 1", "not a number to work with: Overflow"),
        ("'a' * 9", "not a number to work with: InvalidOperation"),
        ("True + 1", "not a number to work with: InvalidOperation"),
        ("1j", "not a number to work with: InvalidOperation"),
        ("0x10", "not a number to work with: InvalidOperation"),
        ("ans", "there is no earlier result"),
        ("x", "not an expression"),
        ("__import__('os')", "not an expression"),
        ("(1).real", "not an expression"),
        ("[1][0]", "not an expression"),
        ("1 if 1 else 2", "not an expression"),
        ("1 < 2", "not an expression"),
        ("~1", "not an expression"),
        ("1 << 99", "not an expression"),
        ("lambda: 1", "not an expression"),
        ("1; 2", "not an expression"),
        ("1 +", "not an expression"),
        ("", "not an expression"),
        ("\0", "not an expression"),
        ("(" * 200, "not an expression"),
    ],
)
def test_invalid_arithmetic_is_refused(evaluate, expression, problem):
    with pytest.raises(ValueError, match=f"^{re.escape(problem)}$"):
        evaluate(expression)


@pytest.mark.parametrize("expression", ["-" * 199 + "1", "(" * 99 + "1" + ")" * 99, "1**" * 60 + "1"])
def test_depth_is_no_trouble(evaluate, expression):
    assert isinstance(evaluate(expression), Decimal)


def test_a_summary_holds_the_best_sentences_in_their_order(extract):
    text = "Otters\nThe weather is fine today. Otters eat fish. Nothing else. An otter swims after fish."
    assert extract(text, "otters") == "Otters eat fish. An otter swims after fish."


def test_a_text_without_sentences_has_no_summary(extract):
    assert extract("Otters", "otters") == ""
    assert extract("", "") == ""


def test_a_summary_is_bounded(extract):
    assert len(extract("otter " * 1000 + ".", "otters")) == 2000


@pytest.mark.parametrize(
    ("question", "sums"),
    [
        ("How much is 17.5 % of 1240?", ["1240 * 17.5 / 100"]),
        ("What is 2 + 2, and half of that?", ["2 + 2", "ans / 2"]),
        ("How much is 10 % 3 and 5% of 20", ["10 % 3", "20 * 5 / 100"]),
        ("What is an otter?", []),
    ],
)
def test_sums_are_found_in_a_question(tools, question, sums):
    assert tools["scripted"]._sums(question) == sums
