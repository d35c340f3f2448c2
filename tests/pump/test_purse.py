"""Work is charged before it is done, and stays charged whatever becomes of the handler, the process or the work."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from agentserver import HandlerResponse, SystemError, invocation
from agentserver.contract import Code
from agentserver.core.blueprint import Blueprint
from agentserver.core.decide import charges
from agentserver.core.records.audit import Event
from agentserver.core.records.wording import WORDING
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions
from agentserver.history.replay import replay
from agentserver.spending import Amount, Budget, BudgetExceededError, Budgets
from tests.core.paper import Answer, Ask, listener
from tests.pump import desk as pump_desk
from tests.pump.desk import FullEngine, desk, wait_until

pytestmark = pytest.mark.anyio
respond = HandlerResponse.respond


@pytest.fixture
def budgets(monkeypatch):
    """Sets the budgets of the organisms of this test."""

    def give(**named):
        def rules(*listeners, **settings):
            made = whole(*listeners, **settings)
            object.__setattr__(made.blueprint, "budgets", Budgets(**named))
            return made

        whole = pump_desk.rules
        monkeypatch.setattr(pump_desk, "rules", rules)

    assert "budgets" in Blueprint.__dataclass_fields__
    return give


async def work_with_purse(payload, metadata):
    """Reserve 100 tokens, use 30; ``crash`` or wait in between."""
    purse = invocation().purse
    reserved = await purse.reserve(Amount(100, 1000), "small")
    if payload.text == "crash":
        raise ValueError("no")
    if payload.text == "wait":
        await anyio.sleep_forever()
    await purse.settle(reserved, Amount(30, 200))
    return respond(Answer("done"))


def spent_budget(d, handle):
    return d.pump.conversation(handle.id).spending


async def test_a_reservation_is_settled_and_recorded():
    async with desk((listener("a"), work_with_purse)) as d:
        handle = await d.open()
        assert await d.ask(Ask("x"), handle=handle) == Answer("done")
        assert spent_budget(d, handle).total == Amount(30, 200)
        assert spent_budget(d, handle).agents == {"a": Amount(30, 200)}
        assert not spent_budget(d, handle).open
        told = [
            (r.event, r.to, WORDING.first(r.detail)) for r in d.records if r.event in {"reserved", "settled"}
        ]
        assert told == [
            (Event.RESERVED, "a", "small: 100 tokens, $0.001000"),
            (Event.SETTLED, "a", "30 tokens, $0.000200"),
        ]


async def test_a_crash_between_charges_in_full():
    async with desk((listener("a", retries=1), work_with_purse)) as d:
        handle = await d.open()
        assert (await d.ask(Ask("crash"), handle=handle)).code is Code.INTERNAL
        assert spent_budget(d, handle).total == Amount(200, 2000)
        assert await d.ask(Ask("x"), handle=handle) == Answer("done")
        assert spent_budget(d, handle).total == Amount(230, 2200)
        assert not spent_budget(d, handle).open


async def test_a_missed_deadline_charges_in_full():
    async with desk((listener("a", deadline=0.05), work_with_purse)) as d:
        handle = await d.open()
        assert (await d.ask(Ask("wait"), handle=handle)).code is Code.TIMEOUT
        assert spent_budget(d, handle).total == Amount(100, 1000)


@pytest.mark.parametrize(
    ("named", "over"),
    [
        ({"request": Budget(tokens=99)}, "request"),
        ({"conversation": Budget(money=999)}, "conversation"),
        ({"agents": {"a": Budget(tokens=1)}}, "agent"),
    ],
)
async def test_work_beyond_the_remaining_budget_is_not_done_and_the_caller_gets_a_budget_error(
    budgets, named, over
):
    budgets(**named)
    async with desk((listener("a", retries=3), work_with_purse)) as d:
        handle = await d.open()
        reply = await d.ask(Ask("x"), handle=handle)
        assert isinstance(reply, SystemError)
        assert reply.code is Code.BUDGET
        assert spent_budget(d, handle).total == Amount()
        (failed,) = [r for r in d.records if r.event is Event.FAILED]
        assert f"left of the budget of the {over}" in WORDING.join_lines(failed.detail)
        assert Event.RETRIED not in [r.event for r in d.records]


async def test_each_request_has_its_budget_and_the_conversation_one_for_all(budgets):
    budgets(request=Budget(tokens=150), conversation=Budget(tokens=170))
    async with desk((listener("a"), work_with_purse)) as d:
        handle = await d.open()
        replies = [await d.ask(Ask("x"), handle=handle) for _ in range(4)]
        assert [type(one) for one in replies] == [Answer, Answer, Answer, SystemError], "30, 60, 90, and 190"


async def test_the_cause_of_another_exception_is_reported_as_well(budgets):
    budgets(request=Budget(tokens=99))

    async def wrap_error(payload, metadata):
        try:
            await invocation().purse.reserve(Amount(100), "small")
        except BudgetExceededError as error:
            raise LookupError("no model") from error

    async with desk((listener("a"), wrap_error)) as d:
        assert (await d.ask(Ask("x"))).code is Code.BUDGET


async def test_parallel_work_of_one_invocation_shares_the_remaining_budget(budgets):
    budgets(request=Budget(tokens=250))

    async def several(payload, metadata):
        purse = invocation().purse
        found = await asyncio.gather(
            *(purse.reserve(Amount(100), "x") for _ in range(4)), return_exceptions=True
        )
        keys = [one for one in found if isinstance(one, str)]
        assert len(set(keys)) == 2
        for key in keys:
            await purse.settle(key, Amount(1))
            await purse.settle(key, Amount(50))  # settled already
        return respond(Answer("done"))

    async with desk((listener("a"), several)) as d:
        handle = await d.open()
        assert await d.ask(Ask("x"), handle=handle) == Answer("done")
        assert spent_budget(d, handle).total == Amount(2)


async def test_nothing_is_charged_to_a_finished_invocation():
    left = []

    async def leave_open(payload, metadata):
        purse = invocation().purse
        left.append((purse, await purse.reserve(Amount(10), "x")))
        return respond(Answer("done"))

    async with desk((listener("a"), leave_open)) as d:
        handle = await d.open()
        assert await d.ask(Ask("x"), handle=handle) == Answer("done")
        ((purse, key),) = left
        with pytest.raises(BudgetExceededError, match="has ended"):
            await purse.reserve(Amount(1), "x")
        await purse.settle(key, Amount(1))
        assert spent_budget(d, handle).total == Amount(10)


async def test_a_kill_between_is_charged_in_full_after_the_restart(tmp_path):
    place = JournalOptions(tmp_path / "j")
    async with (
        SqliteEngine(place) as engine,
        desk((listener("a"), work_with_purse), engine=engine, drain=0.0) as d,
    ):
        handle = await d.open()
        await handle.send(d.markup(Ask("wait")), "a")
        await wait_until(lambda: spent_budget(d, handle).open)
    async with (
        SqliteEngine(place) as engine,
        desk((listener("a"), work_with_purse), engine=engine, drain=0.0) as d,
    ):
        await wait_until(lambda: len(spent_budget(d, handle).open) == 2)
        assert spent_budget(d, handle).total == Amount(200, 2000)
        (summary,) = await engine.read(lambda reader: list(reader.conversations()))
        assert (summary.tokens, summary.money) == (200, 2000)
        story = await engine.read(lambda reader: reader.recorded_conversation(handle.id))
        assert replay(story, d.rules) is None
        again = await d.pump.resume("console", handle.id)
        await again.close()
        (summary,) = await engine.read(lambda reader: list(reader.conversations()))
        assert (summary.tokens, summary.money) == (200, 2000), "of one that is finished as well"


async def test_open_reservations_of_crashed_handlers_do_not_bind_others(monkeypatch):
    monkeypatch.setattr(charges, "OPEN", 2)

    async def greedy(payload, metadata):
        purse = invocation().purse
        for _ in range(int(payload.text)):
            await purse.reserve(Amount(1), "x")
        raise ValueError("no")

    async with desk((listener("a"), greedy)) as d:
        handle = await d.open()
        for _ in range(4):
            assert (await d.ask(Ask("2"), handle=handle)).code is Code.INTERNAL
        assert spent_budget(d, handle).total == Amount(8)
        assert (await d.ask(Ask("3"), handle=handle)).code is Code.BUDGET
        assert len(spent_budget(d, handle).open) == 2
        assert spent_budget(d, handle).total == Amount(10)


async def test_unstorable_work_is_not_done():
    engine, told = FullEngine(), []

    async def try_reserve(payload, metadata):
        purse = invocation().purse
        reserved = await purse.reserve(Amount(10), "x")
        engine.full = True
        try:
            await purse.reserve(Amount(1), "x")
        except RuntimeError as error:
            told.append(str(error))
        await purse.settle(reserved, Amount(1))
        engine.full = False
        return respond(Answer("done"))

    async with desk((listener("a"), try_reserve), engine=engine) as d:
        handle = await d.open()
        assert await d.ask(Ask("x"), handle=handle) == Answer("done")
        assert told == ["the server cannot keep a charge at present"]
        assert spent_budget(d, handle).total == Amount(10)
