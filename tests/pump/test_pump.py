from __future__ import annotations

import asyncio
import logging

import anyio
import pytest

from agentserver import HandlerResponse, SystemError, get_todo_registry, invocation
from agentserver.core.messages import Done, Reply
from agentserver.core.records.audit import Event
from agentserver.core.records.wording import WORDING
from agentserver.engines.memory import MemoryEngine
from agentserver.ports import ConflictError, RejectReason
from agentserver.testing import FakeClock
from tests.core.paper import Answer, Ask, Note, listener
from tests.pump.desk import answer, desk, wait_until

pytestmark = pytest.mark.anyio
respond = HandlerResponse.respond


async def test_a_message_goes_in_and_its_answer_comes_out():
    async with desk((listener("a"), answer)) as d:
        assert await d.ask(Ask("hi")) == Answer("re: hi")


async def test_many_conversations_at_once_get_their_own_answers():
    async def a(payload, metadata):
        return HandlerResponse(payload, "b") if isinstance(payload, Ask) else respond(payload)

    async with desk((listener("a", "b"), a), (listener("b"), answer)) as d:
        got = {}

        async def one(number):
            got[number] = await d.ask(Ask(str(number)))

        async with anyio.create_task_group() as tasks:
            for number in range(100):
                tasks.start_soon(one, number)
        assert got == {n: Answer(f"re: {n}") for n in range(100)}


async def test_a_request_that_ends_unanswered_is_reported():
    async def silent(payload, metadata):
        return None

    async with desk((listener("a"), silent)) as d:
        assert await d.ask(Ask("hi")) is None


async def test_all_replies_of_a_request_stream_in():
    async def answer_twice(payload, metadata):
        return [respond(Answer("1")), respond(Answer("2"))]

    async with desk((listener("a"), answer_twice)) as d:
        handle = await d.open()
        assert [d.decode(r) async for r in handle.replies(d.markup(Ask("x")), "a")] == [
            Answer("1"),
            Answer("2"),
        ]


async def test_events_carry_sent_messages_and_end_with_the_conversation():
    async with desk((listener("a"), answer)) as d:
        handle = await d.open()
        events = handle.events()
        seen = []

        async def watch():
            seen.extend([event async for event in events])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            await asyncio.sleep(0)
            request = (await handle.send(d.markup(Ask("hi")), "a")).request
            await wait_until(lambda: len(seen) == 2 or d.pump._accounts.pending == 0)
            await handle.close()
        assert [type(event) for event in seen] == [Reply, Done]
        assert {event.request for event in seen} == {request}
        assert [event async for event in handle.events()] == []


async def test_deadline_ends_a_handler_and_tells_its_caller():
    ended = []

    async def slow(payload, metadata):
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(True)

    async with desk((listener("a", deadline=0.01), slow)) as d:
        assert (await d.ask(Ask("hi"))).code == "timeout"
        assert ended == [True]


async def test_a_handler_that_shrugs_off_its_deadline_is_late_all_the_same():
    async def stubborn(payload, metadata):
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            return respond(Answer("too late"))

    async with desk((listener("a", deadline=0.01), stubborn)) as d:
        assert (await d.ask(Ask("hi"))).code == "timeout"


async def test_a_crash_tells_the_caller_and_the_log_has_it_all(caplog):
    async def crash(payload, metadata):
        raise KeyError("secret")

    async with desk((listener("a"), crash)) as d:
        reply = await d.ask(Ask("hi"))
        assert isinstance(reply, SystemError)
        assert reply.code == "internal"
        assert "secret" not in reply.message
    assert "secret" in caplog.text


@pytest.mark.parametrize("error", [asyncio.CancelledError, lambda: ExceptionGroup("g", [ValueError("x")])])
async def test_whatever_a_handler_raises_the_workers_live_on(error):
    async def crash(payload, metadata):
        raise error()

    async with desk((listener("a"), crash), concurrency=1) as d:
        for _ in range(3):
            assert (await d.ask(Ask("hi"))).code == "internal"


async def test_a_failed_invocation_is_repeated_on_the_same_thread_with_its_key():
    seen = []

    async def flaky(payload, metadata):
        seen.append((metadata.thread_id, invocation().idempotency_key, invocation().attempt))
        if len(seen) < 3:
            raise ValueError
        return respond(Answer("ok"))

    async with desk((listener("a", retries=2), flaky)) as d:
        assert await d.ask(Ask("hi")) == Answer("ok")
    assert [attempt for *_, attempt in seen] == [0, 1, 2]
    assert len({(thread, key) for thread, key, _ in seen}) == 1


