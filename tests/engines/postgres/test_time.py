"""Flows, timers, schedules, sums, effects and forks on a real Postgres, with two servers."""

from __future__ import annotations

import json
import re
import sys
import time
from contextlib import asynccontextmanager
from datetime import timedelta
from decimal import Decimal

import anyio
import pytest
from click.testing import CliRunner

from agentserver import config
from agentserver.assembly import build
from agentserver.cli import cli
from agentserver.engines.journal.records import put_order
from agentserver.engines.postgres import PostgresEngine, PostgresOptions
from agentserver.engines.postgres.leases import DatabaseTime
from agentserver.flow import ask, sleep
from agentserver.ports.schedules import ScheduleOrder
from agentserver.rulebook import build_rules
from agentserver.testing import FakeClock, listener, organism_of
from tests.flow.test_handler import Find, Found, Invoice, Paid
from tests.gateways.test_schedules import Office
from tests.machine import HANGS
from tests.pump.desk import wait_until
from tests.pump.test_sums import EUROS, Shop

pytestmark = pytest.mark.anyio

DAYS = timedelta(days=3)


def engine_of(database, name, organism=None):
    guards = build_rules(organism).guards if organism is not None else ()
    return PostgresEngine(PostgresOptions(database, name=name, lease=0.5), guards)


async def in_thread(work, *arguments):
    return await anyio.to_thread.run_sync(work, *arguments)


class Bureau:
    """A flow that sleeps three days, and servers with it."""

    def __init__(self, database):
        async def desk(invoice: Invoice) -> Paid:
            self.begun.append(invoice.number)
            await sleep(DAYS)
            found = await ask("ledger", Find(f"v{invoice.number}"), reply=Found)
            return Paid(found.what)

        async def ledger(find: Find) -> Found:
            self.found.append(find.what)
            return Found(f"re {find.what}")

        self.begun, self.found, self.clock, self.database = [], [], FakeClock(), database
        self.organism = organism_of(listener("desk", desk, peers=["ledger"]), listener("ledger", ledger))

    @asynccontextmanager
    async def server(self, name):
        with anyio.fail_after(HANGS):
            engine = engine_of(self.database, name, self.organism)
            async with build(self.organism, engine=engine, clock=self.clock) as server:
                yield server

    async def order(self, server, number):
        """Order a payment. Returns its conversation once the flow sleeps."""
        handle = await server.open("console")
        await handle.send(server.rules.codecs.of(Invoice).encode(Invoice(number)).encode(), "desk")
        await wait_until(lambda: number in self.begun and server._pump._accounts.idle.is_set())
        handle.detach()
        return handle.id


async def test_a_sleeping_flow_wakes_once_after_a_restart(database):
    bureau = await in_thread(Bureau, database)
    async with bureau.server("a") as server:
        await bureau.order(server, 1)
        await server.settle_timers()
    assert bureau.found == []
    bureau.clock.advance(4 * 86_400)
    for _ in range(2):
        async with bureau.server("a") as server:
            await wait_until(lambda: bureau.found)
            await server.settle_timers()
    assert (bureau.begun, bureau.found) == ([1, 1], ["v1"])


def read_skew(caplog, side):
    """Seconds of the logged difference: the way to the database makes it inexact."""
    return float(re.search(rf"([\d.]+) s {side} that of the database", caplog.text)[1])


async def test_a_flow_moves_between_servers_whose_clocks_are_hours_apart(database, monkeypatch, caplog):
    done = []

    async def nap(invoice: Invoice) -> Paid:
        await sleep(timedelta(hours=1))
        done.append(invoice.number)
        return Paid("rested")

    organism = await in_thread(lambda: organism_of(listener("desk", nap)))
    machine, bureau = time.time, await in_thread(Bureau, database)
    bureau.organism, bureau.clock, bureau.begun = organism, None, [1]
    monkeypatch.setattr(time, "time", lambda: machine() + 7200)
    async with bureau.server("ahead") as server:
        await bureau.order(server, 1)
        assert abs(server.clock.moment().now - machine()) < 60
    assert (done, read_skew(caplog, "ahead of")) == ([], pytest.approx(7200, abs=60))
    # The database's clock alone says that the hour is over: by that of the first server two more have to pass.
    monkeypatch.setattr(time, "time", lambda: machine() - 7200)
    measure = DatabaseTime.measure
    monkeypatch.setattr(DatabaseTime, "measure", lambda known, at, began: measure(known, at + 5400, began))
    async with bureau.server("behind"):
        await wait_until(lambda: done)
    assert (done, read_skew(caplog, "behind")) == ([1], pytest.approx(12_600, abs=60))


