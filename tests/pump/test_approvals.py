"""Messages that wait for a person while the pump runs, stops and starts again."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio
import pytest

from agentserver.contract import Code
from agentserver.core.blueprint import ApprovalRule
from agentserver.core.decide import answers
from agentserver.core.messages import Done, Reply
from agentserver.core.records.audit import Event
from agentserver.core.records.wording import WORDING
from agentserver.core.state.approvals import Answer as Said
from agentserver.core.state.approvals import ApprovalAnswer
from agentserver.engines.journal.records import put_answer
from agentserver.engines.sqlite import maintenance as journal_answers
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions
from agentserver.guards.builtin import ApprovalGuard, PeersGuard
from agentserver.ports import EngineError
from agentserver.pump import approvals as waiting
from agentserver.pump.pump import PumpHooks
from agentserver.testing import FakeClock
from tests.core.paper import Answer, Ask, listener
from tests.machine import HANGS
from tests.pump.desk import GatedEngine, Person, answer, desk, hang_forever, pass_to_sink, wait_until

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def naps(monkeypatch):
    """The clock of these tests is set, not waited for: it is looked at often."""
    monkeypatch.setattr(waiting, "LONGEST_NAP", 0.002)
    monkeypatch.setattr(waiting, "ANSWERS_NAP", 0.002)


def answer_approval(approval, said, /, **changed):
    return ApprovalAnswer(approval.id, approval.digest, said, "somebody")._replace(**changed)


@asynccontextmanager
async def shop(person=None, sink=answer, answers=None, rule=None, **more):
    """``a`` passes everything on to ``sink``, which wants an approval; ``b`` answers at once."""
    listeners = (
        (listener("a", "sink"), pass_to_sink),
        (replace(listener("sink"), approval=rule), sink),
        (listener("b"), answer),
    )
    guards = [PeersGuard(), ApprovalGuard({"sink": {}})]
    async with desk(*listeners, guards=guards, people=PumpHooks(None, person, answers), **more) as d:
        yield d


async def waits(d, number=1):
    await wait_until(lambda: len(d.pump.approvals()) == number)
    return d.pump.approvals()


async def ask_in_background(d, tasks, text="hi", handle=None):
    """Ask in the background; gives the list in which the answer will be."""
    found = []

    async def one():
        found.append(await d.ask(Ask(text), handle=handle))

    tasks.start_soon(one)
    return found


async def say(d, approval, said, /, **changed):
    return await d.pump.answer(approval.delivery.conversation, answer_approval(approval, said, **changed))


@pytest.mark.parametrize(
    ("said", "told"),
    [(Said.ONCE, "told: re: hi"), (Said.ALWAYS, "told: re: hi"), (Said.DENY, "told: denied")],
)
async def test_it_waits_until_a_person_answers(said, told):
    person = Person()
    async with shop(person) as d, anyio.create_task_group() as tasks:
        found = await ask_in_background(d, tasks)
        (approval,) = await waits(d)
        assert person.shown == [approval]
        assert found == []
        assert await say(d, approval, said)
        await wait_until(lambda: found)
        assert found == [Answer(told)]
        assert d.pump.approvals() == ()
        assert not await say(d, approval, said), "an answer is spent once"


async def test_a_message_without_a_possible_approver_is_denied_at_once():
    async with shop() as d:
        assert await d.ask(Ask("hi")) == Answer("told: denied")
        withdrawn = next(record for record in d.records if record.event is Event.WITHDRAWN)
        assert WORDING.join_lines(withdrawn.detail) == "denied: nobody is there to ask"


async def test_an_expired_question_is_denied():
    clock = FakeClock(step=0.0)
    async with shop(Person(), clock=clock, approval=3600.0) as d, anyio.create_task_group() as tasks:
        found = await ask_in_background(d, tasks)
        await waits(d)
        clock.advance(3599.0)
        await asyncio.sleep(0.02)
        assert found == []
        clock.advance(1.0)
        await wait_until(lambda: found)
        assert found == [Answer("told: denied")]
        withdrawn = next(record for record in d.records if record.event is Event.WITHDRAWN)
        assert WORDING.join_lines(withdrawn.detail) == "denied: no answer in time"


async def test_each_has_a_time_of_its_own():
    clock = FakeClock(step=0.0)
    async with shop(Person(), clock=clock, approval=10.0) as d, anyio.create_task_group() as tasks:
        first = await ask_in_background(d, tasks, "first")
        await waits(d)
        clock.advance(9.0)
        second = await ask_in_background(d, tasks, "second")
        await waits(d, 2)
        clock.advance(1.0)
        await wait_until(lambda: first)
        (approval,) = d.pump.approvals()
        assert second == []
        assert await say(d, approval, Said.ONCE)
    assert second == [Answer("told: re: second")]


async def test_a_listener_has_a_time_and_approvers_of_its_own():
    clock = FakeClock(step=0.0)
    rule = ApprovalRule(approvers="others", within=20.0)
    async with shop(Person(), clock=clock, rule=rule, approval=10.0) as d, anyio.create_task_group() as tasks:
        found = await ask_in_background(d, tasks)
        (approval,) = await waits(d)
        assert not await say(d, approval, Said.ONCE, by="console")
        clock.advance(19.0)
        await asyncio.sleep(0.02)
        assert found == []
        clock.advance(1.0)
        await wait_until(lambda: found)
        assert found == [Answer("told: denied")]


async def test_it_goes_with_its_conversation():
    async with shop(Person()) as d, anyio.create_task_group() as tasks:
        handle = await d.open()
        found = await ask_in_background(d, tasks, handle=handle)
        (approval,) = await waits(d)
        await handle.close()
        await wait_until(lambda: found)
        assert found == [None]
        assert d.pump.approvals() == ()
        assert not await say(d, approval, Said.ONCE)
        assert d.pump._accounts.pending == 0


async def test_a_graceful_stop_does_not_wait_for_a_person():
    async with shop(Person(), drain=600.0) as d:  # the desk has not that much time
        await d.send(await d.open(), Ask("hi"))
        await waits(d)


async def test_the_bound_of_the_queue_does_not_count_pending_approvals():
    async with shop(Person(), queue=2) as d:
        handle = await d.open()
        for number in range(5):
            await d.send(handle, Ask(str(number)))
            await waits(d, number + 1)
        assert await d.ask(Ask("x"), to="b") == Answer("re: x")
        assert d.pump._accounts.pending == 0


async def test_an_approved_message_counts_again():
    async with shop(Person(), sink=hang_forever, queue=1, drain=0.0) as d:
        await d.send(await d.open(), Ask("hi"))
        (approval,) = await waits(d)
        assert await say(d, approval, Said.ONCE)
        assert (await d.ask(Ask("x"), to="b")).code is Code.BUSY


async def test_two_at_once_never_mix():
    async with shop(Person()) as d, anyio.create_task_group() as tasks:
        one, two = await ask_in_background(d, tasks, "same"), await ask_in_background(d, tasks, "same")
        first, second = await waits(d, 2)
        assert not await say(d, first, Said.ONCE, digest=second.digest), "shown the other one"
        assert not await d.pump.answer(second.delivery.conversation, answer_approval(first, Said.ONCE))
        assert len(d.pump.approvals()) == 2
        await say(d, first, Said.ONCE)
        await say(d, second, Said.DENY)
        await wait_until(lambda: one and two)
        assert {one[0].text, two[0].text} == {"told: re: same", "told: denied"}


async def test_an_idle_conversation_is_not_closed_over_a_question():
    clock = FakeClock(step=0.0)
    async with shop(Person(), clock=clock, idle=0.02) as d:
        await d.send(await d.open(), Ask("hi"))
        (approval,) = await waits(d)
        clock.advance(1.0)
        await asyncio.sleep(0.1)
        assert await say(d, approval, Said.DENY)


# Across a restart


async def left_waiting(place, clock=None, **more):
    async with (
        SqliteEngine(place, [ApprovalGuard({})]) as engine,
        shop(Person(), engine=engine, clock=clock, **more) as d,
    ):
        handle = await d.open()
        await d.send(handle, Ask("hi"))
        (approval,) = await waits(d)
    return handle.id, approval


async def test_a_restart_shows_the_question_again_and_the_message_continues(tmp_path):
    place, person = JournalOptions(tmp_path / "j"), Person()
    key, approval = await left_waiting(place)
    async with SqliteEngine(place, [ApprovalGuard({})]) as engine, shop(person, engine=engine) as d:
        assert person.shown == [approval]
        assert d.pump._accounts.pending == 0
        assert await say(d, approval, Said.ALWAYS)
        await wait_until(
            lambda: d.pump._accounts.pending == 0 and any(r.event is Event.ANSWERED for r in d.records)
        )
        handle = await d.pump.resume("console", key)
        reply, done = handle.iter_waiting()
        assert (d.decode(reply), type(done)) == (Answer("told: re: hi"), Done)
        assert isinstance(reply, Reply)
        handle.detach()
    async with SqliteEngine(place, [ApprovalGuard({})]) as engine, shop(Person(), engine=engine) as d:
        handle = await d.pump.resume("console", key)
        assert await d.ask(Ask("hi"), handle=handle) == Answer("told: re: hi"), "it was approved for good"


async def test_its_time_counts_from_when_it_was_first_asked(tmp_path):
    place, clock = JournalOptions(tmp_path / "j"), FakeClock(step=0.0)
    key, _ = await left_waiting(place, clock, approval=10.0)
    later = FakeClock(clock.now + 9.0, step=0.0, count=1000)
    async with (
        SqliteEngine(place) as engine,
        shop(Person(), engine=engine, clock=later, approval=10.0) as d,
    ):
        await asyncio.sleep(0.02)
        assert len(d.pump.approvals()) == 1
        later.advance(1.0)
        await wait_until(lambda: any(r.event is Event.ANSWERED for r in d.records))
        reply, _ = (await d.pump.resume("console", key)).iter_waiting()
        assert d.decode(reply) == Answer("told: denied")


async def test_a_restart_without_anybody_to_ask_denies_it(tmp_path):
    place = JournalOptions(tmp_path / "j")
    await left_waiting(place)
    async with SqliteEngine(place) as engine, shop(engine=engine) as d:
        await wait_until(lambda: any(r.event is Event.WITHDRAWN for r in d.records))


# Answers that are left in the journal


async def leave(place, said, at):
    """What another process does."""
    return await anyio.to_thread.run_sync(
        journal_answers.leave, place.path, lambda connection: put_answer(connection, said, at)
    )


@pytest.mark.parametrize(("said", "told"), [(Said.ONCE, "told: re: hi"), (Said.DENY, "told: denied")])
async def test_an_answer_that_is_left_in_the_journal_is_taken(tmp_path, said, told):
    place = JournalOptions(tmp_path / "j")
    async with (
        SqliteEngine(place, [ApprovalGuard({})]) as engine,
        shop(engine=engine, answers=engine.answers) as d,
        anyio.create_task_group() as tasks,
    ):
        found = await ask_in_background(d, tasks)
        (approval,) = await waits(d)
        assert await leave(place, answer_approval(approval, said), time.time())
        await wait_until(lambda: found)
        assert found == [Answer(told)]
        assert any(
            "somebody" in WORDING.join_lines(r.detail)
            for r in d.records
            if r.event in {Event.APPROVED, Event.WITHDRAWN}
        )
        with anyio.fail_after(HANGS):
            while await engine.answers.list_pending():  # noqa: ASYNC110 - another process would look at the file too
                await asyncio.sleep(0.002)


async def test_an_answer_that_was_left_in_time_counts_though_no_server_ran(tmp_path):
    place, clock = JournalOptions(tmp_path / "j"), FakeClock(step=0.0)
    _, approval = await left_waiting(place, clock, approval=10.0)
    assert await leave(place, answer_approval(approval, Said.ONCE), clock.now + 9.0)
    later = FakeClock(clock.now + 100.0, step=0.0, count=1000)
    async with (
        SqliteEngine(place) as engine,
        shop(engine=engine, answers=engine.answers, clock=later, approval=10.0) as d,
    ):
        await wait_until(lambda: any(r.event is Event.ANSWERED for r in d.records))
        assert any(r.event is Event.APPROVED for r in d.records)


@pytest.mark.parametrize(
    ("changed", "after"), [({}, 11.0), ({"digest": "0" * 64}, 1.0), ({"approval": "another"}, 1.0)]
)
async def test_an_answer_that_counts_for_nothing_is_dropped(tmp_path, changed, after):
    place, clock = JournalOptions(tmp_path / "j"), FakeClock(step=0.0)
    _, approval = await left_waiting(place, clock, approval=10.0)
    await leave(place, answer_approval(approval, Said.ONCE, **changed), clock.now + after)
    later = FakeClock(clock.now + 100.0, step=0.0, count=1000)
    async with (
        SqliteEngine(place) as engine,
        shop(engine=engine, answers=engine.answers, clock=later, approval=10.0) as d,
    ):
        await wait_until(lambda: any(r.event is Event.WITHDRAWN for r in d.records))
        assert not any(r.event is Event.APPROVED for r in d.records)
        assert await engine.answers.list_pending() == []


async def test_answers_are_dropped_when_nothing_waits(tmp_path):
    place = JournalOptions(tmp_path / "j")
    async with SqliteEngine(place):
        pass
    await leave(place, ApprovalAnswer("gone", "", Said.ONCE, "x"), 1.0)
    async with SqliteEngine(place) as engine, shop(engine=engine, answers=engine.answers):
        with anyio.fail_after(HANGS):
            while await engine.answers.list_pending():  # noqa: ASYNC110 - another process would look at the file too
                await asyncio.sleep(0.002)


class Unreadable:
    async def list_pending(self):
        raise EngineError("the disk cannot be read")

    list_verdicts = list_pending


async def test_answers_that_cannot_be_read_do_not_stop_the_pump(caplog):
    clock = FakeClock(step=0.0)
    async with (
        shop(answers=Unreadable(), clock=clock, approval=10.0) as d,
        anyio.create_task_group() as tasks,
    ):
        found = await ask_in_background(d, tasks)
        await waits(d)
        clock.advance(10.0)
        await wait_until(lambda: found)
        assert found == [Answer("told: denied")]
    assert "answers cannot be read at present" in caplog.text


@pytest.mark.parametrize("said", [Said.ONCE, Said.ALWAYS])
async def test_an_answer_that_cannot_be_carried_out_is_a_denial(said, monkeypatch, caplog):
    def raise_bug(*_):
        raise LookupError("a bug of ours")

    monkeypatch.setattr(answers.Step, "approve", raise_bug)
    async with shop(Person()) as d, anyio.create_task_group() as tasks:
        found = await ask_in_background(d, tasks)
        (approval,) = await waits(d)
        assert await say(d, approval, said)
        await wait_until(lambda: found)
        assert found == [Answer("told: denied")]
        assert d.pump.approvals() == ()
    assert "a bug of ours" in caplog.text


async def test_an_approver_that_raises_harms_nobody(caplog):
    class Clumsy:
        def show(self, approval):
            raise LookupError("a bug of ours")

    async with shop(Clumsy()) as d, anyio.create_task_group() as tasks:
        found = await ask_in_background(d, tasks)
        (approval,) = await waits(d)
        assert await say(d, approval, Said.ONCE)
        await wait_until(lambda: found)
        assert found == [Answer("told: re: hi")]
    assert "a bug of ours" in caplog.text


async def test_a_person_who_is_cut_off_while_the_answer_is_committed_has_answered():
    engine = GatedEngine()
    async with shop(Person(), engine=engine) as d, anyio.create_task_group() as tasks:
        found = await ask_in_background(d, tasks)
        (approval,) = await waits(d)
        engine.shut()
        task = asyncio.create_task(say(d, approval, Said.ONCE))
        await engine.committing.wait()
        task.cancel()
        await asyncio.sleep(0)
        engine.gate.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        await wait_until(lambda: found)
        assert d.pump.approvals() == ()
