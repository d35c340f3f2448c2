"""The bank of examples/bank, whose listeners are functions."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

from agentserver.contract import Code
from tests.examples.conftest import run

pytestmark = pytest.mark.anyio


@pytest.fixture
def bank(loaded):
    return loaded("examples/bank/organism.yaml")


async def test_each_function_answers_with_its_return_value(bank):
    async with run(bank) as o:
        c = await o.open()
        receipt = await c.ask(o.make("Transfer", "DE02 1203", Decimal(12), note="rent"), "transfer")
        assert (receipt.iban, receipt.amount) == ("DE02 1203", Decimal(12))
        assert await c.ask(o.make("Balance", "current"), "balance") == o.make(
            "BalanceResult", Decimal("1250.00")
        )
        booking = await c.ask(o.make("LastBooking", "current"), "booking")
        assert booking == o.make("Booking", date(2026, 11, 2), "Rent", Decimal("-900.00"))
        assert await c.ask(o.make("LastBooking", "savings"), "booking") == o.make("LastBookingResult")
        assert (await c.ask(o.make("CloseYear", 2026), "books")).number == "closing-2026"


async def test_the_facets_of_a_parameter_hold(bank):
    async with run(bank) as o:
        refused = await (await o.open()).ask(
            b'<Transfer xmlns="urn:agentserver:payload:Transfer:v1"><iban>DE</iban><amount>0</amount></Transfer>',
            "transfer",
        )
        assert refused.code is Code.VALIDATION
        assert "amount" in refused.message


def test_the_parameters_have_their_roles_and_descriptions(bank):
    (transfer, *_) = [each for each in bank.listeners if each.listener.name == "transfer"]
    (payload,) = transfer.listener.payloads
    schema = payload.__codec__.xsd(documented=True)
    assert "the account of the payee." in schema
    roles = [(one.name, one.doc) for one in payload.__payload__.record.fields]
    assert roles == [
        ("iban", "the account of the payee."),
        ("amount", "in euros."),
        ("note", "shown to the payee."),
    ]
