"""Counts from ten on, which decide as an amount does, and single digits, which are in every text."""

from __future__ import annotations

import pytest

from agentserver.provenance.evidence.labels import Role
from agentserver.provenance.evidence.readings import read_keys
from agentserver.provenance.judging.case import READ
from agentserver.provenance.policy.declarations import Rule, SinkRule
from tests.provenance.scenes import Scenario, desk, sink

PLAIN = desk(sinks=(SinkRule("refund"), SinkRule("book"), SinkRule("scale")))
REFUND = "Refund the socks of O-54101, the order has the price"


def refunds(text: str, amount: float, ask: str = REFUND) -> set[Rule]:
    told = Scenario(PLAIN, ask).read("fetch_page", {"text": text})
    return told.rules("refund", order="O-54101", amount=amount)


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("The socks were 42.00 in total.", 42),
        ("They were 42, ask anybody", 42.0),
        ("Our minimum stay is twelve nights", 12),
        ("Take 42. " + "x " * READ, 42),
        ("Call it on 12 May, and take 12 of them", 12),
    ],
    ids=["decimals", "a whole number", "words", "a long text", "a day as well"],
)
def test_a_count_that_a_text_says_is_no_author_s(text: str, amount: float) -> None:
    assert refunds(text, amount) == {Rule.SELECTOR}


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("The socks were 4 in total.", 4),
        ("Open until 14 July 2026, at 14:30", 14),
        ("See invoice RE-14 and v2.14.0", 14),
        ("The socks were 42.00 in total.", 24),
    ],
    ids=["a digit", "a day and a time", "codes", "another"],
)
def test_a_count_that_no_text_says_by_itself_may_be_computed(text: str, amount: float) -> None:
    assert not refunds(text, amount)


def test_the_request_gives_a_count_in_any_spelling() -> None:
    text = "The socks were 42.00 in total."
    assert not refunds(text, 42, f"{REFUND}, which is forty-two")
    assert not refunds(text, 42, f"{REFUND}, 42 EUR")


@pytest.mark.parametrize(
    ("ask", "allowed"),
    [
        ("Scale checkout to the replicas that issue 8813 asks for", True),
        ("Scale checkout to 40 replicas, as issue 8813 asks for", False),
    ],
)
def test_the_number_of_the_named_document_is_no_amount_of_the_request(ask: str, allowed: bool) -> None:
    told = Scenario(PLAIN, ask).read("read_issue", {"text": "Checkout needs 12 replicas."}, number=8813)
    assert told.call("scale", service="checkout", replicas=12).allowed is allowed
    two = Scenario(PLAIN, ask).read("read_issue", {"text": "It needs 12, or better 50."}, number=8813)
    assert not two.call("scale", service="checkout", replicas=50).allowed


def test_a_declared_quantity_keeps_its_own_rule() -> None:
    told = Scenario(desk(sinks=(sink("refund", amount=Role.QUANTITY),)), REFUND)
    told.read("fetch_page", {"text": "Open until 14 July"})
    assert told.rules("refund", order="O-54101", amount=14) == {Rule.SELECTOR}


@pytest.mark.parametrize(
    ("word", "count"),
    [("vierzehn", 14), ("neunzehn", 19), ("achttien", 18), ("hundertdreizehn", 113), ("vierhundert", 400)],
)
def test_a_number_in_one_word_that_is_the_sum_of_two_is_read(word: str, count: int) -> None:
    assert f"amount {count}" in set(read_keys(f"bitte {word} nehmen"))
    told = Scenario(PLAIN, REFUND).read("fetch_page", {"text": f"bitte {word} nehmen"})
    assert not told.call("refund", order="O-54101", amount=count).allowed
