"""Failures under and around the pump: nobody waits forever, nothing is half done."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from agentserver import HandlerResponse
from agentserver.core.records.audit import Event
from agentserver.engines.memory import MemoryEngine
from agentserver.ports import ConflictError, NotStoredError, RejectReason
from agentserver.pump.boundary import STREAK
from agentserver.testing import FakeClock
from tests.core.paper import Answer, Ask, listener
from tests.machine import HANGS
from tests.pump.desk import FullEngine, GatedEngine, answer, desk, wait_until

pytestmark = pytest.mark.anyio
respond = HandlerResponse.respond


async def test_a_handlers_effects_wait_until_the_engine_can_store_them(caplog):
    engine, calls = FullEngine(), []

    async def fill_storage(payload, metadata):
        calls.append(payload)
        engine.full = True
        return respond(Answer("kept"))

    async with desk((listener("a"), fill_storage), engine=engine) as d, anyio.create_task_group() as tasks:
        answers = []

        async def one():
            answers.append(await d.ask(Ask("x")))

        tasks.start_soon(one)
        await wait_until(lambda: "waits until it can be kept" in caplog.text)
        assert answers == []
        engine.full = False
        await wait_until(lambda: answers)
    assert (answers, calls) == ([Answer("kept")], [Ask("x")])


class BrokenEngine(MemoryEngine):
    """Has a bug that shows at every commit once it is set off."""

    broken = False

    async def commit(self, claim, outcome):
        if self.broken:
            raise ZeroDivisionError
        await super().commit(claim, outcome)


async def test_an_engine_that_cannot_keep_anything_of_a_conversation_suspends_it():
    engine = BrokenEngine()

    async def break_engine(payload, metadata):
        engine.broken = True
        return respond(Answer("lost"))

    async with desk((listener("a"), break_engine), (listener("b"), answer), engine=engine) as d:
        handle = await d.open()
        assert (await d.ask(Ask("x"), handle=handle)).code == "internal"
        engine.broken = False
        assert await engine.load(handle.id) is None
        assert d.pump.conversation(handle.id) is None
        assert await d.ask(Ask("x"), to="b") == Answer("re: x")
        assert d.pump._accounts.pending == 0


async def test_an_engine_that_cannot_keep_anything_at_all_stops_the_server_at_once_and_lets_everybody_go():
    engine, answers, after, full = BrokenEngine(), [], [], anyio.Event()

    async def break_engine(payload, metadata):
        await full.wait()
        engine.broken = True
        return respond(Answer("lost"))

    async def one(d):
        answers.append(await d.ask(Ask("x")))

    with pytest.raises(ExceptionGroup) as caught:
        async with (
            anyio.create_task_group() as tasks,
            desk((listener("a"), break_engine), engine=engine, drain=1000.0) as d,
        ):
            for _ in range(2 * STREAK):
                tasks.start_soon(one, d)
            await wait_until(lambda: d.pump._accounts.pending == 2 * STREAK)
            full.set()
            await anyio.sleep(HANGS)
            after.append("still running")
    assert caught.group_contains(ZeroDivisionError)
    assert (len(answers), after) == (2 * STREAK, [])
    assert len(engine._conversations) > STREAK


async def test_a_bug_under_a_gateway_ends_its_conversation_only():
    engine = BrokenEngine()
    async with desk((listener("a"), answer), engine=engine) as d:
        handle = await d.open()
        engine.broken = True
        with pytest.raises(NotStoredError, match="ended"):
            await d.ask(Ask("1"), handle=handle)
        engine.broken = False
        assert await d.ask(Ask("2")) == Answer("re: 2")
        assert d.pump._accounts.pending == 0


async def test_an_engine_that_fails_under_a_gateway_fails_its_call_only():
    engine = FullEngine()
    async with desk((listener("a"), answer), engine=engine) as d:
        handle = await d.open()
        for _ in range(2):
            engine.full = True
            with pytest.raises(NotStoredError, match="cannot keep"):
                await d.ask(Ask("1"), handle=handle)
            engine.full = False
            assert await d.ask(Ask("2"), handle=handle) == Answer("re: 2")
        assert d.pump._accounts.pending == 0
        assert d.pump.conversation(handle.id) == await engine.load(handle.id)


async def test_callers_do_not_wait_for_an_engine_that_cannot_store():
    engine = FullEngine()

    async def fill_storage(payload, metadata):
        engine.full = True
        return respond(Answer("lost"))

    async with desk((listener("a"), fill_storage), engine=engine, drain=0.01) as d:
        handle, other = await d.open(), await d.open()
        await d.send(handle, Ask("1"))
        await wait_until(lambda: engine.full)
        for wait in (handle.close(), other.close(), d.send(handle, Ask("2"))):
            with anyio.move_on_after(0.02) as scope:
                await wait
            assert scope.cancelled_caught
        assert (await other.send(d.markup(Ask("3")), "a")).code is RejectReason.UNKEPT
    assert d.pump._accounts.pending == 1


async def test_a_conversation_that_ended_elsewhere_is_closed_here_too():
    engine = MemoryEngine()
    async with desk((listener("a"), answer), engine=engine) as d:
        handle = await d.open()
        await d.ask(Ask("1"), handle=handle)
        seen = []

        async def watch():
            seen.append([event async for event in handle.events()])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            await asyncio.sleep(0)
            engine._conversations.clear()
            assert (await handle.send(d.markup(Ask("2")), "a")).code is RejectReason.OVER
        assert seen == [[]]
        assert d.pump._handles.handles == {}
        assert d.pump._steps.lock.inside == {}


class Overlap(MemoryEngine):
    """Notices two commits of one conversation under way, and now and then reports a conflict."""

    def __init__(self):
        super().__init__()
        self.busy, self.overlaps, self.turns = set(), 0, 0

    async def commit(self, claim, outcome):
        conversation = outcome.conversation.id
        self.overlaps += conversation in self.busy
        self.busy.add(conversation)
        self.turns += 1
        await asyncio.sleep(0.001 * (self.turns % 3))
        self.busy.discard(conversation)
        if self.turns % 5 == 0 and outcome.before:
            raise ConflictError
        await super().commit(claim, outcome)


async def test_a_conversations_steps_are_decided_and_committed_one_after_the_other():
    engine, calls = Overlap(), []

    async def count_call(payload, metadata):
        calls.append(payload.text)
        return respond(Answer(f"re: {payload.text}"))

    async with desk((listener("a"), count_call), engine=engine) as d:
        handle = await d.open()
        answers = {}

        async def one(number):
            answers[number] = await d.ask(Ask(str(number)), handle=handle)

        async with anyio.create_task_group() as tasks:
            for number in range(30):
                tasks.start_soon(one, number)
        assert answers == {n: Answer(f"re: {n}") for n in range(30)}
        assert sorted(calls) == sorted(map(str, range(30)))
        assert d.pump._accounts.pending == 0
    assert engine.overlaps == 0


async def test_work_continued_after_a_restart_is_fully_counted():
    engine, seen = MemoryEngine(), []

    async def spread_calls(payload, metadata):
        if payload != Ask("start"):
            await anyio.sleep_forever()
        return [HandlerResponse(Ask(str(n)), "b") for n in range(3)]

    async def collect_texts(payload, metadata):
        seen.append(payload.text)

    async with desk(
        (listener("a", "b"), spread_calls), (listener("b"), answer), engine=engine, drain=0.0
    ) as d:
        await d.send(await d.open(), Ask("start"))
        await wait_until(
            lambda: any(
                len(t.inbox) == 3 for c in engine._conversations.values() for t in c.tree.nodes.values()
            )
        )
    async with desk(
        (listener("a", "b"), collect_texts), (listener("b"), answer), engine=engine, drain=5.0
    ) as d:
        assert d.pump._accounts.pending == 3
    assert seen == ["re: 0", "re: 1", "re: 2"]
    assert d.pump._accounts.pending == 0


async def test_a_stored_message_that_became_unreadable_fails_without_a_call():
    engine, called = MemoryEngine(), []

    async def never_answer(payload, metadata):
        await anyio.sleep_forever()

    async def count_payloads(payload, metadata):
        called.append(payload)

    async with desk((listener("a"), never_answer), engine=engine, drain=0.0) as d:
        await d.send(await d.open(), Ask("1"))
    ((name, kept),) = engine._conversations.items()
    (thread,) = (node for node in kept.tree.nodes.values() if node.inbox)
    spoilt = thread._replace(inbox=(thread.inbox[0]._replace(message=b"junk"),))
    tree = kept.tree._replace(nodes={**kept.tree.nodes, thread.id: spoilt})
    engine._conversations[name] = kept._replace(tree=tree)
    async with desk((listener("a"), count_payloads), engine=engine) as d:
        await wait_until(lambda: d.pump._accounts.pending == 0)
        assert [r.code for r in d.records if r.event is Event.FAILED] == ["internal"]
    assert called == []


async def test_stopping_waits_for_a_repetition_that_is_due():
    attempts = []

    async def flaky(payload, metadata):
        attempts.append(payload)
        if len(attempts) == 1:
            raise ValueError
        return respond(Answer("ok"))

    answers = []
    async with anyio.create_task_group() as tasks, desk((listener("a", retries=1), flaky), drain=10.0) as d:

        async def one():
            answers.append(await d.ask(Ask("x")))

        tasks.start_soon(one)
        await wait_until(lambda: attempts)
    assert answers == [Answer("ok")]


async def test_a_repetition_of_a_closed_conversation_does_not_happen():
    attempts, over = [], []

    async def crash(payload, metadata):
        attempts.append(bool(over))
        raise ValueError

    async with desk((listener("a", retries=5), crash)) as d:
        handle = await d.open()
        await d.send(handle, Ask("x"))
        await wait_until(lambda: attempts)
        await handle.close()
        over.append(True)
        assert d.pump._accounts.pending == 0
        await asyncio.sleep(0.15)
    assert not any(attempts)


async def test_interrupting_a_stop_that_drains_stops_at_once():
    begun, stopped = [], []

    async def endless(payload, metadata):
        begun.append(True)
        try:
            await anyio.sleep_forever()
        finally:
            stopped.append(True)

    with anyio.CancelScope() as interrupt:
        async with desk((listener("a"), endless), drain=1000.0) as d:
            handle = await d.open()
            await d.send(handle, Ask("1"))
            await wait_until(lambda: begun)
            interrupt.deadline = anyio.current_time() + 0.5  # the stop is draining by then
    assert interrupt.cancelled_caught
    assert stopped == [True]
    assert [event async for event in handle.events()] == []


class GatedClose(MemoryEngine):
    """Lets nothing be closed until the gate opens."""

    def __init__(self):
        super().__init__()
        self.closing, self.gate = anyio.Event(), anyio.Event()

    async def commit(self, claim, outcome):
        if outcome.conversation.closed:
            self.closing.set()
            await self.gate.wait()
        await super().commit(claim, outcome)


async def test_a_conversation_that_is_used_while_others_are_swept_stays_open():
    engine = GatedClose()
    clock = FakeClock(step=0.0)  # the sweeps come by the machine's time, and what is idle is by this one
    async with desk((listener("a"), answer), engine=engine, clock=clock, idle=0.05) as d:
        first, second = await d.open(), await d.open()
        clock.advance(1.0)
        await engine.closing.wait()
        assert await d.ask(Ask("1"), handle=second) == Answer("re: 1")
        engine.gate.set()
        await wait_until(lambda: d.pump.conversation(first.id) is None)
        assert d.pump.conversation(second.id) is not None
        assert await d.ask(Ask("2"), handle=second) == Answer("re: 2")
        clock.advance(1.0)
        await wait_until(lambda: d.pump.conversation(second.id) is None)
        await wait_until(lambda: d.pump._steps.lock.inside == d.pump._handles.handles == {})


async def test_a_caller_that_asyncio_cancels_during_a_commit_leaves_nothing_accepted_and_unhandled():
    engine, handled = GatedEngine(), []

    async def note_call(payload, metadata):
        handled.append(payload.text)
        return HandlerResponse.respond(Answer("x"))

    async with desk((listener("a"), note_call), engine=engine) as d:
        handle = await d.open()
        engine.shut()
        task = asyncio.create_task(d.ask(Ask("given up"), handle=handle))
        await engine.committing.wait()
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        engine.gate.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await d.ask(Ask("next"), handle=handle) == Answer("x")
        assert handled == ["given up", "next"]


async def test_a_gateway_that_asyncio_cancels_while_it_closes_leaves_nothing_half_closed():
    engine, ended = GatedEngine(), []

    async def wait_cancelled(payload, metadata):
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(payload.text)

    async with desk((listener("a"), wait_cancelled), engine=engine) as d:
        handle = await d.open()
        await d.send(handle, Ask("x"))
        await wait_until(lambda: d.pump._invoker._calls)
        engine.shut()
        task = asyncio.create_task(handle.close())
        await engine.committing.wait()
        task.cancel()
        await asyncio.sleep(0)
        engine.gate.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        await wait_until(lambda: ended)
        assert (engine._conversations, d.pump._live, d.pump._accounts.pending) == ({}, {}, 0)
