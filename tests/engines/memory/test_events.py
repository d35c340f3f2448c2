"""Events that memory keeps: found by place, and finished conversations in the order of their ends."""

from __future__ import annotations

import pytest

from agentserver.core.messages import EventPlace, Reply
from agentserver.engines.memory import engine
from agentserver.engines.memory.engine import EventList, EventStore
from tests.core.paper import Ask, listener
from tests.pump.desk import answer, desk, wait_until


def reply(number):
    return Reply("c", "r", "a", "{x}y", b"x" * 10, place=EventPlace(number, 0))


def add(known, conversation, events):
    known.queue(conversation, events)


class Looks(list):
    """Places, and how many were looked at."""

    looks = 0

    def __getitem__(self, at):
        self.looks += 1
        return super().__getitem__(at)


def test_reading_after_a_place_looks_only_at_its_result():
    known = EventStore()
    add(known, "c", [reply(number) for number in range(1, 5_001)])
    known.read_after("c", EventPlace(0, 0), 1, gaps=False)
    places = known.places["c"] = Looks(known.places["c"])
    for number in range(0, 5_000, 50):
        found = known.read_after("c", EventPlace(number, 0), 2, gaps=False)
        assert [event.place.version for event in found] == [number + 1, number + 2]
    assert places.looks <= 100 * (2 + 14)


class ReadList(EventList):
    """Events, and how often all of them were looked at."""

    reads = 0

    def __iter__(self):
        self.reads += 1
        return super().__iter__()


def test_the_bounds_of_waiting_events_are_held_without_looking_at_each(monkeypatch):
    known, waiting = EventStore(), ReadList([reply(number) for number in range(1, 501)])
    known.queued["c"], before = waiting, waiting.reads
    add(known, "c", [reply(501)])
    known.trim("c")
    assert (waiting.reads, len(waiting)) == (before, 501)
    monkeypatch.setattr(engine, "WAITING_BYTES", 100)
    waiting.take(EventPlace(500, 0))
    known.trim("c")
    assert (waiting.reads, waiting[0].place.version, len(waiting)) == (before, 491, 10)
    assert known.forgotten["c"] == EventPlace(490, 0)


def test_gaps_are_examined_once_and_dropped():
    known = EventStore()
    add(known, "c", [reply(number) for number in range(1, 5_001)])
    known.read_after("c", EventPlace(0, 0), 1, gaps=False)
    for number in range(2, 5_000):
        known.queued["c"].take(EventPlace(number, 0))
    assert [event.place.version for event in known.read_after("c", EventPlace(1, 0), 9, gaps=True)] == [5_000]
    assert len(known.places["c"]) == 2
    for number in range(5_001, 9_000):
        add(known, "c", [reply(number)])
        known.queued["c"].take(EventPlace(number, 0))
    assert len(known.places["c"]) <= 2 * engine.EACH


def test_the_latest_finished_conversations_are_known_in_full_and_earlier_ones_in_part():
    known = EventStore()
    for name in range(10):
        add(known, str(name), [reply(number) for number in range(1, 501)])
        known.close(str(name), "ada")
        del known.queued[str(name)]
    sizes = [len(known.read_after(str(name), EventPlace(0, 0), 1_000, gaps=True)) for name in range(10)]
    assert sizes == [engine.TAKEN] * 6 + [500] * engine.WHOLE


@pytest.mark.anyio
@pytest.mark.parametrize("refused", [0, 1])
async def test_waiting_answers_are_bounded_whichever_steps_give_them(monkeypatch, refused):
    monkeypatch.setattr(engine, "WAITING", 10)
    async with desk((listener("a"), answer)) as d:
        handle = await d.open()
        for _ in range(refused):  # a step of its own, by which the answers come in odd ones
            await handle.send(b"<what>", "a")
        for number in range(100):
            await d.send(handle, Ask(str(number)))
            await wait_until(lambda: d.pump._accounts.pending == 0)
        assert len(d.pump._engine._events.queued[handle.id]) <= 10 + engine.EACH
