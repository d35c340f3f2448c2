"""Conversations go from one pump to another while both run."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from copy import copy
from random import Random

import anyio
import pytest

from agentserver import HandlerResponse
from agentserver.core.messages import Reply
from agentserver.core.records.audit import Event
from agentserver.engines.conformance.sample import at_work
from agentserver.engines.memory import MemoryEngine
from agentserver.ports import EngineError, FencedError, Share, WatchEnd
from tests.core.paper import Answer, Ask, listener
from tests.machine import HANGS
from tests.pump.desk import answer, desk, until

pytestmark = pytest.mark.anyio

PARTS = 4


def part(conversation):
    return int(conversation[:2], 16) % PARTS


class Parted(MemoryEngine):
    """One of several engines on one storage, in which each partition has an owner."""

    def __init__(self):
        super().__init__()
        self.owners = {number: (self, Share(number, 1)) for number in range(PARTS)}
        self.speak, self.gave_up = asyncio.Event(), False
        self.speak.set()

    def other(self):
        found = copy(self)
        found._changed, found.speak = asyncio.Event(), asyncio.Event()
        found.speak.set()
        return found

    def take(self, *numbers):
        """Claim partitions, from whichever engine has them."""
        for number in numbers:
            owner, share = self.owners[number]
            self.owners[number] = self, Share(number, share.epoch + 1)
            for one in (owner, self):
                one._changed.set()

    async def shares(self):
        while True:
            self._changed.clear()
            yield frozenset(share for owner, share in self.owners.values() if owner is self)
            await self._changed.wait()
            await self.speak.wait()

    def share_of(self, conversation):
        owner, share = self.owners[part(conversation)]
        return share if owner is self else None

    async def commit(self, share, outcome):
        if self.share_of(outcome.conversation.id) != share:
            raise FencedError("it is another's")
        self._mine = share
        await super().commit(share, outcome)

    async def at_work(self, share):
        async for key in super().at_work(share):
            if part(key) == share.partition:
                yield key

    async def open_conversations(self, share):
        async for key, principal in super().open_conversations(share):
            if part(key) == share.partition:
                yield key, principal

    async def idle(self, share, before):
        async for key in super().idle(share, before):
            if part(key) == share.partition:
                yield key

    async def give_up(self):
        self.gave_up = True


class Stuck:
    """A handler that waits until it is told to go on, and counts what becomes of its calls."""

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
async def two(first, second, stuck, concurrency=1):
    """Two desks, the first of which has everything in hand that is asked of it."""
    pair = listener("a", concurrency=concurrency)
    async with desk((pair, stuck), engine=first) as one, desk((pair, answer), engine=second) as other:
        yield one, other


class Deaf(MemoryEngine):
    """One that tells nothing of other processes."""

    async def heard(self):
        for nothing in ():
            yield nothing


@pytest.mark.parametrize("kind", [MemoryEngine, Deaf])
async def test_a_server_that_is_fenced_lets_go_and_whoever_waits_at_it_is_told(kind):
    engine, stuck = kind(), Stuck()
    async with desk((listener("a"), stuck), engine=engine) as one:
        handle = await one.open()
        watch = one.pump.entrance.watch(None, handle.id, (0, 0))
        asked, seen = [], []
        async with anyio.create_task_group() as tasks:

            async def ask():
                asked.append(await one.ask(Ask("x"), handle=handle))

            async def look():
                seen.append(await anext(watch))

            tasks.start_soon(ask)
            await until(lambda: stuck.began)
            tasks.start_soon(look)
            await asyncio.sleep(0.01)
            async with desk((listener("a"), answer), engine=engine.beside()) as other:
                await until(lambda: asked and seen)
                await until(lambda: [one for one in other.records if one.event is Event.ANSWERED])
        assert stuck.cancelled == 1
        if kind is Deaf:
            assert asked == [None]
            assert seen[0].reason is WatchEnd.MOVED
        else:
            assert asked == [Answer("re: x")]
            assert seen[0].request
        await watch.aclose()
        assert not one.pump._live
        assert one.pump._accounts.of("console") == (0, 0, 0)
        assert not [one for one in one.records if one.event is Event.HANDLED]


@pytest.mark.parametrize("prompt", [True, False])
@pytest.mark.parametrize("silent", [True, False])
async def test_a_result_that_comes_after_the_loss_is_discarded_and_nothing_is_decided_again(silent, prompt):
    first, stuck = Parted(), Stuck()
    first.prompt = prompt
    second = first.other()
    async with two(first, second, stuck) as (one, other):
        handle = await one.open()
        await one.send(handle, Ask("x"))
        await until(lambda: stuck.began)
        if silent:
            first.speak.clear()
        second.take(part(handle.id))
        await until(lambda: [one for one in other.records if one.event is Event.ANSWERED])
        stuck.go.set()
        await until(lambda: not one.pump._live)
        assert stuck.ended == silent
        assert await at_work(second) == []
        assert [record for record in one.records if record.event is Event.HANDLED] == []
        with pytest.raises(FencedError):
            await one.pump._finder.find(handle.id)


async def test_other_shares_are_left_alone_by_a_loss():
    first, stuck = Parted(), Stuck()
    second = first.other()
    async with two(first, second, stuck, concurrency=20) as (one, _):
        handles = [await one.open() for _ in range(20)]
        for handle in handles:
            await one.send(handle, Ask("x"))
        await until(lambda: stuck.began == 20)
        second.take(0)
        gone = {handle.id for handle in handles if part(handle.id) == 0}
        await until(lambda: stuck.cancelled == len(gone))
        assert set(one.pump._live) == {handle.id for handle in handles} - gone
        assert one.pump._accounts.of("console")[2] == 20 - len(gone)
        stuck.go.set()
        await until(lambda: stuck.ended == 20 - len(gone))


async def test_what_waits_for_its_turn_goes_with_its_share_and_gives_its_room_back():
    first, stuck = Parted(), Stuck()
    second = first.other()
    async with two(first, second, stuck) as (one, other):
        handles = [await one.open() for _ in range(20)]
        for handle in handles:
            await one.send(handle, Ask("x"))
        await until(lambda: stuck.began)
        second.take(*range(PARTS))
        await until(lambda: len([one for one in other.records if one.event is Event.ANSWERED]) == 20)
        await until(lambda: one.pump.queues() == {"a": (0, 0)})
        assert (stuck.began, stuck.cancelled) == (1, 1)
        first.take(*range(PARTS))
        await until(lambda: not other.pump._shares.held)
        stuck.go.set()
        fresh = await one.open()
        assert await one.ask(Ask("y"), handle=fresh) == Answer("first: y")


async def test_a_share_that_is_lost_and_regained_has_each_delivery_run_once_more_and_no_oftener():
    first, stuck = Parted(), Stuck()
    second = first.other()
    async with desk((listener("a", concurrency=3), stuck), engine=first, concurrency=3) as one:
        handles = [await one.open() for _ in range(10)]
        for handle in handles:
            await one.send(handle, Ask("x"))
        await until(lambda: stuck.began == 3)
        second.take(*range(PARTS))
        first.take(*range(PARTS))
        await until(lambda: stuck.began == 6 and stuck.cancelled == 3)
        stuck.go.set()
        await until(lambda: one.pump._accounts.rest.is_set())
        assert (stuck.began, stuck.ended) == (13, 10)
        assert len([one for one in one.records if one.event is Event.ANSWERED]) == 10


async def test_a_storage_that_is_away_while_a_share_is_gained_is_waited_for():
    first, stuck = Parted(), Stuck()
    second = first.other()
    failures = [EngineError("away")] * 2

    class Away(type(second)):
        async def load(self, conversation):
            if failures:
                raise failures.pop()
            return await super().load(conversation)

    second.__class__ = Away
    async with two(first, second, stuck) as (one, other):
        handle = await one.open()
        await one.send(handle, Ask("x"))
        await until(lambda: stuck.began)
        second.take(part(handle.id))
        await until(lambda: [one for one in other.records if one.event is Event.ANSWERED])
        assert not failures


class Full(MemoryEngine):
    """Keeps nothing from some time on, and says so."""

    full = False

    async def commit(self, share, outcome):
        if self.full:
            raise EngineError("the disk is full")
        await super().commit(share, outcome)


async def test_a_server_that_can_keep_nothing_stops_within_its_drain_whoever_waits():
    engine, closing = Full(), asyncio.Event()
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
    assert handle.id in engine._kept


async def test_handlers_do_not_run_on_once_the_drain_is_over_and_nothing_can_be_kept():
    engine, began, go = Full(), [], asyncio.Event()

    async def counting(payload, metadata):
        began.append(payload.text)
        await go.wait()
        engine.full = True
        return await answer(payload, metadata)

    async with desk((listener("a", concurrency=1), counting), engine=engine, drain=0.2, concurrency=1) as d:
        for number in range(3):
            await d.send(await d.open(), Ask(f"{number}"))
        await until(lambda: began)
        go.set()
        await d.pump.drain()
        await asyncio.sleep(0.3)
    assert len(began) == 1
    assert len(await at_work(engine)) == 3


async def test_a_pump_that_ends_gives_its_shares_up():
    engine = Parted()
    async with desk((listener("a"), answer), engine=engine):
        assert not engine.gave_up
    assert engine.gave_up


class Slow(Parted):
    """Tells of a commit some time after it is made."""

    prompt = False

    async def commit(self, share, outcome):
        await super().commit(share, outcome)
        await asyncio.sleep(self.delay)

    delay = 0.0


async def test_a_commit_that_is_told_of_after_its_share_was_lost_and_regained_releases_nothing():
    first, second_runs = Slow(), []
    second = first.other()

    async def noting(payload, metadata):
        second_runs.append(payload.text)
        return await answer(payload, metadata)

    async with desk((listener("a"), answer), (listener("b"), noting), engine=first) as one:
        handle = await one.open()
        first.delay = 0.2
        sending = asyncio.ensure_future(one.send(handle, Ask("x"), "b"))
        await until(lambda: first._kept)
        second.take(*range(PARTS))
        await until(lambda: not one.pump._shares.held)
        first.delay = 0.0
        first.take(*range(PARTS))
        await until(lambda: len(one.pump._shares.held) == PARTS)
        await sending
        await until(lambda: one.pump._accounts.rest.is_set() and second_runs)
        await asyncio.sleep(0.05)
        assert second_runs == ["x"]
        assert one.pump._live[handle.id] == first._kept[handle.id]


@pytest.mark.parametrize("prompt", [True, False])
@pytest.mark.parametrize("seed", range(3))
async def test_however_shares_move_every_request_is_answered_once_and_nothing_is_left(seed, prompt):
    random, whole = Random(seed), Parted()
    whole.prompt = prompt
    engines = [whole, whole.other(), whole.other()]

    async def passing(payload, metadata):
        await asyncio.sleep(random.random() * 0.005)
        if isinstance(payload, Answer):
            return HandlerResponse.respond(payload)
        return HandlerResponse(Ask(payload.text), "b")

    async def ending(payload, metadata):
        await asyncio.sleep(random.random() * 0.005)
        if random.random() < 0.2:
            raise ValueError("once more")
        return HandlerResponse.respond(Answer(payload.text))

    pairs = (listener("a", "b", concurrency=4), passing), (listener("b", retries=50, concurrency=4), ending)
    async with AsyncExitStack() as stack:
        desks = [await stack.enter_async_context(desk(*pairs, engine=engine)) for engine in engines]
        handles = [await desks[0].open() for _ in range(30)]
        for handle in handles:
            await desks[0].send(handle, Ask("x"))
        for _ in range(60):
            random.choice(engines).take(random.randrange(PARTS))
            await asyncio.sleep(random.random() * 0.01)
        await until(lambda: not [one for one in whole._kept.values() if one.requests])
        await until(lambda: all(one.pump._accounts.rest.is_set() for one in desks))
        nothing = {"a": (0, 0), "b": (0, 0)}  # a handler whose conversation has gone may be ending yet
        await until(lambda: all(one.pump.queues() == nothing for one in desks))
        for one in desks:
            assert set(one.pump._live) <= {key for key in whole._kept if one.pump._shares.has(key)}
            assert all(one.pump._live[key] == whole._kept[key] for key in one.pump._live)
    replies = [
        event for kept in whole._left.waiting.values() for event in kept.values() if type(event) is Reply
    ]
    assert len(replies) == len(handles)


async def test_a_share_that_is_lost_while_it_is_taken_up_is_not_held():
    first, stuck, fenced = Parted(), Stuck(), []
    second = first.other()

    class Fenced(type(second)):
        async def load(self, conversation):
            fenced.append(self.share_of(conversation))
            pump[0]._taking.let_go(fenced[-1])  # as a commit does that is refused
            return await super().load(conversation)

    second.__class__ = Fenced
    async with two(first, second, stuck) as (one, other):
        pump = [other.pump]
        handle = await one.open()
        await one.send(handle, Ask("x"))
        await until(lambda: stuck.began)
        number = part(handle.id)
        second.take(number)
        await until(lambda: fenced)
        await asyncio.sleep(0.05)
        assert not other.pump._shares.held
        assert not other.pump._live
        second.__class__ = Parted
        second.take(number)
        await until(lambda: other.pump._shares.held)
        await until(lambda: [one for one in other.records if one.event is Event.ANSWERED])