async def test_closing_a_conversation_stops_its_running_work():
    started, stopped = anyio.Event(), anyio.Event()

    async def slow(payload, metadata):
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            stopped.set()

    async with desk((listener("a"), slow)) as d:
        handle = await d.open()
        await handle.send(d.markup(Ask("hi")), "a")
        await started.wait()
        await handle.close()
        await stopped.wait()
        assert d.pump.conversation(handle.id) is None
        assert (await handle.send(d.markup(Ask("hi")), "a")).code is RejectReason.OVER
        await handle.close()
        assert d.pump._accounts.pending == 0


async def test_respond_cancels_the_running_handlers_of_sub_threads():
    started, cancelled = anyio.Event(), anyio.Event()

    async def a(payload, metadata):
        if isinstance(payload, Ask):
            return [HandlerResponse(Ask("x"), "slow"), HandlerResponse(Ask("y"), "quick")]
        return respond(Answer("done"))

    async def slow(payload, metadata):
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()

    async def quick(payload, metadata):
        await started.wait()
        return respond(Answer("quick"))

    async with desk(
        (listener("a", "slow", "quick"), a), (listener("slow"), slow), (listener("quick"), quick)
    ) as d:
        assert await d.ask(Ask("hi")) == Answer("done")
        await cancelled.wait()
        await wait_until(lambda: d.pump._accounts.pending == 0)


class Crowd:
    """A handler that notes how many of it run at once. The first wait until so many do."""

    def __init__(self, enough):
        self.enough, self.full = enough, anyio.Event()
        self.running = self.most = 0

    async def __call__(self, payload, metadata):
        self.running += 1
        self.most = max(self.most, self.running)
        if self.running == self.enough:
            self.full.set()
        await self.full.wait()
        await asyncio.sleep(0.001)
        self.running -= 1
        return respond(Answer("x"))


async def test_a_listeners_concurrency_stays_within_its_limit():
    crowd = Crowd(3)
    async with desk((listener("a", concurrency=3), crowd)) as d, anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(d.ask, Ask("x"))
    assert crowd.most == 3


async def test_the_servers_concurrency_stays_within_its_limit():
    crowd = Crowd(2)
    async with (
        desk((listener("a"), crowd), (listener("b"), crowd), concurrency=2) as d,
        anyio.create_task_group() as tasks,
    ):
        for number in range(20):
            tasks.start_soon(d.ask, Ask("x"), "ab"[number % 2])
    assert crowd.most == 2


async def test_beyond_its_queue_the_server_is_busy_and_says_so():
    gate = anyio.Event()

    async def work(payload, metadata):
        await gate.wait()
        return respond(Answer("x"))

    async with desk((listener("a", concurrency=1), work), queue=3) as d:
        results = []

        async def one():
            results.append(await d.ask(Ask("x")))

        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(one)
            await wait_until(lambda: len(results) == 5)
            assert {reply.code for reply in results} == {"busy"}
            gate.set()
        assert results[5:] == [Answer("x")] * 3


async def test_stopping_drains_unfinished_work():
    gate = anyio.Event()
    done = []

    async def work(payload, metadata):
        await gate.wait()
        done.append(payload)
        return respond(Answer("x"))

    async with desk((listener("a"), work)) as d:
        handle = await d.open()
        await handle.send(d.markup(Ask("1")), "a")
        asyncio.get_running_loop().call_later(0.01, gate.set)
    assert done == [Ask("1")]
    assert (await handle.send(d.markup(Ask("2")), "a")).code is RejectReason.STOPPING


async def test_work_that_overruns_the_drain_is_cancelled_and_nobody_waits():
    async def work(payload, metadata):
        await anyio.sleep_forever()

    answers = []
    async with anyio.create_task_group() as tasks, desk((listener("a"), work), drain=0.01) as d:

        async def one():
            answers.append(await d.ask(Ask("x")))

        tasks.start_soon(one)
        await wait_until(lambda: d.pump._accounts.pending == 1)
    assert answers == [None]


async def test_cancelling_the_server_stops_at_once_without_draining():
    started = anyio.Event()

    async def work(payload, metadata):
        started.set()
        await anyio.sleep_forever()

    with anyio.CancelScope() as scope:
        async with desk((listener("a"), work), drain=1000.0) as d:
            handle = await d.open()
            await handle.send(d.markup(Ask("1")), "a")
            await started.wait()
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught


async def test_an_idle_conversation_is_closed():
    clock = FakeClock(step=0.0)
    async with desk((listener("a"), answer), clock=clock, idle=0.02) as d:
        handle = await d.open()
        await d.ask(Ask("hi"), handle=handle)
        clock.advance(1.0)
        await wait_until(lambda: d.pump.conversation(handle.id) is None)
        assert any(r.event is Event.CLOSED and WORDING.join_lines(r.detail) == "idle" for r in d.records)


