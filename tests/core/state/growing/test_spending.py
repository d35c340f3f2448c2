"""Charges are the sum of settled amounts and of reservations that were never settled."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.core.encoding import parts
from agentserver.core.state.spending import NO_SPENDING, Reservation
from agentserver.spending import Amount, Budget, Budgets, usd

AMOUNTS = st.builds(Amount, st.integers(0, 9), st.integers(0, 9))
CHARGES = st.lists(
    st.tuples(st.sampled_from("rs"), st.sampled_from("ab"), AMOUNTS, st.none() | AMOUNTS), max_size=20
)


def total(amounts):
    return sum(amounts, start=Amount())


@given(CHARGES)
def test_every_account_is_the_sum_of_settlements_and_unsettled_reservations(charges):
    spending = NO_SPENDING
    reserved = [
        Reservation(str(n), "t", "d", request, agent, most)
        for n, (request, agent, most, _) in enumerate(charges)
    ]
    for one in reserved:
        spending = spending.reserve(one)
    for one, (_, _, _, cost) in zip(reserved, charges, strict=True):
        spending = spending if cost is None else spending.settle(one, cost)
    counted = [(request, agent, most if cost is None else cost) for request, agent, most, cost in charges]
    assert spending.total == total(amount for _, _, amount in counted)
    assert dict(spending.requests) == {
        key: total(amount for request, _, amount in counted if request == key) for key, _, _, _ in charges
    }
    assert dict(spending.agents) == {
        key: total(amount for _, agent, amount in counted if agent == key) for _, key, _, _ in charges
    }
    assert [*spending.open] == [str(n) for n, (_, _, _, cost) in enumerate(charges) if cost is None]
    values = parts.encode_spending(spending)
    assert parts.decode_spending(values) == spending
    assert parts.decode_spending(dict(sorted(values.items(), reverse=True))) == spending


@pytest.mark.parametrize(
    ("budgets", "over"),
    [
        (Budgets(), ""),
        (Budgets(Budget(tokens=19)), "request"),
        (Budgets(Budget(tokens=20, money=20)), ""),
        (Budgets(Budget(tokens=30, money=19)), "request"),
        (Budgets(conversation=Budget(money=29)), "conversation"),
        (Budgets(agents={"a": Budget(tokens=9), "b": Budget(tokens=19)}), "agent"),
        (Budgets(agents={"a": Budget(tokens=9)}), ""),
    ],
)
def test_each_budget_is_held_against_its_own_account(budgets, over):
    spending = NO_SPENDING.reserve(Reservation("1", "t", "d", "r", "a", Amount(10, 10)))
    spending = spending.reserve(Reservation("2", "t", "e", "s", "b", Amount(10, 10)))
    assert spending.find_exceeded(budgets, "r", "b", Amount(10, 10)) == over


def test_ended_reservations_are_forgotten_and_stay_charged():
    one, two = (Reservation(key, "t", key, f"r{key}", "a", Amount(1)) for key in "12")
    spending = (
        NO_SPENDING.reserve(one)
        .reserve(two)
        .drop_finished(lambda key: key == "r1", lambda one: one.id == "1")
    )
    assert (spending.total, [*spending.requests], [*spending.open]) == (Amount(2), ["r2"], ["2"])
    assert spending.settle(one, Amount(5)).requests == {"r2": Amount(1)}


def test_money_is_counted_in_millionths_rounded_up():
    assert [usd(dollars) for dollars in (0, 1e-7, 1e-6, 0.1 + 0.2, 1.0000001)] == [
        0,
        1,
        1,
        300_000,
        1_000_001,
    ]
    assert (str(Amount(7)), str(Amount(7, 1500))) == ("7 tokens", "7 tokens, $0.001500")
    with pytest.raises(ValueError, match="less than nothing"):
        Amount(-1)
