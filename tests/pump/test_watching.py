"""Events for a watcher, and for a reader of records: bounded, counted, and without loss for one that reconnects."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from functools import partial

import pytest

from agentserver.contract import invocation
from agentserver.core.messages import LAST, Delta, DeltaKind, Done, EventPlace, Progress, Reply
from agentserver.engines.memory import MemoryEngine, engine
from agentserver.ports import Claim, ConversationFound, RecordGap, WatchEnd, WatchStop
from agentserver.pump import records
from agentserver.pump import watches as watching
from agentserver.pump.records import RecordReader
from agentserver.pump.watches import RecentEvents, Watches, WatchQueue
from tests.core.paper import Ask, listener
from tests.pump.desk import answer, desk, wait_until

pytestmark = pytest.mark.anyio


def reply(number, size=10):
    return Reply("c", "r", "a", "{x}y", b"x" * size, place=EventPlace(number, 0))


@pytest.mark.parametrize(("count", "size"), [(10_000, 10), (200, 100_000)])
def test_events_for_a_watcher_that_never_reads_are_bounded_in_number_and_bytes(count, size):
    watch = WatchQueue(EventPlace(0, 0))
    watch.behind = False
    most = (0, 0)
    for number in range(1, count):
        watch.put(reply(number, size))
        most = tuple(map(max, most, watch.size))
        watch.tell(Progress("c", "r", "a", "far"))
    assert most[0] <= watching.EVENTS
    assert most[1] <= watching.BYTES
    assert (watch.size, watch.end) == ((0, 0), WatchEnd.LAGGED)


def test_one_message_that_is_longer_than_the_bound_waits_alone():
    watch = WatchQueue(EventPlace(0, 0))
    watch.behind = False
    watch.put(reply(1, 2 * watching.BYTES))
    assert watch.end is None
    watch.put(reply(2))
    assert watch.end is WatchEnd.LAGGED


def test_words_of_progress_push_out_nothing():
    watch = WatchQueue(EventPlace(0, 0))
    watch.behind = False
    for _ in range(1000):
        watch.tell(Progress("c", "r", "a", "far"))
    assert watch.size == (watching.WORDS, 0)
    assert watch.end is None


def piece(offset, text, kind=DeltaKind.TEXT):
    return Delta("c", "r", "a", kind, text, offset)


def test_pieces_that_wait_are_joined_and_lost_before_any_event():
    watch = WatchQueue(EventPlace(0, 0), deltas=True)
    watch.behind = False
    for offset in range(1000):
        watch.tell(piece(offset, "x"))
    assert watch.size == (1, 0)
    for number in range(1, watching.WORDS):
        watch.tell(piece(5000 + 2 * number, "gap"))
    for number in range(1, watching.EVENTS + 1):
        watch.tell(piece(0, "y"))
        watch.put(reply(number))
    assert watch.size[0] == watching.EVENTS
    assert watch.end is None
    watch.put(reply(watching.EVENTS + 1))
    assert watch.end is WatchEnd.LAGGED


def test_a_joined_piece_is_bounded_and_pieces_of_two_answers_stay_apart():
    watch = WatchQueue(EventPlace(0, 0), deltas=True)
    watch.behind = False
    half = "x" * watching.PIECE
    watch.tell(piece(0, half))
    watch.tell(piece(len(half), "y"))
    watch.tell(piece(len(half) + 1, "", DeltaKind.RESET))
    watch.tell(piece(0, "z"))
    watch.tell(piece(2, "after a gap"))
    assert watch.size == (5, 0)


async def take_items(items, count):
    return [await anext(items) for _ in range(count)]


@pytest.mark.parametrize("acknowledged", [False, True])
async def test_a_lagging_watcher_is_ended_and_misses_nothing_on_its_return(monkeypatch, acknowledged):
    monkeypatch.setattr(watching, "EVENTS", 4)
    async with desk((listener("a"), answer)) as d:
        handle = await d.open()
        await d.ask(Ask("first"), handle=handle)
        async with aclosing(d.pump.entrance.watch("console", handle.id, EventPlace(0, 0))) as items:
            first = await take_items(items, 2)
            waiting = asyncio.create_task(anext(items))
            await asyncio.sleep(0)
            for number in range(5):
                await (d.ask if acknowledged else d.send)(handle=handle, payload=Ask(str(number)))
            await wait_until(lambda: d.pump._accounts.pending == 0)
            seen = [*first, await waiting]
            seen += [item async for item in items]
        ended = seen.pop()
        assert ended == WatchStop(WatchEnd.LAGGED, seen[-1].place)
        async with aclosing(d.pump.entrance.watch("console", handle.id, ended.after)) as items:
            seen += await take_items(items, 12 - len(seen))
        assert [type(item) for item in seen] == [Reply, Done] * 6
        assert [d.decode(item).text for item in seen[::2]] == ["re: first", *(f"re: {n}" for n in range(5))]
        assert d.pump._watches.of == {}


class CountingEngine(MemoryEngine):
    durable = True
    reads = 0

    async def read_events(self, *args, **more):
        self.reads += 1
        return await super().read_events(*args, **more)


async def test_recent_messages_are_given_without_asking_the_engine():
    engine = CountingEngine()
    async with desk((listener("a"), answer), engine=engine) as d:
        handle = await d.open()
        gate = d.pump.entrance
        places = []
        for number in range(5):
            submitted = await gate.submit("console", handle.id, d.markup(Ask(f"{number}")), "a", None)
            await wait_until(lambda: d.pump._accounts.pending == 0)
            async with aclosing(gate.watch("console", handle.id, submitted.after)) as items:
                reply, done = await take_items(items, 2)
            assert d.decode(reply).text == f"re: {number}"
            places += [reply.place, done.place]
        assert engine.reads == 0
        async with aclosing(gate.watch("console", handle.id, EventPlace(0, 0))) as items:
            assert [item.place for item in await take_items(items, 10)] == places
        assert engine.reads > 0  # what is longer ago


def test_memory_of_a_conversation_is_bounded_in_events_and_bytes():
    recent = RecentEvents(Claim(1, 1), 0, EventPlace(0, 0), ())
    for number in range(1, 20):
        recent.add((reply(number),))
    assert [event.place.version for event in recent.events] == [16, 17, 18, 19]
    assert recent.since == EventPlace(15, 0)
    recent.add((reply(20, watching.RECENT_BYTES + 1),))
    assert (recent.events, recent.since) == ((), EventPlace(20, 0))


async def test_events_that_memory_dropped_are_reported_as_lost(monkeypatch):
    monkeypatch.setattr(engine, "TAKEN", 4)
    async with desk((listener("a"), answer)) as d:
        handle = await d.open()
        places = []
        for number in range(5):
            async with aclosing(d.pump.entrance.watch("console", handle.id, EventPlace(0, 0))):
                await d.ask(Ask(str(number)), handle=handle)
        async with aclosing(d.pump.entrance.watch("console", handle.id, EventPlace(1, 0))) as items:
            (ended,) = [item async for item in items]
        assert ended.reason is WatchEnd.GONE
        async with aclosing(d.pump.entrance.watch("console", handle.id, ended.after)) as items:
            async for item in items:
                places.append(item.place)
                if isinstance(item, Done) and len(places) >= 2:
                    break
        assert places
        assert min(places) > ended.after


async def test_progress_and_the_end_of_the_server_reach_a_watcher():
    allowed = asyncio.Event()

    async def work(payload, metadata):
        invocation().progress("half way")
        await allowed.wait()
        return await answer(payload, metadata)

    async with desk((listener("a", progress=True), work)) as d:
        handle = await d.open()
        items = d.pump.entrance.watch("console", handle.id, EventPlace(0, 0))
        waiting = asyncio.create_task(anext(items))
        await asyncio.sleep(0)
        await d.send(handle, Ask("x"))
        word = await waiting
        allowed.set()
        assert (type(word), word.text) == (Progress, "half way")
        rest = await take_items(items, 2)
    assert [item async for item in items] == [WatchStop(WatchEnd.STOPPING, rest[-1].place)]


async def test_the_first_event_of_one_request_is_awaited_among_those_of_others():
    allowed = asyncio.Event()

    async def work(payload, metadata):
        if payload.text == "late":
            invocation().progress("half way")
            await allowed.wait()
        return await answer(payload, metadata)

    async with desk((listener("a", progress=True, concurrency=2), work)) as d:
        handle = await d.open()
        late, quick = [await handle.send(d.markup(Ask(text)), "a") for text in ("late", "quick")]
        first = partial(d.pump.entrance.first_event, "console", handle.id)
        waiting = asyncio.create_task(first(late.request, late.after))
        assert (await first(quick.request, quick.after)).request == quick.request
        allowed.set()
        found = await waiting
        assert (type(found), found.request) == (Reply, late.request)
        assert await first(late.request, late.after) == found
        nothing = asyncio.create_task(first("no such request", late.after))
        await wait_until(lambda: d.pump.entrance.watches.of)
    assert (await nothing).reason is WatchEnd.STOPPING


def test_a_slow_reader_of_records_learns_how_many_steps_it_missed(monkeypatch):
    monkeypatch.setattr(records, "STEPS", 3)
    reader = RecordReader()
    for _ in range(10):
        reader.put(())
    assert reader.size[0] == 4
    assert list(reader._queued)[-1] == RecordGap(7)


class JournalOfAnother:
    """What left a conversation that another process has, as far as it is kept by now."""

    def __init__(self):
        self.events, self.reads = [], 0
        self.reading, self.read = asyncio.Event(), asyncio.Event()
        self.read.set()

    async def read_events(self, conversation, after, most, *, gaps=False):
        self.reads += 1
        found = [event for event in self.events if event.place > after]
        self.reading.set()
        await self.read.wait()
        return found


@pytest.fixture
async def another():
    """A watch of such a conversation, with its journal and its watcher."""
    journal = JournalOfAnother()
    watches = Watches(journal, {}, {})

    async def found_conversation():
        return ConversationFound("c", "p", over=False)

    async with aclosing(watches.events("c", EventPlace(1, LAST), found_conversation)) as items:
        yield journal, watches, items


async def test_the_latest_events_of_another_process_are_given_without_asking_the_engine(another):
    journal, watches, items = another
    watches.deliver_remote("c", EventPlace(1, LAST), ())
    waiting = asyncio.create_task(anext(items))
    await asyncio.sleep(0)
    watches.deliver_remote("c", EventPlace(1, LAST), (reply(2), reply(3)))
    assert [await waiting, *await take_items(items, 1)] == [reply(2), reply(3)]
    assert journal.reads == 0


async def test_events_between_the_last_one_and_the_latest_are_read(another):
    journal, watches, items = another
    journal.events = [reply(2), reply(3)]
    watches.deliver_remote("c", EventPlace(2, LAST), (reply(3),))
    assert await take_items(items, 2) == [reply(2), reply(3)]


async def test_news_of_more_than_the_latest_events_is_read(another):
    """A hint may be lost: what a look finds has to be read, though the latest events are known."""
    journal, watches, items = another
    watches.deliver_remote("c", EventPlace(1, LAST), ())
    waiting = asyncio.create_task(anext(items))
    await asyncio.sleep(0)
    journal.events = [reply(2)]
    watches.nudge("c", EventPlace(2, LAST))
    assert await waiting == reply(2)


async def test_news_that_arrives_while_sent_messages_are_read_is_read_as_well(another):
    journal, watches, items = another
    journal.read.clear()
    waiting = asyncio.create_task(anext(items))
    await journal.reading.wait()
    journal.events = [reply(2)]
    watches.nudge("c", EventPlace(2, LAST))
    journal.read.set()
    assert await waiting == reply(2)
