"""The delivery that ends the process is found, and nothing else is given up for it."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.core.messages import Delivery
from agentserver.core.records.audit import Event
from agentserver.engines.memory import MemoryEngine
from agentserver.ports import NO_PREVIOUS_RUN, PreviousRun
from agentserver.pump.poison_search import NoMarks, Probation, judge
from agentserver.pump.schedule import Ticket
from tests.core.paper import Answer, Ask, listener
from tests.pump.desk import answer, desk, hang_forever, wait_until


def past_run(*running, held="", **ends):
    return PreviousRun(frozenset(running), held, ends)


@pytest.mark.parametrize(
    ("found", "dead", "alone"),
    [
        (NO_PREVIOUS_RUN, "", ""),
        (past_run("a", "b"), "", "ab"),  # nobody knows yet
        (past_run("a"), "", "a"),  # it ran alone
        (past_run("a", "x"), "", "a"),  # x has been dealt with, but it ran beside a
        (past_run("x"), "", ""),  # the one that ran alone has been dealt with
        (past_run("a", a=0, b=0), "", "a"),  # the culprit is known: b is acquitted
        (past_run(a=0, b=0), "", "ab"),  # our own end in between: both still are suspects
        (past_run("a", "b", c=1), "", "cab"),
        (past_run("a", "b", held="b"), "", "b"),  # it held the event loop
        (past_run("a", "b", held="x"), "", ""),
        (past_run("a", a=2), "a", ""),
        (past_run("a", a=2, b=1), "a", "b"),  # what is known of another one stays known
        (past_run("a", "b", a=2), "", "ab"),  # not alone: no end of its own
        (past_run("b", x=2), "", "b"),
    ],
)
def test_a_verdict(found, dead, alone):
    verdict = judge(found, "abc", 3)
    assert ("".join(verdict.dead), "".join(verdict.isolated)) == (dead, alone)
    assert set(verdict.ends) == {*dead, *alone}


def test_only_an_end_alone_counts():
    assert judge(past_run("a", "b", a=1), "ab", 3).ends == {"a": 1, "b": 0}
    assert judge(past_run("a", a=1), "ab", 3).ends == {"a": 2}
    assert judge(past_run("a", "b", held="a", a=1), "ab", 3).ends == {"a": 2}


@given(st.sets(st.integers(0, 11)), st.integers(1, 6), st.integers(1, 4), st.integers(0, 2**32))
def test_every_culprit_is_given_up_every_other_is_served_and_the_starts_are_bounded(
    poison, workers, fatal, seed
):
    """Twelve deliveries, some fatal to the process: served in any order, after any ends, as the rules demand."""
    random = Random(seed)
    waiting, served, dead = [str(n) for n in range(12)], [], []
    found, starts, bad = NO_PREVIOUS_RUN, 0, {str(n) for n in poison}
    while waiting:
        starts += 1
        assert starts <= 1 + len(bad) * (fatal + 1)
        verdict = judge(found, tuple(waiting), fatal)
        for key in verdict.dead:
            waiting.remove(key)
            dead.append(key)
        ends = dict(verdict.ends)
        found = NO_PREVIOUS_RUN
        for key in verdict.isolated:
            if key in bad:
                found = PreviousRun(frozenset({key}), "", ends)
                break
            waiting.remove(key)
            served.append(key)
            del ends[key]
        running = []
        others = [key for key in waiting if key not in verdict.isolated]
        while found is NO_PREVIOUS_RUN and (others or running):
            while others and len(running) < workers:
                running.append(others.pop(0))
            key = random.choice(running)
            if key in bad:
                found = PreviousRun(frozenset(running), "", ends)
            else:
                running.remove(key)
                waiting.remove(key)
                served.append(key)
    assert sorted(dead) == sorted(bad)
    assert sorted(served) == sorted({str(n) for n in range(12)} - bad)


class NotedMarks(NoMarks):
    """Marks in memory, of a server before, and of this one."""

    def __init__(self, found=NO_PREVIOUS_RUN):
        self.found, self.running, self.ends, self.asked = found, {}, {}, False

    async def previous_run(self, previous):
        return self.found

    async def begin(self, suspects, calls):
        self.ends = dict(suspects)

    def enter(self, delivery, conversation):
        self.running[delivery] = delivery
        return delivery

    def leave(self, slot):
        del self.running[slot]

    def acquit(self, delivery):
        self.ends.pop(delivery)

    def end(self):
        self.asked = True


@pytest.fixture
async def left_engine():
    """An engine with three unfinished messages, as a dead server left it."""
    engine = MemoryEngine()
    async with desk((listener("a", concurrency=3), hang_forever), engine=engine, drain=0.0) as d:
        for text in "xyz":
            await d.send(await d.open(), Ask(text))
        await wait_until(lambda: len(d.records) == 6)
    queued = [t.inbox[0].id for c in engine._conversations.values() for t in c.tree.nodes.values() if t.inbox]
    assert len(queued) == 3
    return engine, queued


@pytest.mark.anyio
async def test_suspects_run_alone_and_before_everything_else(left_engine):
    engine, queued = left_engine
    engine.marks = marks = NotedMarks(past_run(*queued[1:]))
    order = []

    async def look_at_call(payload, metadata):
        order.append((payload.text, set(marks.running), set(marks.ends)))
        return await answer(payload, metadata)

    async with desk((listener("a", concurrency=3), look_at_call), engine=engine) as d:
        assert await d.ask(Ask("new")) == Answer("re: new")
        await wait_until(lambda: len(order) == 4 and not marks.running)
    second, third = queued[1:]
    assert order[:2] == [("y", {second}, {second, third}), ("z", {third}, {third})]
    assert {text for text, _, _ in order[2:]} == {"x", "new"}
    assert marks.ends == {}


@pytest.mark.anyio
async def test_a_delivery_that_ended_the_process_too_often_is_a_dead_letter(left_engine):
    engine, queued = left_engine
    engine.marks = NotedMarks(past_run(queued[0], **{queued[0]: 2}))
    async with desk((listener("a", concurrency=3), answer), engine=engine) as d:
        await wait_until(lambda: d.pump._accounts.idle.is_set())
    failed = [record for record in d.records if record.event is Event.FAILED]
    assert [(record.delivery, record.code) for record in failed] == [(queued[0], "internal")]
    assert len([record for record in d.records if record.event is Event.HANDLED]) == 2


@pytest.mark.anyio
async def test_a_stop_acquits_nobody(left_engine):
    engine, queued = left_engine
    engine.marks = marks = NotedMarks(past_run(*queued))
    async with desk((listener("a", concurrency=3), hang_forever), engine=engine, drain=0.0):
        await wait_until(lambda: marks.running)
    assert set(marks.ends) == set(queued)
    assert marks.asked


class Ward:
    """A probation, and the deliveries that it has passed on."""

    def __init__(self):
        self.ran, self.given, self.pasts, self.acquitted = [], {}, {}, []
        self.probation = Probation(self, self.hand_on)

    def hand_on(self, ticket):
        self.ran.append(ticket.delivery.id)
        self.given[ticket.delivery.id] = ticket.delivery

    async def previous_run(self, previous):
        return self.pasts.get(previous, NO_PREVIOUS_RUN)

    async def begin(self, suspects, calls):
        self.begun = dict(suspects)

    def acquit(self, delivery):
        self.acquitted.append(delivery)

    async def gain(self, previous, running, *queued):
        self.pasts[previous] = past_run(*running)
        verdict = await self.probation.look(previous, queued, 3, 9, starting=False)
        dead, rest = self.probation.begin(verdict, [ticket(key) for key in queued])
        for one in rest:
            self.probation.put(one)
        return [one.delivery.id for one in dead]

    def done(self, key):
        self.probation.finish(self.given[key])


def ticket(key):
    return Ticket("p", Delivery(key, key[0], "r", "t", "t", "console", "a", "x", b"", 1))


@pytest.mark.anyio
async def test_newly_claimed_suspects_wait_for_running_work_and_hold_later_work():
    ward = Ward()
    await ward.gain(1, (), "a1", "b1")
    assert ward.ran == ["a1", "b1"]
    await ward.gain(2, ("c1", "d1"), "c1", "d1", "e1")
    ward.probation.put(ticket("f1"))
    assert ward.ran == ["a1", "b1"]
    ward.done("a1")
    assert ward.ran == ["a1", "b1"]
    ward.done("b1")
    assert ward.ran == ["a1", "b1", "c1"]
    ward.done("c1")
    assert ward.ran == ["a1", "b1", "c1", "d1"]
    ward.done("d1")
    assert ward.ran[4:] == ["e1", "f1"]
    assert ward.acquitted == ["c1", "d1"]
    assert ward.begun == {"c1": 0, "d1": 0}


@pytest.mark.anyio
async def test_suspects_of_two_servers_run_one_after_the_other():
    ward = Ward()
    await ward.gain(1, ("a1",), "a1", "b1")
    await ward.gain(2, ("c1",), "c1", "d1")
    assert ward.ran == ["a1"]
    ward.done("a1")
    assert ward.ran == ["a1", "c1"]
    ward.done("c1")
    assert ward.ran == ["a1", "c1", "b1", "d1"]


@pytest.mark.anyio
async def test_a_lost_suspect_blocks_nothing():
    ward = Ward()
    await ward.gain(1, ("a1",), "a1", "b1")
    await ward.gain(2, ("c1",), "c1", "d1")
    ward.probation.drop({"a", "b"})
    assert ward.ran == ["a1", "c1"]
    ward.probation.drop({"c"})
    assert ward.ran == ["a1", "c1", "d1"]
    ward.done("a1")
    ward.probation.put(ticket("e1"))
    assert ward.ran == ["a1", "c1", "d1", "e1"]
    assert ward.acquitted == []


@pytest.mark.anyio
async def test_one_that_was_lost_and_is_back_is_not_done_when_the_worker_that_had_it_before_ends():
    ward = Ward()
    await ward.gain(1, ("a1",), "a1", "b1")
    before = ward.given["a1"]
    ward.probation.drop({"a", "b"})
    await ward.gain(1, ("a1",), "a1", "b1")
    ward.probation.finish(before)
    assert (ward.ran, ward.acquitted) == (["a1", "a1"], [])
    ward.done("a1")
    assert (ward.ran, ward.acquitted) == (["a1", "a1", "b1"], ["a1"])


@pytest.mark.anyio
async def test_a_stopped_suspect_blocks_nothing_and_acquits_no_other():
    ward = Ward()
    await ward.gain(1, (), "a1", "b1")
    await ward.gain(2, ("c1", "d1"), "c1", "d1")
    ward.probation.withdraw(ward.given["a1"])
    ward.done("b1")
    assert ward.ran == ["a1", "b1", "c1"]
    ward.probation.withdraw(ward.given["c1"])
    ward.probation.withdraw(ward.given["c1"])
    assert (ward.ran[3:], ward.acquitted) == (["d1"], [])


@pytest.mark.anyio
async def test_a_gained_delivery_runs_only_after_it_is_known_to_be_stored():
    ward = Ward()
    ward.pasts[1] = past_run("a1")
    verdict = await ward.probation.look(1, ("a1", "b1"), 3, 9, starting=False)
    ward.probation.put(ticket("c1"))
    assert (verdict.isolated, ward.ran) == (("a1",), ["c1"])


@pytest.mark.anyio
async def test_a_suspect_that_ran_with_others_of_its_server_is_no_culprit_in_any_conversation():
    ward = Ward()
    for _ in range(5):
        assert await ward.gain(1, ("a1", "z9"), "a1") == []
        assert ward.begun == {"a1": 0}
        ward.done("a1")