async def test_a_conversation_at_work_is_not_idle():
    gate, clock = anyio.Event(), FakeClock(step=0.0)

    async def slow(payload, metadata):
        clock.advance(1.0)
        await gate.wait()
        return respond(Answer("x"))

    async with desk((listener("a"), slow), clock=clock, idle=0.01) as d:
        handle = await d.open()
        asyncio.get_running_loop().call_later(0.1, gate.set)
        assert await d.ask(Ask("hi"), handle=handle) == Answer("x")


class Contrary(MemoryEngine):
    """Refuses every other commit as if another worker had been quicker."""

    def __init__(self):
        super().__init__()
        self.turn = 0

    async def commit(self, claim, outcome):
        await asyncio.sleep(0)
        self.turn += 1
        if self.turn % 2 and outcome.before:
            raise ConflictError
        await super().commit(claim, outcome)


async def test_a_stale_commit_is_decided_again_without_calling_the_handler_again():
    calls = []

    async def count_call(payload, metadata):
        calls.append(payload)
        return respond(Answer(f"re: {payload.text}"))

    async with desk((listener("a"), count_call), engine=Contrary()) as d:
        handle = await d.open()
        for number in range(5):
            assert await d.ask(Ask(str(number)), handle=handle) == Answer(f"re: {number}")
    assert len(calls) == 5


async def test_stored_work_is_continued_at_the_start():
    engine = MemoryEngine()
    done = []

    async def never_answer(payload, metadata):
        await anyio.sleep_forever()

    async def work(payload, metadata):
        done.append(payload)

    async with desk((listener("a"), never_answer), engine=engine, drain=0.01) as d:
        handle = await d.open()
        await handle.send(d.markup(Ask("left")), "a")
        await asyncio.sleep(0)
    async with desk((listener("a"), work), engine=engine) as d:
        await wait_until(lambda: done)
        await wait_until(lambda: d.pump._accounts.pending == 0)
    assert done == [Ask("left")]


@pytest.mark.parametrize("name", ["a", "system", "system.todo"])
async def test_a_principal_cannot_bear_the_name_of_a_listener(name):
    async with desk((listener("a"), answer)) as d:
        with pytest.raises(ValueError, match="name"):
            await d.pump.open(name)


async def test_deprecated_bytes_are_warned_of_once(caplog):
    async def old(payload, metadata):
        return b'<Answer xmlns="urn:agentserver:payload:Answer:v1"><text>old</text></Answer>'

    async with desk((listener("a"), old)) as d:
        for _ in range(3):
            assert await d.ask(Ask("x")) == Answer("old")
    assert sum("deprecated" in record.message for record in caplog.records) == 1


async def test_the_invocation_has_storage_settings_resources_and_todos_in_reach():
    class Database:
        pass

    seen = {}

    async def a(payload, metadata):
        current = invocation()
        kept = current.storage.get(Note, Note("none"))
        current.storage.set(Note(payload.text))
        seen.update(settings=current.settings, database=current.resource(Database), metadata=current.metadata)
        with pytest.raises(LookupError, match="int"):
            current.resource(int)
        assert get_todo_registry().get_raised_for(metadata.thread_id, None) == ()
        return respond(Answer(kept.text))

    database = Database()
    async with desk((listener("a"), a), resources=("other", database), settings={"k": 1}) as d:
        handle = await d.open()
        assert await d.ask(Ask("1"), handle=handle) == Answer("none")
        assert await d.ask(Ask("2"), handle=handle) == Answer("1")
    assert (seen["settings"], seen["database"]) == ({"k": 1}, database)
    for reach in (invocation, get_todo_registry):
        with pytest.raises(RuntimeError, match="no handler"):
            reach()


async def test_the_log_tells_refusals_with_their_conversation(caplog):
    caplog.set_level(logging.DEBUG, "agentserver")
    async with desk((listener("a"), answer)) as d:
        await d.ask(Ask("x"), to="nobody")
        await d.ask(Ask("x"))
    refused = [r for r in caplog.records if "refused" in r.message]
    assert refused
    assert all(r.conversation for r in refused)


async def test_events_count_from_the_call_not_from_the_first_reading():
    async with desk((listener("a"), answer)) as d:
        handle = await d.open()
        events = handle.events()
        await handle.send(d.markup(Ask("hi")), "a")
        await wait_until(lambda: d.pump._accounts.pending == 0)
        assert isinstance(await anext(events), Reply)
        assert isinstance(await anext(events), Done)
