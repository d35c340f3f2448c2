"""Budgets: reserved before a call goes out, settled after it, charged when nobody knows; and what the trace tells."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentserver.completion import Backend, Completion, CompletionError, CompletionFault, Price, Usage
from agentserver.core.records.audit import Event
from agentserver.core.records.wording import WORDING
from agentserver.spending import Amount, BudgetExceededError, usd
from tests.llm.agent.conftest import Model, desk, done_call, wish  # noqa: F401 - desk is a fixture
from tests.llm.conftest import models, request

pytestmark = pytest.mark.anyio


class Purse:
    """A purse with an amount, and its recorded operations."""

    def __init__(self, tokens):
        self.left, self.booked = tokens, []

    async def reserve(self, most, what):
        if most.tokens > self.left:
            raise BudgetExceededError("no more")
        self.left -= most.tokens
        self.booked.append((most, what))
        return str(len(self.booked) - 1)

    async def settle(self, reservation, cost):
        most, what = self.booked[int(reservation)]
        self.left += most.tokens - cost.tokens
        self.booked[int(reservation)] = (cost, what)


def say_one(*said, **more):
    asked = []

    def script(prompt):
        asked.append(prompt)
        one = said[min(len(asked), len(said)) - 1]
        if isinstance(one, Exception):
            raise one
        return one

    return Backend("b", "scripted", "b", script=script, **more), asked


USED = Completion("x", usage=Usage(100, 20, 1, 0.0))


async def test_a_call_is_charged_its_cost():
    backend, _ = say_one(USED, price=Price(10.0, 100.0))
    purse = Purse(5000)
    async with models(backend) as completer:
        said = await completer.complete("m", request(purse=purse, prompt="ab12"))
    assert said.usage.money == pytest.approx(0.003)
    assert purse.booked == [(Amount(120, usd(0.003)), "m (prompt ab12) at b")]


async def test_the_most_that_it_may_cost_is_reserved():
    backend, _ = say_one(CompletionError(CompletionFault.TIMEOUT, "b"), price=Price(10.0, 100.0))
    purse = Purse(5000)
    async with models(backend, retries=0, max_tokens=1000) as completer:
        with pytest.raises(CompletionError):
            await completer.complete("m", request(purse=purse))
    ((most, _),) = purse.booked
    assert most.tokens >= 1000
    assert most.money >= usd(0.1)


@pytest.mark.parametrize("fault", list(CompletionFault))
async def test_an_attempt_that_surely_cost_nothing_is_not_charged(fault):
    backend, _ = say_one(CompletionError(fault, "b"))
    purse = Purse(50_000)
    async with models(backend, retries=0) as completer:
        with pytest.raises(CompletionError):
            await completer.complete("m", request(purse=purse))
    unknown = {
        CompletionFault.TIMEOUT,
        CompletionFault.CONNECTION,
        CompletionFault.SERVER,
        CompletionFault.ANSWER,
        CompletionFault.MALFORMED,
        CompletionFault.LENGTH,
        CompletionFault.FILTER,
        CompletionFault.REFUSAL,
        CompletionFault.CUT,
    }
    assert (purse.left == 50_000) == (fault not in unknown)


async def test_a_backend_that_cannot_be_reached_costs_nothing(remote):
    gone = replace(remote("ok"), base_url="http://127.0.0.1:9")
    purse = Purse(50_000)
    async with models(gone, retries=0) as completer:
        with pytest.raises(CompletionError):
            await completer.complete("m", request(purse=purse))
    assert purse.left == 50_000


async def test_no_call_goes_out_when_it_is_spent():
    backend, asked = say_one(USED)
    purse = Purse(4000)
    async with models(backend) as completer:
        with pytest.raises(CompletionError) as caught:
            await completer.complete("m", request(purse=purse))
    assert caught.value.fault is CompletionFault.BUDGET
    assert asked == []


async def test_repairs_are_charged_too():
    from tests.llm.test_typed import Grade

    backend, _ = say_one(replace(USED, content="prose"), replace(USED, content='{"points": 1}'))
    purse = Purse(50_000)
    async with models(backend) as completer:
        await completer.complete("m", request(purse=purse, output=Grade))
    assert purse.left == 50_000 - 240


async def test_an_agent_spends_its_budget_and_the_trace_tells_of_it(desk):  # noqa: F811 - the fixture
    model = Model(replace(done_call("well"), usage=Usage(3000, 1000, 1, 0.0)))
    async with desk(model, more="  budget: {agents: {agent: {tokens: 8000}}}") as bed:
        assert (await bed.ask(wish(), "agent")).text == "well"
        assert (await bed.ask(wish(), "agent")).code == "budget"
        records = bed.server.trace.list_records(bed.handle.id)
    assert len(model.seen) == 1
    told = [
        WORDING.join_lines(record.detail)
        for record in records
        if record.event in (Event.RESERVED, Event.SETTLED)
    ]
    assert "m (prompt " in told[0]
    assert "4000 tokens" in told[1]


@pytest.mark.parametrize(
    "told",
    [Usage(-1000, 1001, 1, 0.0), Usage(5, -6, 1, 0.0), Usage(10**30, 0, 1, 0.0), Usage(0, 0, 1, -5.0)],
)
async def test_usage_that_cannot_be_is_charged_as_reserved(told):
    backend, _ = say_one(Completion("x", usage=told), price=Price(10.0, 100.0))
    purse = Purse(5000)
    async with models(backend) as completer:
        said = await completer.complete("m", request(purse=purse))
    assert said.content == "x"
    ((charged, _),) = purse.booked
    assert charged.tokens > 20
    assert charged.money > 0


async def test_a_reservation_names_the_backend_and_the_failure_before():
    from tests.llm.conftest import scripted

    purse = Purse(50_000)
    async with models(scripted("down", {"fault": "server"}), scripted("spare", {"text": "x"})) as completer:
        await completer.complete("m", request(purse=purse))
    assert [what for _, what in purse.booked] == ["m at down", "m at spare after down (server)"]


@pytest.mark.parametrize("money", [None, float("nan"), float("inf"), -1.0])
async def test_a_price_that_nobody_knows_is_charged_as_reserved(money):
    backend, _ = say_one(Completion("x", usage=Usage(100, 20, 1, money)), ceiling=Price(10.0, 100.0))
    purse = Purse(5000)
    async with models(backend) as completer:
        await completer.complete("m", request(purse=purse))
    ((charged, _),) = purse.booked
    assert charged.tokens == 120
    assert charged.money > 0
