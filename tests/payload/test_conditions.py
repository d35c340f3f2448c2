"""Conditions on fields: what meets them, and that what cannot be decided meets them too."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from agentserver import Attribute, xmlify
from agentserver.payload.conditions import Comparison, ConditionError, FieldCondition, fit_condition


@dataclass
class Line:
    amount: Decimal
    note: str | None = None


@xmlify
@dataclass
class Pay:
    amount: Decimal
    currency: Literal["EUR", "USD"] = "EUR"
    iban: str = ""
    public: bool = False
    due: date = date(2026, 1, 1)
    at: datetime = datetime(2026, 1, 1)  # noqa: DTZ001 - without a zone, which is compared with one
    rate: float = 0.0
    limit: Decimal | None = None
    kind: Annotated[str, Attribute()] = "usual"
    lines: list[Line] = field(default_factory=list)


def explain(payload, path, *bounds, **more):
    one = fit_condition(Pay.__payload__, FieldCondition(path, bounds, **more))
    return one.explain(etree.fromstring(Pay.__codec__.encode(payload)))


@given(st.decimals(-(10**6), 10**6, places=2), st.integers(-(10**6), 10**6))
def test_a_number_is_compared_exactly(amount, limit):
    told = {
        Comparison.OVER: amount > limit,
        Comparison.AT_LEAST: amount >= limit,
        Comparison.UNDER: amount < limit,
        Comparison.AT_MOST: amount <= limit,
    }
    for comparison, holds in told.items():
        expected = f"amount is {comparison.replace('_', ' ')} {limit}" if holds else ""
        assert explain(Pay(amount), "amount", (comparison, limit)) == expected


@pytest.mark.parametrize(
    ("payload", "path", "bounds", "told"),
    [
        (Pay(Decimal("500.0000000000000000001")), "amount", [("over", 500)], "amount is over 500"),
        (Pay(Decimal(700)), "amount", [("over", 500), ("under", 600)], ""),
        (Pay(Decimal(0), iban="12.5"), "iban", [("over", 12)], "iban is over 12"),
        (Pay(Decimal(0), iban="a dozen"), "iban", [("over", 12)], "iban cannot be compared"),
        (Pay(Decimal(0), iban="NaN"), "iban", [("over", 12)], "iban cannot be compared"),
        (Pay(Decimal(0), rate=float("inf")), "rate", [("over", 12)], "rate cannot be compared"),
        (Pay(Decimal(0)), "limit", [("over", 12)], "limit is missing"),
        (Pay(Decimal(0)), "lines.amount", [("over", 12)], "lines.amount is missing"),
        (Pay(Decimal(0), lines=[Line(Decimal(1)), Line(Decimal(2))]), "lines.amount", [("over", 1)], "lines.amount is over 1"),
        (Pay(Decimal(0), lines=[Line(Decimal(1))]), "lines.amount", [("over", 1)], ""),
        (Pay(Decimal(0), due=date(2026, 5, 2)), "due", [("over", "2026-05-01")], "due is over 2026-05-01"),
        (Pay(Decimal(0)), "at", [("over", "2026-05-01T10:00:00+00:00")], "at cannot be compared"),
    ],
)  # fmt: skip
def test_an_undecidable_condition_holds(payload, path, bounds, told):
    assert explain(payload, path, *((Comparison(each), value) for each, value in bounds)) == told


@pytest.mark.parametrize(
    ("payload", "path", "lists", "holds"),
    [
        (Pay(Decimal(0), "USD"), "currency", {"among": ("USD",)}, True),
        (Pay(Decimal(0)), "currency", {"among": ("USD",)}, False),
        (Pay(Decimal(0), iban="ｄe1"), "iban", {"among": ("DE1",)}, True),
        (Pay(Decimal(0), iban="de1"), "iban", {"outside": ("DE1",)}, True),
        (Pay(Decimal(0), iban="DE1"), "iban", {"outside": ("DE1",)}, False),
        (Pay(Decimal("5.0")), "amount", {"among": (5,)}, True),
        (Pay(Decimal(0), public=True), "public", {"among": (True,)}, True),
        (Pay(Decimal(0)), "kind", {"outside": ("usual",)}, False),
        (Pay(Decimal(0), lines=[Line(Decimal(1), "x"), Line(Decimal(1))]), "lines.note", {"among": ("y",)}, True),
    ],
)  # fmt: skip
def test_a_list_is_exact_where_that_is_the_safe_side(payload, path, lists, holds):
    assert bool(explain(payload, path, **lists)) is holds


@pytest.mark.parametrize(("currency", "told"), [("EUR", ""), ("USD", "currency is not EUR")])
def test_another_unit_holds(currency, told):
    assert (
        explain(Pay(Decimal(5), currency), "amount", (Comparison.OVER, 9), unit=("currency", "EUR")) == told
    )


@pytest.mark.parametrize(
    ("markup", "path", "more", "expected"),
    [
        ("<amount>5</amount>", "amount", {"unit": ("currency", "EUR")}, ""),
        ("<amount>5</amount>", "amount", {"unit": ("currency", "USD")}, "currency is not USD"),
        ("<amount>5</amount>", "currency", {"among": ("EUR",)}, "currency is one of EUR"),
        ("<amount>5</amount>", "rate", {}, ""),
        ("<amount>5</amount>", "limit", {}, "limit is missing"),
        ("<amount>5</amount>", "lines.amount", {}, "lines.amount is missing"),
        ("<amount>5</amount><lines><amount>4</amount></lines>", "lines.note", {}, "lines.note is missing"),
    ],
)
def test_a_missing_field_has_its_default(markup, path, more, expected):
    bounds = () if "among" in more else ((Comparison.OVER, 9),)
    condition = fit_condition(Pay.__payload__, FieldCondition(path, bounds, **more))
    text = f'<Pay xmlns="{Pay.__payload__.namespace}">{markup}</Pay>'
    assert condition.explain(etree.fromstring(text)) == expected


@pytest.mark.parametrize(
    ("bounds", "refused"),
    [
        ({"over": 5, "at_most": 3}, "nothing is over 5 and at most 3 at once"),
        ({"over": 5, "at_most": 5}, "nothing is over 5 and at most 5 at once"),
        ({"at_least": 5, "at_most": 5}, ""),
        ({"over": 5, "under": 6}, ""),
    ],
)
def test_bounds_that_nothing_meets_are_refused(bounds, refused):
    condition = FieldCondition("amount", tuple((Comparison(name), limit) for name, limit in bounds.items()))
    if not refused:
        fit_condition(Pay.__payload__, condition)
        return
    with pytest.raises(ConditionError, match=refused):
        fit_condition(Pay.__payload__, condition)
