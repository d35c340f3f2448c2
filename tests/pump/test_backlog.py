"""Messages for a gateway that never reads: few are in memory, all arrive, and a read costs its own size."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from agentserver.core.messages import Done, EventPlace, Reply
from agentserver.engines.memory import MemoryEngine
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions
from agentserver.ports import EngineError
from agentserver.pump import streams as backlog
from agentserver.pump.streams import Backlog
from agentserver.pump.watches import AT_ONCE, BYTES, EVENTS
from tests.core.paper import Answer, Ask, listener
from tests.pump.desk import answer, desk, wait_until

pytestmark = pytest.mark.anyio
MANY = 300
ENGINES = ["memory", "journal"]


def reply(number, size=10, request="r"):
    return Reply("c", request, "a", "{x}y", b"x" * size, place=EventPlace(number, 0))


class StoredEvents:
    """Every event that was put, and how often it was read."""

    def __init__(self, events):
        self.events, self.reads = events, 0

    async def read(self, after):
        self.reads += 1
        await asyncio.sleep(0)
        return [event for event in self.events if event.place > after][:AT_ONCE]


@pytest.mark.parametrize(("count", "size"), [(5_000, 10), (300, 50_000), (3, 2 * BYTES)])
async def test_little_is_held_and_everything_comes_in_order(count, size):
    kept = StoredEvents([reply(number, size) for number in range(1, count)])
    stream = Backlog(kept.read)
    for event in kept.events:
        stream.put(event)
        held, weight, _ = stream.size
        assert held <= EVENTS
        assert weight <= max(BYTES, size)
    assert kept.reads == 0
    for event in kept.events:
        assert await stream.get() == event
        assert stream.size[0] <= EVENTS
    assert stream.is_drained()
    assert stream.size == (0, 0, 0)
    assert kept.reads <= count // AT_ONCE + 1


async def test_several_that_take_at_once_share_one_read_and_lose_nothing():
    kept = StoredEvents([reply(number) for number in range(1, 1000)])
    stream = Backlog(kept.read)
    stream.put_back(kept.events)
    seen = []

    async def take():
        while (event := await stream.get()) is not None:
            seen.append(event)
            if event.place.version == 500:
                await asyncio.sleep(0.001)

    stream.end()
    first = asyncio.create_task(take())
    await asyncio.sleep(0)
    first.cancel()  # in the middle of a read
    await asyncio.gather(*(take() for _ in range(3)))
    assert seen == kept.events
    assert kept.reads <= (1000 - EVENTS) // AT_ONCE + 2


async def test_the_events_of_a_request_are_taken_out_wherever_they_wait():
    kept = StoredEvents([reply(number, request=str(number % 2)) for number in range(1, 1000)])
    stream = Backlog(kept.read)
    stream.put_back(kept.events)
    assert [one.place.version for one in stream.take("1")] == list(range(1, 1000, 2))
    stream.end()
    seen = [event async for event in all_of(stream)]
    assert seen == [event for event in kept.events if event.request == "0"]


async def all_of(stream):
    while (event := await stream.get()) is not None:
        yield event


async def test_marks_stay_with_the_places():
    kept = StoredEvents([reply(number) for number in range(1, 600)])
    stream = Backlog(kept.read)
    stream.catch_up([event._replace(redelivered=event.place.version % 3 == 0) for event in kept.events])
    stream.put(kept.events[-1])  # it was found in the outbox already
    stream.end()
    marks = [event.redelivered async for event in all_of(stream)]
    assert marks == [number % 3 == 0 for number in range(1, 600)]


async def test_expired_messages_are_reported_and_block_nothing(caplog):
    kept = StoredEvents([reply(number) for number in range(1, 1000)])
    stream = Backlog(kept.read)
    stream.put_back(kept.events)
    del kept.events[EVENTS:900]
    stream.end()
    assert [event async for event in all_of(stream)] == kept.events
    assert f"{900 - EVENTS} unacknowledged events" in caplog.text
    stream = Backlog(kept.read)
    stream.put_back([reply(number) for number in range(1, 300)])
    kept.events.clear()
    stream.end()
    assert len([event async for event in all_of(stream)]) == EVENTS


async def test_messages_unreadable_for_now_come_later():
    kept = StoredEvents([reply(number) for number in range(1, 400)])

    async def fails(after):
        if kept.reads == 1:
            kept.reads += 1
            raise EngineError("the disk is full")
        return await kept.read(after)

    stream = Backlog(fails)
    stream.put_back(kept.events)
    stream.end()
    seen = []
    with pytest.raises(EngineError):
        async for event in all_of(stream):
            seen.append(event)  # noqa: PERF401 - what came before the error counts
    seen += [event async for event in all_of(stream)]
    assert seen == kept.events


# With a server


class CountedReads:
    reads = 0

    async def read_events(self, *args, **more):
        self.reads += 1
        return await super().read_events(*args, **more)


class CountedMemory(CountedReads, MemoryEngine):
    pass


class CountedJournal(CountedReads, SqliteEngine):
    pass


@asynccontextmanager
async def shop(kind, path, handler=answer, **more):
    async with (
        CountedMemory() if kind == "memory" else CountedJournal(JournalOptions(path)) as engine,
        desk((listener("a"), handler), engine=engine, queue=MANY, **more) as d,
    ):
        yield d, engine


async def unread(d, count=MANY):
    """A handle whose gateway listens and never reads, and the texts that wait for it."""
    handle = await d.open()
    handle.listen()
    for number in range(count):
        await d.send(handle, Ask(str(number)))
        if number % 50 == 0:
            await wait_until(lambda: d.pump._accounts.pending == 0)
    await wait_until(lambda: d.pump._accounts.pending == 0)
    return handle, [f"re: {number}" for number in range(count)]


def texts(d, events):
    return [d.decode(event).text for event in events if isinstance(event, Reply)]


async def read(handle, count=2 * MANY):
    events = handle.events()
    return [await anext(events) for _ in range(count)]


@pytest.mark.parametrize("kind", ENGINES)
async def test_a_holder_that_never_read_reads_everything_and_acknowledges_it(kind, tmp_path):
    async with shop(kind, tmp_path / "j") as (d, engine):
        handle, told = await unread(d)
        held, _, away = handle.listen().size
        assert (held, away) == (EVENTS, 2 * MANY - EVENTS)
        assert engine.reads == 0
        events = await read(handle)
        assert sorted(texts(d, events)) == sorted(told)
        assert [event.place for event in events] == sorted(event.place for event in events)
        assert not any(event.redelivered for event in events)
        assert engine.reads <= away // AT_ONCE + 1
        handle.detach()
        await wait_until(lambda: kind == "memory" or not (engine._acknowledged or engine._writing))
        assert [event async for event in engine.outbox(handle.id)] == []


@pytest.mark.parametrize("kind", ENGINES)
async def test_bytes_are_bounded_too(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(backlog, "BYTES", 1_000)
    async with shop(kind, tmp_path / "j") as (d, _):
        handle, told = await unread(d, 30)
        assert handle.listen().size[1] <= 1_000
        assert texts(d, await read(handle, 60)) == told


@pytest.mark.parametrize("kind", ENGINES)
async def test_messages_requested_meanwhile_hide_nothing(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(backlog, "EVENTS", 4)
    async with shop(kind, tmp_path / "j") as (d, _):
        handle, told = await unread(d, 10)
        for number in range(5):
            assert await d.ask(Ask(f"asked {number}"), handle=handle) == Answer(f"re: asked {number}")
        await d.send(handle, Ask("last"))
        assert texts(d, await read(handle, 22)) == [*told, "re: last"]


@pytest.mark.parametrize("kind", ENGINES)
async def test_a_conversation_that_is_closed_meanwhile_is_read_to_its_end(kind, tmp_path):
    async with shop(kind, tmp_path / "j") as (d, _):
        handle, told = await unread(d)
        await d.pump._boundary.close(handle.id, "an operator")
        events = [event async for event in handle.events()]
        assert sorted(texts(d, events)) == sorted(told)
        assert len(events) == 2 * MANY
        assert d.pump._handles.handles == {}


@pytest.mark.parametrize("kind", ENGINES)
async def test_a_handle_that_is_detached_meanwhile_leaves_everything_to_the_next(kind, tmp_path):
    async with shop(kind, tmp_path / "j") as (d, _):
        handle, told = await unread(d)
        first = (await read(handle, 10))[:9]
        handle.detach()  # which acknowledges the tenth
        again = await d.pump.resume("console", handle.id)
        assert again.listen().size[0] == EVENTS
        rest = await read(again, 2 * MANY - 10)
        assert len({event.place for event in (*first, *rest)}) == 2 * MANY - 1
        assert len(texts(d, rest)) == MANY - 5
        assert len(told) == MANY


async def test_waiting_messages_are_fetched_without_waiting_for_further_ones(tmp_path):
    async with shop("journal", tmp_path / "j") as (d, _):
        handle, told = await unread(d)
        events = []
        while await handle.fetch():
            events += handle.iter_waiting()
        assert sorted(texts(d, events)) == sorted(told)
        assert isinstance(events[-1], Done)


async def test_a_server_that_stops_meanwhile_tells_the_rest_again(tmp_path):
    async with shop("journal", tmp_path / "j") as (d, _):
        handle, told = await unread(d)
        events = handle.events()
        taken = [await anext(events) for _ in range(10)]
    taken += [event async for event in events]  # there is no engine to ask, and no error
    assert len(taken) == EVENTS
    async with shop("journal", tmp_path / "j") as (d, _):
        again = await d.pump.resume("console", handle.id)
        rest = await read(again, 2 * MANY - 10)
        places = [event.place for event in rest]
        assert places == sorted(places)
        assert {event.place for event in (*taken, *rest)} >= set(places)
        assert all(event.redelivered for event in rest)
        assert len({*texts(d, taken), *texts(d, rest)}) == len(told)
