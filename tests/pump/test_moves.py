"""Conversations go from one pump to another while both run."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random

import anyio
import pytest

from agentserver import HandlerResponse
from agentserver.core.messages import UNDECIDED, Reply
from agentserver.core.records.audit import Event
from agentserver.engines.conformance.sample import at_work
from agentserver.ports import EngineError, FencedError
from tests.core.paper import Answer, Ask, listener
from tests.engines.together.storage import SharedEngine, Storage
from tests.machine import HANGS
from tests.pump.desk import FullEngine, answer, desk, wait_until

pytestmark = pytest.mark.anyio


class StuckHandler:
    """A handler that waits for a release, and counts the outcomes of its calls."""

    def __init__(self):
        self.began, self.ended, self.cancelled, self.go = 0, 0, 0, asyncio.Event()

    async def __call__(self, payload, metadata):
        self.began += 1
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        self.ended += 1
        return HandlerResponse.respond(Answer(f"first: {payload.text}"))


@asynccontextmanager
async def two(stuck, storage=None, concurrency=1, prompt=True):
    """Two desks on one storage; the first is handling every request."""
    storage, pair = storage or Storage(), listener("a", concurrency=concurrency)
    async with AsyncExitStack() as stack:
        desks = []
        for name, handler in (("a", stuck), ("b", answer)):
            engine = await stack.enter_async_context(storage.engine(name))
            engine.prompt = prompt
            desks.append(await stack.enter_async_context(desk((pair, handler), engine=engine, drain=0.2)))
        yield storage, *desks


def answered_records(desk):
    return [one for one in desk.records if one.event is Event.ANSWERED]


async def test_a_server_that_is_fenced_drops_its_copy_and_its_gateways_hear_of_the_next_one():
    stuck = StuckHandler()
    async with two(stuck) as (storage, one, other):
        handle = await one.open()
        watch = one.pump.entrance.watch(None, handle.id, UNDECIDED)
        asked, seen = [], []
        async with anyio.create_task_group() as tasks:

            async def ask():
                asked.append(await one.ask(Ask("x"), handle=handle))

            async def look():
                seen.append(await anext(watch))

            tasks.start_soon(ask)
            await wait_until(lambda: stuck.began)
            tasks.start_soon(look)
            await asyncio.sleep(0.01)
            storage.move(handle.id, "b")
            await wait_until(lambda: asked and seen and answered_records(other))
        assert (stuck.cancelled, asked) == (1, [Answer("re: x")])
        assert seen[0].request
        await watch.aclose()
        assert not one.pump._live
        assert one.pump._accounts.counts_of("console") == (0, 0, 0)
        assert not [one for one in one.records if one.event is Event.HANDLED]


@pytest.mark.parametrize("prompt", [True, False])
@pytest.mark.parametrize("silent", [True, False])
async def test_a_result_after_the_loss_is_discarded_without_another_decision(silent, prompt):
    stuck = StuckHandler()
    async with two(stuck, prompt=prompt) as (storage, one, other):
        handle = await one.open()
        await one.send(handle, Ask("x"))
        await wait_until(lambda: stuck.began)
        storage.engines["a"].still = silent  # it learns of the loss by its commit alone
        storage.move(handle.id, "b")
        await wait_until(lambda: answered_records(other))
        stuck.go.set()
        await wait_until(lambda: not one.pump._live)
        assert stuck.ended == silent
        assert not storage.queued(handle.id)
        assert [record for record in one.records if record.event is Event.HANDLED] == []
        with pytest.raises(FencedError):
            await one.pump._finder.find(handle.id)


async def test_a_loss_does_not_affect_other_conversations():
    stuck = StuckHandler()
    async with two(stuck, concurrency=20) as (storage, one, _):
        handles = [await one.open() for _ in range(20)]
        for handle in handles:
            await one.send(handle, Ask("x"))
        await wait_until(lambda: stuck.began == 20)
        gone = {handle.id for handle in handles[::4]}
        for key in gone:
            storage.move(key, "b")
        await wait_until(lambda: stuck.cancelled == len(gone))
        assert set(one.pump._live) == {handle.id for handle in handles} - gone
        assert one.pump._accounts.counts_of("console")[2] == 20 - len(gone)
        stuck.go.set()
        await wait_until(lambda: stuck.ended == 20 - len(gone))


async def test_waiting_work_leaves_with_its_conversation_and_frees_its_room():
    stuck = StuckHandler()
    async with two(stuck) as (storage, one, other):
        handles = [await one.open() for _ in range(20)]
        for handle in handles:
            await one.send(handle, Ask("x"))
        await wait_until(lambda: stuck.began)
        for handle in handles:
            storage.move(handle.id, "b")
        await wait_until(lambda: len(answered_records(other)) == 20)
        await wait_until(lambda: one.pump.queues() == {"a": (0, 0)})
        assert (stuck.began, stuck.cancelled) == (1, 1)
        stuck.go.set()
        assert await one.ask(Ask("y"), handle=await one.open()) == Answer("first: y")


async def test_a_conversation_that_is_lost_and_regained_has_each_delivery_run_once_more_and_no_oftener():
    storage, stuck = Storage(), StuckHandler()
    async with storage.engine("a") as engine, storage.engine("b") as other:
        await anext(other.changes())
        pair = listener("a", concurrency=3), stuck
        async with desk(pair, engine=engine, concurrency=3) as one:
            handles = [await one.open() for _ in range(10)]
            for handle in handles:
                await one.send(handle, Ask("x"))
            await wait_until(lambda: stuck.began == 3)
            engine.still = True
            for name in "ba":
                for handle in handles:
                    storage.move(handle.id, name)
            storage.moving("a")
            stuck.go.set()
            await wait_until(lambda: len(answered_records(one)) == 10 and one.pump._accounts.idle.is_set())
            assert stuck.began <= 16
            assert len(answered_records(one)) == 10


async def test_a_storage_that_is_away_while_a_conversation_is_gained_is_waited_for():
    stuck, failures = StuckHandler(), [EngineError("away")] * 2
    async with two(stuck) as (storage, one, other):
        handle = await one.open()
        await one.send(handle, Ask("x"))
        await wait_until(lambda: stuck.began)
        engine, load = storage.engines["b"], storage.engines["b"].load

        async def fail_load(conversation):
            if failures:
                raise failures.pop()
            return await load(conversation)

        engine.load = fail_load
        storage.move(handle.id, "b")
        await wait_until(lambda: answered_records(other))
        assert not failures


async def test_a_server_that_can_keep_nothing_stops_within_its_drain_whoever_waits():
    engine, closing = FullEngine(), asyncio.Event()
    async with (
        asyncio.timeout(HANGS),
        anyio.create_task_group() as tasks,
        desk((listener("a"), answer), engine=engine, drain=0.2) as d,
    ):
        left, handle = await d.open(), await d.open()
        await d.ask(Ask("x"), handle=handle)
        engine.full = True

        async def close():
            closing.set()
            await handle.close()

        tasks.start_soon(close)
        await closing.wait()
        assert (await left.send(d.markup(Ask("y")), "a")).code == "unkept"
    assert handle.id in engine._conversations


async def test_handlers_stop_once_the_drain_ends_and_nothing_can_be_stored():
    engine, began, go = FullEngine(), [], asyncio.Event()

    async def count_calls(payload, metadata):
        began.append(payload.text)
        await go.wait()
        engine.full = True
        return await answer(payload, metadata)

    async with desk(
        (listener("a", concurrency=1), count_calls), engine=engine, drain=0.2, concurrency=1
    ) as d:
        for number in range(3):
            await d.send(await d.open(), Ask(f"{number}"))
        await wait_until(lambda: began)
        go.set()
        await d.pump.drain()
        await asyncio.sleep(0.3)
    assert len(began) == 1
    assert len(await at_work(engine)) == 3


async def test_a_pump_that_ends_gives_everything_up():
    storage = Storage()
    async with storage.engine("a") as engine, desk((listener("a"), answer), engine=engine) as one:
        handle = await one.open()
        assert storage.living(storage.rows[handle.id].owner)
    assert not storage.living(storage.rows[handle.id].owner)


async def test_a_commit_reported_after_its_conversation_was_lost_and_regained_releases_nothing():
    storage, runs, going = Storage(), [], asyncio.Event()

    async def note_calls(payload, metadata):
        runs.append(payload.text)
        return await answer(payload, metadata)

    class Slow(SharedEngine):
        prompt = False
        slow = False

        async def commit(self, claim, outcome):
            await super().commit(claim, outcome)
            if self.slow:
                await going.wait()

    engine = storage.engines["a"] = Slow(storage)
    async with engine, storage.engine("b"), desk((listener("b"), note_calls), engine=engine) as one:
        handle = await one.open()
        engine.slow = True
        sending = asyncio.ensure_future(one.send(handle, Ask("x"), "b"))
        await wait_until(lambda: storage.queued(handle.id))
        engine.slow = False
        storage.move(handle.id, "b")
        await wait_until(lambda: handle.id not in one.pump._live)
        storage.move(handle.id, "a")
        await wait_until(lambda: handle.id in one.pump._live)
        going.set()
        await sending
        await wait_until(lambda: one.pump._accounts.idle.is_set() and runs)
        await asyncio.sleep(0.05)
        assert runs == ["x"]
        assert one.pump._live[handle.id] == engine._conversations[handle.id]


@pytest.mark.parametrize("prompt", [True, False])
@pytest.mark.parametrize("seed", range(3))
async def test_every_request_is_answered_once_however_conversations_move(seed, prompt):
    random, storage = Random(seed), Storage()

    async def pass_payload(payload, metadata):
        await asyncio.sleep(random.random() * 0.005)
        if isinstance(payload, Answer):
            return HandlerResponse.respond(payload)
        return HandlerResponse(Ask(payload.text), "b")

    async def end_request(payload, metadata):
        await asyncio.sleep(random.random() * 0.005)
        if random.random() < 0.2:
            raise ValueError("once more")
        return HandlerResponse.respond(Answer(payload.text))

    pairs = (
        (listener("a", "b", concurrency=4), pass_payload),
        (listener("b", retries=50, concurrency=4), end_request),
    )
    async with AsyncExitStack() as stack:
        engines = [await stack.enter_async_context(storage.engine(name)) for name in "abc"]
        for engine in engines:
            engine.prompt = prompt
        desks = [await stack.enter_async_context(desk(*pairs, engine=engine)) for engine in engines]
        handles = [await desks[0].open() for _ in range(30)]
        for handle in handles:
            await desks[0].send(handle, Ask("x"))
        for _ in range(200):
            storage.move(random.choice(handles).id, random.choice("abc"))
            await asyncio.sleep(random.random() * 0.003)
        kept = storage.kept._conversations
        await wait_until(lambda: not [one for one in kept.values() if one.requests])
        await wait_until(lambda: all(one.pump._accounts.idle.is_set() for one in desks))
        nothing = {"a": (0, 0), "b": (0, 0)}  # a handler whose conversation has gone may be ending yet
        await wait_until(lambda: all(one.pump.queues() == nothing for one in desks))
        for one, engine in zip(desks, engines, strict=True):
            assert all(engine.current_claim(key) == one.pump._claims[key] for key in one.pump._live)
            assert all(one.pump._live[key] == kept[key] for key in one.pump._live)
    left = storage.kept._events.queued.values()
    replies = [event for each in left for event in each if type(event) is Reply]
    assert len(replies) == len(handles)


async def test_a_conversation_that_is_lost_while_it_is_taken_up_is_not_at_work():
    stuck, loads = StuckHandler(), []
    async with two(stuck) as (storage, one, other):
        handle = await one.open()
        await one.send(handle, Ask("x"))
        await wait_until(lambda: stuck.began)
        engine, load = storage.engines["b"], storage.engines["b"].load

        async def lose_load(conversation):
            if not loads:
                storage.move(handle.id, "a")
            loads.append(conversation)
            return await load(conversation)

        engine.load = lose_load
        storage.move(handle.id, "b")
        await wait_until(lambda: loads and stuck.began == 2)
        assert not other.pump._live
        assert not other.pump._claims
        storage.move(handle.id, "b")
        await wait_until(lambda: answered_records(other))


async def test_a_message_for_a_conversation_that_is_about_to_be_taken_up_waits_until_it_is():
    """Once decided before, it was dispatched once by itself and once with the rest."""
    stuck, loading, goes_on = StuckHandler(), asyncio.Event(), asyncio.Event()
    async with two(stuck) as (storage, one, other):
        handle = await one.open()
        await one.send(handle, Ask("x"))
        await wait_until(lambda: stuck.began)
        look = other.pump._probation.look

        async def slow(*args, **named):
            loading.set()
            await goes_on.wait()
            return await look(*args, **named)

        other.pump._probation.look = slow
        storage.move(handle.id, "b")
        await loading.wait()
        data = other.markup(Ask("y"))
        sending = asyncio.ensure_future(other.pump.entrance.submit("console", handle.id, data, "a", None))
        await wait_until(lambda: storage.inbox)
        assert not other.pump._live
        goes_on.set()
        assert (await sending).code is None
        await wait_until(lambda: len(answered_records(other)) == 2)
        assert len([one for one in other.records if one.event is Event.HANDLED]) == 2
