"""Schedules at real servers: each due time is sent once, over restarts, jumps of the clock and several servers."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager

import anyio
import pytest

from agentserver.assembly import build
from agentserver.engines.journal.records import put_order
from agentserver.engines.memory import MemoryEngine
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions, open_writing, read_journal
from agentserver.engines.sqlite.maintenance import leave
from agentserver.gateways.schedules import ScheduleRunner
from agentserver.payload.codec import Codecs
from agentserver.payload.functions import payload_of
from agentserver.ports import EngineError
from agentserver.ports.schedules import Interval, Occasion, Schedule, ScheduleOrder
from agentserver.testing import listener, organism_of
from tests.engines.together.storage import Storage
from tests.machine import HANGS
from tests.pump.desk import wait_until

pytestmark = pytest.mark.anyio


class Office:
    """A listener that records its messages, servers with it, and a clock that only the test moves."""

    def __init__(self):
        async def report(title: str) -> None:
            self.reports.append(title)
            await self.gate.wait()

        self.now, self.reports, self.gate = 1000.0, [], anyio.Event()
        self.organism, self.payload = organism_of(listener("report", report)), payload_of(report)

    def schedule(self, title="Beat", **more):
        message = Codecs([self.payload]).of(self.payload).encode(self.payload(title)).encode()
        return Schedule("beat", "report", message, Interval(60), **more)

    @asynccontextmanager
    async def server(self, engine, *schedules):
        with anyio.fail_after(HANGS):
            async with build(self.organism, engine=engine) as server, anyio.create_task_group() as tasks:
                runner = ScheduleRunner(server, lambda: self.now, 0.005, engine.answers)
                runner.replace(schedules)
                tasks.start_soon(runner.run)
                await anyio.sleep(0.02)
                yield runner
                await anyio.sleep(0.02)
                tasks.cancel_scope.cancel()


@pytest.fixture
def office():
    made = Office()
    made.gate.set()
    return made


async def test_each_due_time_is_sent_once_and_a_clock_that_jumps_back_sends_none_again(office):
    async with office.server(MemoryEngine(), office.schedule(overlap="queue")):
        await anyio.sleep(0.02)
        assert office.reports == []  # a new schedule begins with its next due time
        for number, office.now in enumerate((1020.0, 1080.0), 1):
            await wait_until(lambda number=number: len(office.reports) == number)
        for office.now in (1021.0, 1079.0, 1080.0):
            await anyio.sleep(0.03)
        assert office.reports == ["Beat"] * 2
        office.now = 1140.0
        await wait_until(lambda: len(office.reports) == 3)


@pytest.mark.parametrize(("catch_up", "sent"), [("last", 1), ("all", 4), ("none", 0)])
async def test_due_times_without_a_server_are_handled_by_the_policy(office, catch_up, sent, tmp_path):
    one = office.schedule(catch_up=catch_up)
    async with office.server(SqliteEngine(JournalOptions(tmp_path / "journal.sqlite")), one):
        office.now = 1020.0
        await wait_until(lambda: len(office.reports) == 1)
    office.now = 1279.0  # 1080, 1140, 1200 and 1260 have passed
    office.now = 1325.0 if catch_up == "none" else office.now
    expected = 1 + sent
    async with office.server(SqliteEngine(JournalOptions(tmp_path / "journal.sqlite")), one):
        await anyio.sleep(0.05)
        await wait_until(lambda: len(office.reports) == expected)
    async with office.server(SqliteEngine(JournalOptions(tmp_path / "journal.sqlite")), one):
        await anyio.sleep(0.05)
    assert len(office.reports) == expected


async def test_two_servers_send_one_message(office):
    storage = Storage()
    schedule = office.schedule(overlap="queue")  # a message in progress delays the next
    async with office.server(storage.engine("a"), schedule), office.server(storage.engine("b"), schedule):
        await anyio.sleep(0.02)
        for number in range(1, 6):
            office.now = 960.0 + 60 * number
            await wait_until(lambda number=number: len(office.reports) >= number)
            await anyio.sleep(0.03)
        assert office.reports == ["Beat"] * 5


async def test_a_due_time_during_a_running_message_is_skipped(office, caplog):
    office.gate = anyio.Event()
    async with office.server(MemoryEngine(), office.schedule()):
        office.now = 1020.0
        await wait_until(lambda: len(office.reports) == 1)
        with caplog.at_level(logging.WARNING, "agentserver.schedules"):
            office.now = 1080.0
            await wait_until(lambda: "skipped" in caplog.text)
        assert (
            "beat 1970-01-01T00:18:00Z: skipped, since beat 1970-01-01T00:17:00Z is in progress"
            in caplog.text
        )
        office.gate.set()
        await anyio.sleep(0.05)
        office.now = 1140.0
        await wait_until(lambda: len(office.reports) == 2)


async def test_or_it_waits(office):
    office.gate = anyio.Event()
    async with office.server(MemoryEngine(), office.schedule(overlap="queue")):
        office.now = 1020.0
        await wait_until(lambda: len(office.reports) == 1)
        office.now = 1080.0
        await anyio.sleep(0.03)
        assert len(office.reports) == 1
        office.gate.set()
        await wait_until(lambda: len(office.reports) == 2)


async def test_a_reload_adds_and_removes_schedules(office):
    async with office.server(MemoryEngine()) as runner:
        await anyio.sleep(0.02)
        runner.replace([office.schedule()])
        await anyio.sleep(0.02)
        office.now = 1020.0
        await wait_until(lambda: office.reports == ["Beat"])
        runner.replace([office.schedule("Other")])
        await anyio.sleep(0.03)
        office.now = 1080.0
        await wait_until(lambda: office.reports == ["Beat", "Other"])
        runner.replace([])
        await anyio.sleep(0.03)
        office.now = 1140.0
        await anyio.sleep(0.03)
        assert office.reports == ["Beat", "Other"]


@pytest.mark.parametrize("overlap", ["skip", "queue"])
async def test_one_message_is_in_progress_however_many_due_times_pass(office, overlap):
    office.gate = anyio.Event()
    async with office.server(MemoryEngine(), office.schedule(overlap=overlap)):
        office.now = 1020.0
        await wait_until(lambda: len(office.reports) == 1)
        for office.now in (1080.0, 1140.0, 1200.0):
            await anyio.sleep(0.05)
        assert len(office.reports) == 1
        office.gate.set()
        await anyio.sleep(0.05)


async def test_a_message_of_before_a_restart_counts_as_in_progress(office, caplog):
    office.gate, engine = anyio.Event(), MemoryEngine()
    one = office.schedule(catch_up="none")
    with anyio.fail_after(HANGS):
        async with build(office.organism, engine=engine) as server:
            for start, due in ((1000.0, 1020.0), (1081.0, 1140.0)):  # a runner, and one that starts later
                office.now = start
                async with anyio.create_task_group() as tasks:
                    runner = ScheduleRunner(server, lambda: office.now, 0.005)
                    runner.replace([one])
                    tasks.start_soon(runner.run)
                    await anyio.sleep(0.02)
                    office.now = due
                    await anyio.sleep(0.05)
                    tasks.cancel_scope.cancel()
            assert len(office.reports) == 1
            assert "beat 1970-01-01T00:19:00Z: skipped, since beat 1970-01-01T00:17:00Z" in caplog.text
            office.gate.set()


async def test_a_time_that_another_server_sent_counts_as_in_progress(office):
    """This server skipped 1080, and the other one sent it a moment later: 1140 must not run next to it."""
    office.gate = anyio.Event()
    async with build(office.organism, engine=MemoryEngine()) as server, anyio.create_task_group() as tasks:
        runner, one = ScheduleRunner(server, lambda: office.now), office.schedule()
        first, later, due = (Occasion(one, at) for at in (1020.0, 1080.0, 1140.0))
        await runner._send(later, tasks)
        assert await runner._send_when_free(due, (first, 1140.0), (), tasks, waits=False) == later
        office.gate.set()
        await wait_until(lambda: office.reports == ["Beat"])
        tasks.cancel_scope.cancel()


async def test_a_due_time_is_sent_once_the_queue_has_room(office, monkeypatch, caplog):
    monkeypatch.setattr("agentserver.gateways.schedules.RETRY", 0.01)
    async with office.server(MemoryEngine(), office.schedule()) as runner:
        accounts = runner._server._pump._accounts
        admits = accounts.admits
        accounts.admits = lambda *_: None
        office.now = 1020.0
        await wait_until(lambda: caplog.text.count("not sent yet: the queue of report is full") > 1)
        accounts.admits = admits
        await wait_until(lambda: office.reports == ["Beat"])


async def order(path, kind, at):
    await anyio.to_thread.run_sync(
        leave, path, lambda connection: put_order(connection, ScheduleOrder("beat", kind, "ada", at))
    )


async def test_a_paused_schedule_skips_its_due_times_over_a_restart_for_good(office, tmp_path):
    path, one = tmp_path / "journal.sqlite", office.schedule(catch_up="all")
    async with office.server(SqliteEngine(JournalOptions(path)), one):
        office.now = 1020.0
        await wait_until(lambda: len(office.reports) == 1)
        await order(path, "paused", 1030.0)
        for office.now in (1080.0, 1140.0):
            await anyio.sleep(0.05)
    async with office.server(SqliteEngine(JournalOptions(path)), one):
        office.now = 1200.0
        await anyio.sleep(0.05)
        await order(path, "resumed", 1210.0)
        await anyio.sleep(0.05)
        assert len(office.reports) == 1
    async with office.server(SqliteEngine(JournalOptions(path)), one):
        await anyio.sleep(0.05)
        assert len(office.reports) == 1
        office.now = 1260.0
        await wait_until(lambda: len(office.reports) == 2)


async def test_an_operator_runs_a_schedule_once_as_its_owner_also_while_it_is_paused(
    office, tmp_path, monkeypatch
):
    monkeypatch.setattr("agentserver.gateways.schedules.POLL", 0.01)
    path = tmp_path / "journal.sqlite"
    await anyio.to_thread.run_sync(lambda: open_writing(JournalOptions(path)).close())
    await order(path, "paused", 1000.0)
    await order(path, "run", 1001.0)
    engine = SqliteEngine(JournalOptions(path))
    async with office.server(engine, office.schedule()):
        await wait_until(lambda: office.reports == ["Beat"])
        await anyio.sleep(0.05)
        assert [each.principal for each in await engine.read(lambda reader: [*reader.conversations()])] == [
            "ada"
        ]
    async with office.server(engine := SqliteEngine(JournalOptions(path)), office.schedule()):
        await anyio.sleep(0.05)
        kinds = [each.kind for each in await engine.read(lambda reader: reader.list_schedule_orders())]
        assert (office.reports, kinds) == (["Beat"], ["paused", "ran"])


async def test_a_message_that_an_operator_ordered_counts_as_in_progress(
    office, tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr("agentserver.gateways.schedules.POLL", 0.01)
    path, office.gate = tmp_path / "journal.sqlite", anyio.Event()
    async with office.server(SqliteEngine(JournalOptions(path)), office.schedule()):
        await order(path, "run", 1001.0)
        await wait_until(lambda: office.reports == ["Beat"])
        office.now = 1020.0
        await wait_until(lambda: "beat 1970-01-01T00:17:00Z: skipped, since beat run 1970" in caplog.text)
        await order(path, "run", 1021.0)  # waits for the first one
        await anyio.sleep(0.05)
        assert office.reports == ["Beat"]
        office.gate.set()
        await wait_until(lambda: office.reports == ["Beat"] * 2)
        await anyio.sleep(0.05)
    assert await anyio.to_thread.run_sync(orders_in, path) == [("ran", 1021.0)]


def orders_in(path):
    with read_journal(path) as reader:
        return [(each.kind, each.at) for each in reader.list_schedule_orders()]


async def test_two_servers_send_an_operators_order_once(office, monkeypatch):
    monkeypatch.setattr("agentserver.gateways.schedules.POLL", 0.01)
    storage = Storage()
    a, b = storage.engine("a"), storage.engine("b")
    a.answers = b.answers = Orders(ScheduleOrder("beat", "run", "ada", 1001.0))
    async with office.server(a, office.schedule()), office.server(b, office.schedule()):
        await wait_until(lambda: office.reports == ["Beat"])
        await anyio.sleep(0.05)
        assert office.reports == ["Beat"]


class Orders:
    """Orders that cannot be marked as sent."""

    def __init__(self, *orders):
        self.orders = orders

    async def list_pending(self):
        return []

    async def list_verdicts(self):
        return []

    async def list_orders(self):
        return self.orders

    async def mark_ran(self, order):
        raise EngineError("not now")