def test_the_time_of_the_database_changes_only_by_more_than_its_uncertainty(monkeypatch):
    steady, known = [100.0], DatabaseTime()
    monkeypatch.setattr(time, "clock_gettime", lambda _: steady[0])
    known.measure(1000.0, began=96.0)  # two seconds on the way there
    assert known.now() == 1002.0
    known.measure(1001.0, began=98.0)
    assert known.now() == 1002.0
    known.measure(1001.0, began=100.0)
    assert known.now() == 1001.0
    known.measure(1001.04, began=100.0)
    assert known.now() == 1001.0
    steady[0] = 110.0
    assert known.now() == 1011.0


async def test_flows_of_a_server_that_ended_are_woken_by_another_once(database):
    bureau = await in_thread(Bureau, database)
    async with bureau.server("b") as heir:
        async with bureau.server("a") as server:
            for number in range(5):
                await bureau.order(server, number)
        bureau.clock.advance(4 * 86_400)
        while len(bureau.found) < 5:
            await heir.settle_timers()
            await anyio.sleep(0.05)
        await heir.settle_timers()
    assert sorted(bureau.found) == [f"v{number}" for number in range(5)]


async def test_due_timers_of_two_servers_are_released_by_one_each(database):
    bureau = await in_thread(Bureau, database)
    async with bureau.server("a") as one, bureau.server("b") as other:
        for number in range(6):
            await bureau.order((one, other)[number % 2], number)
        bureau.clock.advance(4 * 86_400)
        for server in (one, other, one, other):
            await server.settle_timers()
        await wait_until(lambda: len(bureau.found) >= 6)
        await anyio.sleep(0.1)
    assert sorted(bureau.found) == [f"v{number}" for number in range(6)]


async def test_two_servers_send_one_message_a_due_time(database):
    office = await in_thread(Office)
    office.gate.set()
    async with (
        office.server(engine_of(database, "a"), office.schedule()),
        office.server(engine_of(database, "b"), office.schedule()),
    ):
        await anyio.sleep(0.1)
        for number in range(1, 6):
            office.now = 960.0 + 60 * number
            await wait_until(lambda number=number: len(office.reports) >= number)
            await anyio.sleep(0.1)
        assert office.reports == ["Beat"] * 5


async def test_due_times_that_passed_while_no_server_ran_are_sent_once(database):
    office = await in_thread(Office)
    office.gate.set()
    beat = office.schedule(catch_up="all")
    async with office.server(engine_of(database, "a"), beat):
        await anyio.sleep(0.1)
        office.now = 1020.0
        await wait_until(lambda: len(office.reports) == 1)
    office.now = 1279.0
    async with (
        office.server(engine_of(database, "a"), beat),
        office.server(engine_of(database, "b"), beat),
    ):
        await wait_until(lambda: len(office.reports) >= 5)
        await anyio.sleep(0.3)
    assert office.reports == ["Beat"] * 5


async def test_an_order_of_an_operator_is_run_once_by_two_servers(database, monkeypatch):
    monkeypatch.setattr("agentserver.gateways.schedules.POLL", 0.05)
    office = await in_thread(Office)
    office.gate.set()
    one, other = engine_of(database, "a"), engine_of(database, "b")
    async with office.server(one, office.schedule()), office.server(other, office.schedule()):
        await one.answers._do(
            lambda connection: put_order(connection, ScheduleOrder("beat", "run", "ada", 1.0))
        )
        await wait_until(lambda: office.reports)
        await anyio.sleep(0.5)
        assert office.reports == ["Beat"]
        kinds = [each.kind for each in await one.read(lambda reader: reader.list_schedule_orders())]
        assert kinds == ["ran"]


async def test_two_servers_never_pass_more_than_the_sum_together(database):
    shop = await in_thread(Shop, EUROS)
    engines = [engine_of(database, name, shop.organism) for name in "ab"]
    async with shop.server(engines[0]) as one, shop.server(engines[1]) as other:
        async with anyio.create_task_group() as tasks:
            for number in range(10):
                tasks.start_soon(shop.order, (one, other)[number % 2], 90)
        await wait_until(lambda: len(shop.paid) + len(shop.shown) >= 10)
        assert sum(shop.paid) == Decimal(450)
    async with shop.server(engine_of(database, "c", shop.organism)) as third:
        before = len(shop.shown)
        await shop.order(third, 60)
        assert (sum(shop.paid), len(shop.shown) > before) == (Decimal(450), True), "a restart counts on"


