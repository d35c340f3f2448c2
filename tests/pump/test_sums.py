"""Sums of amounts per principal: over conversations, restarts and servers."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from decimal import Decimal

import anyio
import pytest

from agentserver.assembly import build
from agentserver.config.keys.approval import read_denials
from agentserver.core.records.wording import WORDING
from agentserver.core.state.approvals import Answer, ApprovalAnswer
from agentserver.engines.memory import MemoryEngine
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions
from agentserver.payload.codec import Codecs
from agentserver.payload.functions import payload_of
from agentserver.testing import FakeClock, listener, organism_of
from tests.engines.together.storage import Storage
from tests.machine import HANGS
from tests.pump.desk import wait_until

pytestmark = pytest.mark.anyio

EUROS = {"amount": {"sum": {"over": 500, "within": "24h"}, "unit": {"currency": "EUR"}}}


class Shop:
    """A till with a rule, servers with it, and a person who is shown what waits."""

    def __init__(self, when, deny=None):
        async def pay(amount: Decimal, currency: str = "EUR") -> None:
            self.paid.append(amount)

        self.paid, self.shown, self.clock = [], [], FakeClock()
        self.organism = organism_of(listener("till", pay, approval={"when": when} if when else None))
        if deny:
            (till,) = self.organism.listeners
            till = replace(till, listener=replace(till.listener, deny=read_denials(deny)))
            self.organism = replace(self.organism, listeners=[till])
        self.payload = payload_of(pay)
        self.codec = Codecs([self.payload]).of(self.payload)

    def show(self, approval):
        self.shown.append(approval)

    @asynccontextmanager
    async def server(self, engine):
        with anyio.fail_after(HANGS):
            async with build(self.organism, engine=engine, approver=self, clock=self.clock) as server:
                yield server

    async def order(self, server, amount, currency="EUR", principal="ann"):
        """Order a payment in a conversation of its own, and wait until it is paid or a person is asked."""
        before = len(self.paid) + len(self.shown)
        handle = await server.open(principal)
        await handle.send(self.codec.encode(self.payload(Decimal(amount), currency)).encode(), "till")
        await wait_until(lambda: len(self.paid) + len(self.shown) > before)


async def open_shop(*rules):
    return await anyio.to_thread.run_sync(Shop, *rules)  # imports, which block


def engine_in(path):
    return SqliteEngine(JournalOptions(path / "journal.sqlite"))


async def test_a_sum_counts_all_conversations_of_a_principal_over_a_restart(tmp_path):
    shop = await open_shop(EUROS)
    async with shop.server(engine_in(tmp_path)) as server:
        await shop.order(server, 300)
        await shop.order(server, 200)
        assert (shop.paid, shop.shown) == ([300, 200], [])
    async with shop.server(engine_in(tmp_path)) as server:
        await shop.order(server, 1)
        await shop.order(server, 400, principal="bob")
        assert (shop.paid, len(shop.shown)) == ([300, 200, 400], 1)
        assert [each.id for each in server.approvals()] == [shop.shown[0].id]


async def test_an_approved_amount_counts_and_one_older_than_the_window_does_not():
    shop = await open_shop(EUROS)
    async with shop.server(MemoryEngine()) as server:
        await shop.order(server, 600)
        (asked,) = shop.shown
        said = ApprovalAnswer(asked.id, asked.digest, Answer.ALWAYS, "eve")
        assert await server.answer(asked.delivery.conversation, said)
        await wait_until(lambda: shop.paid == [600])
        await shop.order(server, 1)
        assert (shop.paid, len(shop.shown)) == ([600], 2)
        shop.clock.advance(25 * 3600)
        await shop.order(server, 500)
        assert (shop.paid, len(shop.shown)) == ([600, 500], 2)


@pytest.mark.parametrize(("amount", "currency"), [(1, "USD"), (1, "eur"), (-1, "EUR")])
async def test_an_amount_that_cannot_be_added_asks(amount, currency):
    shop = await open_shop(EUROS)
    async with shop.server(MemoryEngine()) as server:
        await shop.order(server, amount, currency)
        assert (shop.paid, len(shop.shown)) == ([], 1)
        (question,) = shop.shown[0].questions
        reason = "amount cannot be added" if amount < 0 else "currency is not EUR"
        assert WORDING.first(question.reason).endswith(f"needs an approval: {reason}.")


async def test_a_single_amount_may_be_asked_about_in_addition_to_the_sum():
    shop = await open_shop({"amount": {"over": 100, "sum": {"over": 150, "within": "1h"}}})
    async with shop.server(MemoryEngine()) as server:
        await shop.order(server, 101)
        assert (shop.paid, len(shop.shown)) == ([], 1)
        await shop.order(server, 90)
        await shop.order(server, 60)
        await shop.order(server, 1)
        assert (shop.paid, len(shop.shown)) == ([90, 60], 2)


async def test_two_servers_never_pass_more_than_the_sum_together():
    shop, storage = await open_shop(EUROS), Storage()
    async with shop.server(storage.engine("a")) as one, shop.server(storage.engine("b")) as other:
        async with anyio.create_task_group() as tasks:
            for number in range(10):
                tasks.start_soon(shop.order, (one, other)[number % 2], 90)
        await wait_until(lambda: len(shop.paid) + len(shop.shown) == 10)
        assert (len(shop.paid), len(shop.shown)) == (5, 5)


async def test_without_a_person_a_sum_within_its_bound_passes_and_another_is_denied():
    shop = await open_shop(EUROS)
    with anyio.fail_after(HANGS):
        async with build(shop.organism, engine=MemoryEngine()) as server:
            handle = await server.open("ann")
            for amount in (400, 300, 100):
                data = shop.codec.encode(shop.payload(Decimal(amount))).encode()
                await handle.send(data, "till")
            await wait_until(lambda: len(shop.paid) == 2)
            await anyio.sleep(0.05)
            assert (shop.paid, server.approvals()) == ([400, 100], ())


async def ask(shop, server, amount, currency="EUR"):
    """Order a payment in a conversation of its own. Returns the code of a refusal; empty for a paid one."""
    handle = await server.open("ann")
    reply = await handle.ask(shop.codec.encode(shop.payload(Decimal(amount), currency)).encode(), "till")
    return "denied" if b"<code>denied</code>" in reply.message else ""


async def test_a_sum_under_deny_denies_and_asks_no_person(tmp_path):
    shop = await open_shop(None, {"amount": {"over": 400, **EUROS["amount"]}})
    async with shop.server(engine_in(tmp_path)) as server:
        assert [await ask(shop, server, each) for each in (300, 401, 200)] == ["", "denied", ""]
    async with shop.server(engine_in(tmp_path)) as server:
        assert [await ask(shop, server, 1), await ask(shop, server, 1, "USD")] == ["denied", "denied"]
        shop.clock.advance(25 * 3600)
        assert not await ask(shop, server, 1)
    assert (shop.paid, shop.shown) == ([300, 200, 1], [])


async def test_two_servers_keep_a_limit_on_a_sum_together():
    (shop, storage), found = (await open_shop(None, EUROS), Storage()), []

    async def order(server):
        found.append(await ask(shop, server, 90))

    async with (
        shop.server(storage.engine("a")) as one,
        shop.server(storage.engine("b")) as other,
        anyio.create_task_group() as tasks,
    ):
        for number in range(10):
            tasks.start_soon(order, (one, other)[number % 2])
    assert (sorted(found), len(shop.paid)) == ([""] * 5 + ["denied"] * 5, 5)
