"""Amounts of a named document within a limit that the request gives, and those beyond it."""

from __future__ import annotations

import pytest

from agentserver.provenance.evidence.labels import Role
from agentserver.provenance.policy.declarations import SinkRule
from tests.provenance.scenes import Scenario, desk, sink

PLAIN = desk(sinks=(SinkRule("accept"), SinkRule("order")))
LINES = desk(sinks=(sink("accept", matter=Role.SELECTOR, amount=Role.QUANTITY),))
OFFER = "Our client offers EUR 43,500 in full settlement, open until Friday."


def accepts(
    ask: str, amount: float = 43500, offer: str = OFFER, policy: object = PLAIN, **more: object
) -> bool:
    told = Scenario(policy, ask).read("read_mail", {"text": offer}, matter="M-052")
    return told.call("accept", matter="M-052", amount=amount, **more).allowed


@pytest.mark.parametrize("policy", [PLAIN, LINES])
@pytest.mark.parametrize(
    "ask",
    [
        "Accept the offer in M-052 if it is 40,000 euros or more.",
        "Accept the offer in M-052, at least 43500 euros.",
        "Accept it in M-052 at no more than 45000 euros.",
        "Nimm das Angebot in M-052 an, aber nicht mehr als 45000 Euro und mindestens 40000 Euro.",
        "Accepte l'offre de M-052 si elle est de 43000 euros ou plus.",
        "Przyjmij ofertę M-052, co najmniej 43000 EUR.",
    ],
)
def test_the_only_amount_within_the_limits(ask: str, policy: object) -> None:
    assert accepts(ask, policy=policy)


@pytest.mark.parametrize(
    ("ask", "amount"),
    [
        ("Accept the offer in M-052 if it is 45,000 euros or more.", 43500),
        ("Accept it in M-052 at no more than 40000 euros.", 43500),
        ("Accept it in M-052, but not more than 40000 euros.", 43500),
        ("Accept it in M-052, at least 5000 EUR and at most 40000.", 43500),
        ("Accept the offer in M-052 if it is 40,000 euros or more.", 44000),
        ("Pay 500 euros for M-052 if their offer is above 40000 euros.", 43500),
        ("Pay 500 for M-052 if their offer is above 40000 euros.", 43500),
        ("Accept M-052 at 1,000 euros.", 43500),
        ("Accept the offer in M-052 if it is 40,000 dollars or more.", 43500),
    ],
    ids=[
        "below",
        "above",
        "negated",
        "two limits",
        "not in it",
        "given",
        "bare",
        "two readings",
        "other currency",
    ],
)
def test_another_amount(ask: str, amount: float) -> None:
    offer = OFFER if amount == 43500 else f"{OFFER} Or EUR 44,000."
    assert not accepts(ask, amount, offer)


def test_two_amounts_within_the_limits_leave_none() -> None:
    ask = "Accept the offer in M-052 if it is 40,000 euros or more."
    assert not accepts(ask, offer=f"{OFFER} Or EUR 41,000.")
    assert accepts(ask, offer=f"{OFFER} Before it was EUR 39,000.")


def test_a_count_of_the_request_is_taken_by_another_argument() -> None:
    ask = "If LMP-204 is under 25 euros now, reorder 60 of them at that price."
    quote = "| article | price EUR | from |\n|---|---|---|\n| LMP-204 | 23.40 | 50 pcs |\n| LMP-310 | 31.50 | 50 pcs |"
    told = Scenario(PLAIN, ask).read("read_quote", {"text": quote}, article="LMP-204")
    assert told.call("order", article="LMP-204", pieces=60, price=23.4).allowed
    assert not told.call("order", article="LMP-204", price=23.4).allowed
    assert not told.call("order", article="LMP-204", pieces=60, price=31.5).allowed
