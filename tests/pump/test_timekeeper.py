"""The machine's clock is set while a server runs, or between two of them: nothing expires for that alone."""

from __future__ import annotations

import asyncio

import pytest

from agentserver.core.state.conversation import Conversation
from agentserver.core.state.elapsed_time import Calendar, Jump
from agentserver.engines.memory import MemoryEngine
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions
from agentserver.guards.builtin import ApprovalGuard, PeersGuard
from agentserver.ports import EngineError
from agentserver.pump import approvals as waiting
from agentserver.pump.pump import PumpHooks
from agentserver.pump.timekeeper import AT_ONCE, Timekeeper, tidy
from agentserver.testing import FakeClock
from tests.core.paper import Answer, Ask, listener
from tests.pump.desk import Person, answer, desk, pass_to_sink, wait_until

pytestmark = pytest.mark.anyio


async def tidy_pump(d):
    pump = d.pump
    await tidy(pump._live, pump._engine, pump._boundary, pump._time, pump._limits.idle)


async def test_the_event_loop_turns_while_many_conversations_are_looked_at():
    async with desk((listener("a"), answer)) as d:
        for number in range(3 * AT_ONCE):
            conversation = Conversation.begin(f"p{number}", d.pump._clock.moment())
            d.pump._live[conversation.id] = conversation
        turns = 0

        async def other():
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        await tidy_pump(d)
        task.cancel()
        assert turns >= 3
        assert len(d.pump._live) == 3 * AT_ONCE


DAY = 86_400.0
YEARS = 10 * 365 * DAY
LIMITS = {"idle": 30 * DAY, "approval": 2 * DAY}


def shop(path, clock):
    guards = [PeersGuard(), ApprovalGuard({"sink": {}})]
    engine = SqliteEngine(JournalOptions(path), guards, retention=10 * DAY)
    listeners = ((listener("a", "sink"), pass_to_sink), (listener("sink"), answer), (listener("b"), answer))
    people = PumpHooks(None, Person(), None)
    return engine, desk(*listeners, engine=engine, guards=guards, people=people, clock=clock, **LIMITS)


async def count_stored(engine):
    """The open conversations, and how many are kept in all."""
    count = "select count(*), sum(closed is null) from conversation"
    return await engine._do(lambda: engine._connection.execute(count).fetchone())


@pytest.fixture(autouse=True)
def naps(monkeypatch):
    monkeypatch.setattr(waiting, "LONGEST_NAP", 0.002)


async def fill(d):
    """One that waits for a person, one that does nothing, one that is closed."""
    await d.send(await d.open(), Ask("one"))
    await d.ask(Ask("two"), "b")
    closed = await d.open()
    await d.ask(Ask("three"), "b", closed)
    await closed.close()
    await wait_until(d.pump.approvals)


@pytest.mark.parametrize("years", [YEARS, -YEARS])
async def test_a_clock_that_is_set_while_the_server_runs_ends_nothing(tmp_path, years, caplog):
    clock = FakeClock(now=1.8e9)
    engine, running = shop(tmp_path / "j", clock)
    async with engine, running as d:
        await fill(d)
        clock.jump(years)
        await tidy_pump(d)
        await asyncio.sleep(0.02)
        assert (await count_stored(engine), len(d.pump.approvals())) == ((3, 2), 1)
        assert "the clock jumped from" in caplog.text


async def test_a_clock_that_is_set_between_two_servers_ends_nothing_and_later_time_counts(tmp_path):
    engine, running = shop(tmp_path / "j", FakeClock(now=1.8e9))
    async with engine, running as d:
        await fill(d)
    clock = FakeClock(now=1.8e9 + YEARS)
    engine, running = shop(tmp_path / "j", clock)
    async with engine, running as d:
        await tidy_pump(d)
        await asyncio.sleep(0.02)
        assert (await count_stored(engine), len(d.pump.approvals())) == ((3, 2), 1)
        clock.advance(3 * DAY)
        await wait_until(lambda: not d.pump.approvals())
        assert await count_stored(engine) == (3, 2)
    engine, running = shop(tmp_path / "j", clock)
    async with engine, running as d:
        clock.advance(8 * DAY)
        await tidy_pump(d)
        assert await count_stored(engine) == (2, 2)
        clock.advance(23 * DAY)
        await tidy_pump(d)
        assert (await count_stored(engine))[1] == 0


async def test_servers_that_are_started_now_and_then_age_their_journal(tmp_path):
    now, counts = 1.8e9, []
    for turn in range(14):
        clock = FakeClock(now=now + turn * DAY)
        engine, running = shop(tmp_path / "j", clock)
        async with engine, running as d:
            if not turn:
                await fill(d)
            await tidy_pump(d)
            counts.append((await count_stored(engine))[0])
    assert counts[:10] == [3] * 10
    assert counts[-1] == 2


async def test_time_never_runs_backwards_within_a_conversation(tmp_path):
    clock = FakeClock(now=1.8e9)
    engine, running = shop(tmp_path / "j", clock)
    async with engine, running as d:
        handle = await d.open()
        for seconds in (0, -3600.0, -YEARS, 30.0, YEARS):
            clock.jump(seconds)
            assert await d.ask(Ask("x"), "b", handle) == Answer("re: x")
        times = await engine._do(
            lambda: engine._connection.execute("select at from step order by number").fetchall()
        )
        assert times == sorted(times)
        assert len(times) == 10


class Forgetful(MemoryEngine):
    """Cannot keep a calendar at first."""

    def __init__(self):
        super().__init__()
        self.calendars = []
        self.full = True

    async def keep_calendar(self, calendar):
        if self.full:
            raise EngineError("the disk is full")
        self.calendars.append(calendar)


async def test_a_calendar_that_cannot_be_stored_is_stored_later(caplog):
    engine, clock = Forgetful(), FakeClock(now=1000.0, step=0.0)
    time = Timekeeper(clock, engine)
    await time.begin()
    clock.jump(5000.0)
    await time.look()
    assert "the time cannot be kept: the disk is full" in caplog.text
    engine.full = False
    clock.advance(1.0)
    await time.look()
    assert engine.calendars == [Calendar((Jump(1000.0, 6000.0),), 6001.0)]
    clock.advance(1.0)
    await time.look()
    assert len(engine.calendars) == 1, "not at each look"
