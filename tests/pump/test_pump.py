from __future__ import annotations

import asyncio
import logging

import anyio
import pytest

from agentserver import HandlerResponse, get_todo_registry, invocation
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


@pytest.mark.parametrize("name", ["a", "system", "System.todo", "", "two\nlines", "x" * 257])
async def test_a_principal_has_a_name_that_an_envelope_can_carry_and_that_is_nobody_elses(name):
    async with desk((listener("a"), answer)) as d:
        with pytest.raises(ValueError):
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
