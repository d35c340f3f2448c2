"""The total of a list or sentence, and amounts that make none."""

from __future__ import annotations

import pytest

from agentserver.provenance.evidence.totals import find_total, list_amounts


def total(text: str) -> str:
    amounts = list_amounts(text)
    found = find_total(text, amounts, money=any(each.money for each in amounts))
    return "" if found is None else next(iter(found[0]))


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("Net 2,914.50 EUR\nTax 19 % 553.76 EUR\nTotal 3,468.26 EUR", "3468.26"),
        ("30 % of EUR 182,000.00 = EUR 54,600.00", "54600"),
        ("6 episodes at EUR 140, total EUR 840", "840"),
        ("6 episodes at 140, total 840", "840"),
        ("Discs 2 x 1,480.00\nDelivery 120.00\nTotal 3,080.00", "3080"),
        ("Beans 100.00\nRice 200.00\nSum 300.00\nTax 57.00\nTotal 357.00", "357"),
        ("Total 357.00, net 300.00, tax 57.00", "357"),
        ("3 × 40, 2 × 50, 220", "220"),
    ],
)
def test_sums_and_products_make_one_amount(text: str, amount: str) -> None:
    assert total(text) == f"amount {amount}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Total 357.00",
        "2 x 1,480.00",
        "Offer 300, then 357",
        "25, 1, 25",
        "Net 300.00, tax 57.00, total 358.00",
        "Pay EUR 120. Or EUR 120 x 2 = EUR 240",
        " ".join(["1.50"] * 40),
    ],
    ids=["empty", "alone", "not said", "two", "times one", "wrong", "another sentence", "many"],
)
def test_other_amounts_make_none(text: str) -> None:
    assert not total(text)