ORGANISM = """
name: desk
engine: {postgres: {url: "${DATABASE_URL}"}}
provenance: {mode: audit}
listeners:
  - {name: desk, description: Passes it on., handler: pg_fork.desk, peers: [bank], trust: trusted}
  - {name: bank, description: Pays., handler: pg_fork.transfer, trust: sink}
"""

CODE = """
from dataclasses import dataclass
from agentserver import xmlify
from agentserver.flow import ask, once
from agentserver.payload.functions import payload_of

CALLS, FAILS = [], []

@xmlify
@dataclass(frozen=True)
class Invoice:
    vendor: str

async def transfer(iban: str) -> str:
    CALLS.append(iban)
    return f"paid {iban}"

def stamp(vendor):
    CALLS.append(f"stamp {vendor}")
    if FAILS:
        raise ConnectionError("the line is dead")
    return "stamped"

async def desk(invoice: Invoice) -> str:
    await once(stamp, invoice.vendor)
    return (await ask("bank", payload_of(transfer)(invoice.vendor))).value
"""


class Project:
    """A project on a database, and its verbs."""

    def __init__(self, home, database):
        (home / "organism.yaml").write_text(ORGANISM)
        (home / "pg_fork.py").write_text(CODE)
        self.organism = config.load(home / "organism.yaml", environ={"DATABASE_URL": database})
        self.module = sys.modules["pg_fork"]

    @asynccontextmanager
    async def server(self):
        with anyio.fail_after(HANGS):
            async with await in_thread(lambda: build(self.organism, durable=True)) as server:
                yield server

    async def order(self, server):
        codec = server.rules.codecs.of(self.module.Invoice)
        handle = await server.open("ann")
        reply = await handle.ask(codec.encode(self.module.Invoice("Ada")).encode(), "desk")
        return handle.id, reply.message.decode()

    async def verb(self, *arguments):
        done = await in_thread(lambda: CliRunner().invoke(cli, list(arguments)))
        assert done.exit_code == 0, done.output
        return done.output


@pytest.fixture
def project(tmp_path, database, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATABASE_URL", database)
    monkeypatch.syspath_prepend(tmp_path)
    yield Project(tmp_path, database)
    sys.modules.pop("pg_fork", None)


async def test_a_live_fork_continues_while_a_server_runs(project):
    async with project.server() as server:
        old, answer = await project.order(server)
        assert "paid Ada" in answer
        steps = (await project.verb("fork", old)).splitlines()
        found = next(line.split(":")[0].split()[1] for line in steps if "desk finished" in line)
        project.module.CALLS.clear()
        said = await project.verb("fork", old, "--at", found, "--live")
        new = said.split()[0]
        events = server.watch("ann", new)
        with anyio.fail_after(HANGS):
            first = await anext(aiter(events))
        assert "paid Ada" in first.message.decode()
        assert "Ada" in project.module.CALLS


async def test_an_unknown_effect_is_settled_while_a_server_runs(project):
    async with project.server() as server:
        project.module.FAILS.append(True)
        _, answer = await project.order(server)
        assert "internal" in answer
        (effect,) = [json.loads(line) for line in (await project.verb("effects", "--json")).splitlines()]
        assert effect["state"] == "unknown"
        await project.verb("effects", "settle", effect["id"], "--not-done")
        with anyio.fail_after(HANGS):
            while "once stamp" in await project.verb("effects", "--json"):  # noqa: ASYNC110 - by a poll
                await anyio.sleep(0.1)


async def test_schedules_are_listed_by_the_clock_of_the_database(project, tmp_path, monkeypatch):
    text = ORGANISM + "schedules:\n  - {name: beat, listener: desk, every: 1h, fields: {vendor: Ada}}\n"
    (tmp_path / "organism.yaml").write_text(text)
    machine = time.time
    monkeypatch.setattr(time, "time", lambda: machine() + 7 * 86_400)
    await project.verb("engine", "migrate")
    listed = json.loads(await project.verb("schedules", "--json"))
    assert 0 < listed["due"] - machine() <= 3600
