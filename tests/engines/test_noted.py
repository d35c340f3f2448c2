"""Marks beside a log say what a process was working on, and nothing that is not so."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.engines import noted
from agentserver.engines.noted import AT_ONCE, NotedMarks, ShareNote
from agentserver.engines.replica.log import PARTITIONS
from agentserver.ports import NO_PAST, FencedError, Past, Share
from tests.engines.together.broker import MemoryBroker, MemoryLog
from tests.pump.desk import until

pytestmark = pytest.mark.anyio

S, T = Share(0, 1), Share(1, 1)


class Ground:
    """Some processes with marks; each may hold the two shares."""

    def __init__(self):
        self.broker = MemoryBroker()
        self.all = []
        self.held = {}

    def marks(self, name):
        log = MemoryLog(self.broker, name)
        self.broker.join(log)
        self.held[name] = frozenset({S, T})
        self.all.append(NotedMarks(log, lambda: self.held[name]))
        return self.all[-1]

    def dies(self, name):
        self.broker.leave(name)


@pytest.fixture
async def ground():
    ground = Ground()
    yield ground
    for marks in ground.all:
        await marks.close()


async def taken(marks, **suspects):
    found = [await marks.past(share) for share in (S, T)]
    for share in (S, T):
        await marks.begin(share, suspects, 4)
    return found


async def begun(marks, *deliveries):
    slots = [marks.enter(delivery, "c") for delivery in deliveries]
    for slot in slots:
        await marks.kept(slot)
    return slots


async def test_all_shares_of_a_process_are_told_what_it_was_working_on(ground):
    a = ground.marks("a")
    assert await taken(a, x=0) == [NO_PAST, NO_PAST]
    await begun(a, "x", "y")
    ground.dies("a")
    running = Past(frozenset("xy"), "", {"x": 0})
    assert await taken(ground.marks("b")) == [running, running]


async def test_what_has_ended_by_the_time_another_one_begins_was_not_running_at_the_end(ground):
    a = ground.marks("a")
    await taken(a)
    for slot in await begun(a, "x", "y"):
        a.leave(slot)
    await begun(a, "z")
    ground.dies("a")
    assert (await ground.marks("b").past(S)).running == {"z"}


async def test_what_has_ended_is_noted_when_nothing_begins(ground):
    a = ground.marks("a")
    (slot,) = await begun(a, "x")
    a.leave(slot)
    await until(lambda: ground.broker.marks["a"] == ["x", ""])


async def test_what_begins_in_one_turn_or_while_a_note_is_on_its_way_has_one_note(ground):
    a = ground.marks("a")
    one, two = a.enter("1", "c"), a.enter("2", "c")
    waiting = [asyncio.ensure_future(a.kept(slot)) for slot in (one, two)]
    while not ground.broker.marks:
        await asyncio.sleep(0)
        waiting += [asyncio.ensure_future(a.kept(a.enter(str(len(waiting) + 1), "c"))) for _ in range(2)]
    await asyncio.gather(*waiting)
    assert len(ground.broker.marks["a"]) <= 3 < len(waiting)


async def test_a_chain_of_calls_has_a_note_for_each(ground):
    """The one before has ended when the next one begins, and has none of its own."""
    a = ground.marks("a")
    for name in "abc":
        (slot,) = await begun(a, name)
        a.leave(slot)
    await until(lambda: ground.broker.marks["a"] == ["a", "b", "c", ""])


async def test_what_goes_on_after_it_was_abandoned_is_still_running(ground):
    a = ground.marks("a")
    await taken(a)
    (slot,) = await begun(a, "old")
    a.enter("old", "c")  # as the abandoned call
    a.leave(slot)
    await begun(a, "x")
    ground.dies("a")
    assert (await ground.marks("b").past(S)).running == {"old", "x"}


async def test_a_share_that_comes_from_a_living_process_brings_its_suspects_and_no_new_ones(ground):
    a = ground.marks("a")
    await taken(a, x=1)
    await begun(a, "y")
    assert await ground.marks("b").past(S) == Past(frozenset(), "", {"x": 1})


async def test_an_acquittal_is_noted(ground):
    a = ground.marks("a")
    await taken(a, x=1, y=2)
    a.acquit("x")
    await until(lambda: "x" not in "".join(ground.broker.notes.values()))
    assert (await ground.marks("b").past(T)).ends == {"y": 2}


async def test_an_end_that_was_asked_for_is_nobodys_fault_and_one_that_was_not_is(ground):
    for name, asked in (("a", True), ("b", False), ("c", True)):
        marks = ground.marks(name)
        await taken(marks)
        await begun(marks, "x")
        if asked:
            marks.end()
        await marks.close()
        ground.dies(name)
        assert (await ground.marks(f"after {name}").past(S)).running == (set() if asked else {"x"})


async def test_nothing_waits_for_a_note_once_all_of_it_is_over(ground):
    a = ground.marks("a")
    ground.broker.away = True
    waiting = asyncio.ensure_future(a.kept(a.enter("x", "c")))
    await asyncio.sleep(0.01)
    await a.close()
    await waiting
    ground.broker.come_back()


async def test_one_that_waits_no_more_takes_the_note_from_no_other(ground):
    a = ground.marks("a")
    ground.broker.away = True
    one, two = (asyncio.ensure_future(a.kept(a.enter(name, "c"))) for name in "xy")
    await asyncio.sleep(0.01)
    one.cancel()
    await asyncio.gather(one, return_exceptions=True)
    assert not two.done()
    ground.broker.come_back()
    await two
    assert ground.broker.marks["a"] == ["x y"]  # nobody has said that it is left


async def test_what_claims_a_share_while_it_is_judged_finds_what_was_before(ground):
    a = ground.marks("a")
    await taken(a)
    await begun(a, "x")
    ground.dies("a")
    assert (await ground.marks("b").past(S)).running == {"x"}
    assert (await ground.marks("c").past(S)).running == {"x"}


async def test_of_a_share_that_is_lost_nothing_is_said_so_that_nothing_of_it_begins(ground):
    """It was said to have no past, and what had ended the process before ran once more, uncounted."""
    a = ground.marks("a")
    ground.held["a"] = frozenset({T})
    with pytest.raises(FencedError):
        await a.past(S)
    assert await a.past(T) == NO_PAST
    ground.held["a"] = frozenset()
    with pytest.raises(FencedError):
        await a.begin(T, {"x": 1}, 4)
    assert "x" not in "".join(ground.broker.notes.values())


@given(st.text(), st.dictionaries(st.text(), st.integers(0, 9)))
def test_a_note_of_a_share_is_read_as_it_was_written(by, ends):
    assert ShareNote.load(ShareNote(by, ends).dump()) == ShareNote(by, ends)


@given(
    st.text() | st.sampled_from(["[]", "[1,2]", '["a",{"x":1e999}]', '["a",{"x":null}]', "[" * 9999, "null"])
)
def test_any_text_is_read(text):
    assert isinstance(ShareNote.load(text), ShareNote)


class Counting(MemoryLog):
    """A log that counts what is asked of it, and how much at once."""

    def __init__(self, broker, name):
        super().__init__(broker, name)
        self.asked, self.now, self.most = {"noted": [], "marked": []}, 0, 0

    async def counted(self, kind, name, asking):
        self.asked[kind].append(name)
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            return await asking
        finally:
            self.now -= 1

    async def noted(self, name):
        return await self.counted("noted", name, super().noted(name))

    async def marked(self, name):
        return await self.counted("marked", name, super().marked(name))


async def test_a_take_over_reads_each_note_once_so_many_at_once_and_what_ran_once(ground):
    """The note of what ran in one process was read for each share that it had."""
    shares = frozenset(Share(number, 1) for number in range(PARTITIONS))
    a = ground.marks("a")
    ground.held["a"] = shares
    for share in shares:
        await a.past(share)
        await a.begin(share, {}, 4)
    await begun(a, "x")
    ground.dies("a")
    log = Counting(ground.broker, "b")
    ground.broker.join(log)
    b = NotedMarks(log, lambda: shares)
    ground.all.append(b)
    for share in shares:
        assert await b.past(share) == Past(frozenset("x"), "", {})
    assert sorted(log.asked["noted"]) == sorted(f"share.{share.partition}" for share in shares)
    assert log.asked["marked"] == ["a"]
    assert log.most == AT_ONCE


async def test_what_cannot_be_noted_for_long_is_said_once_with_the_reason(ground, monkeypatch, caplog):
    """Handlers did not begin, and no log said why."""
    monkeypatch.setattr(noted, "AGAIN", 0)
    a = ground.marks("a")
    await taken(a)
    ground.broker.away = True
    slot = a.enter("x", "c")
    waiting = asyncio.ensure_future(a.kept(slot))
    await until(lambda: caplog.messages)
    assert not waiting.done()
    ground.broker.away = False
    await waiting
    assert caplog.messages == [
        "no handler begins here until that can be noted: the storage is away",
        "notes are kept again",
    ]
