"""Conditions under ``deny:`` of a listener deny messages without asking a person."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from decimal import Decimal

import pytest

from agentserver import SystemError
from agentserver.assembly import build
from agentserver.config.keys.approval import read_denials
from agentserver.contract import Code
from agentserver.guards.builtin import DenialGuard
from agentserver.payload.functions import payload_of
from agentserver.testing import listener, organism, organism_of

pytestmark = pytest.mark.anyio

CAP = {"amount": {"over": 1000, "unit": {"currency": "EUR"}}}
PAID = []


async def pay(amount: Decimal, currency: str = "EUR") -> str:
    PAID.append(amount)
    return "paid"


@pytest.mark.parametrize(
    ("amount", "currency", "denied"), [(1000, "EUR", False), (1001, "EUR", True), (1, "USD", True)]
)
async def test_a_message_over_a_limit_is_denied_even_if_an_approval_would_do(amount, currency, denied):
    PAID.clear()
    made = await asyncio.to_thread(
        lambda: organism_of(listener("till", pay, deny=CAP, approval={"when": {"amount": {"over": 5000}}}))
    )
    async with organism(made) as o:
        answer = await o.ask(payload_of(pay)(Decimal(amount), currency), "till")
    assert ([] if denied else [amount]) == PAID
    if denied:
        assert isinstance(answer, SystemError)
        assert answer.code is Code.DENIED


async def test_an_organism_without_denials_has_no_guard_for_them():
    plain = await asyncio.to_thread(lambda: organism_of(listener("till", pay)))
    till = plain.listeners[0]
    capped = replace(
        plain, listeners=[replace(till, listener=replace(till.listener, deny=read_denials(CAP)))]
    )
    for made, expected in ((plain, 0), (capped, 1)):
        guards = (await asyncio.to_thread(build, made)).rules.guards
        assert sum(isinstance(each, DenialGuard) for each in guards) == expected
