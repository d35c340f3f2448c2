"""The stream of records: every sink gets every step in order, and none can stop or slow a message."""

from __future__ import annotations

import logging
import threading
import time

import anyio
import pytest
from anyio import to_thread

from agentserver import HandlerResponse
from agentserver.assembly import build
from agentserver.core.records.audit import AuditRecord, Event
from agentserver.pump import records as module
from agentserver.pump.records import ObserverSink, RecordStream, run_observers
from agentserver.testing import listener, organism, organism_of
from tests.core.paper import Answer, Ask
from tests.machine import HANGS

pytestmark = pytest.mark.anyio


async def answer(payload: Ask, metadata) -> HandlerResponse:
    return HandlerResponse.respond(Answer(f"re: {payload.text}"))


SHOP = organism_of(listener("a", answer, Ask, replies=[Answer]))


def step(number):
    return (AuditRecord(Event.SENT, float(number), "c", "t"),)


async def test_an_observer_gets_every_step_in_order_in_a_thread_of_its_own():
    seen, threads = [], set()

    def watch(records):
        seen.extend(record.event for record in records)
        threads.add(threading.current_thread().name)

    async with organism(SHOP, observers=[watch]) as o:
        assert await o.ask(Ask("hi"), to="a") == Answer("re: hi")
        known = [record.event for record in o.trace().records]
    assert seen[: len(known)] == known
    assert len(threads) == 1
    assert threads != {threading.main_thread().name}


def desk_of(handler):
    return organism_of(listener("b", handler, Ask, peers=["a"]), listener("a", answer, Ask))


async def misspell(payload, metadata) -> HandlerResponse | None:
    return HandlerResponse(payload, to="aa") if isinstance(payload, Ask) else None


async def answer_nobody(payload, metadata) -> HandlerResponse | None:
    return HandlerResponse(payload, to="") if isinstance(payload, Ask) else None


@pytest.mark.parametrize(
    ("desk", "logged"),
    [
        (desk_of(misspell), "refused b -> aa routing no listener has that name"),
        (
            desk_of(answer_nobody),
            "refused b -> ? routing nobody takes {urn:agentserver:payload:Ask:v1}Ask here",
        ),
    ],
)
async def test_the_log_names_a_target_that_does_not_exist(caplog, desk, logged):
    with caplog.at_level(logging.WARNING):
        async with organism(desk) as o:
            await o.ask(Ask("hi"), to="b")
    assert logged in [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(1), KeyboardInterrupt(), StopIteration()])
async def test_an_exception_of_an_observer_is_logged_once_and_stops_nothing(caplog, error):
    told = []

    def fail(records):
        told.append(records)
        raise error

    async with organism(SHOP, observers=[fail]) as o:
        for _ in range(3):
            assert await o.ask(Ask("hi"), to="a") == Answer("re: hi")
    assert len(told) > 3
    first, last = [record.getMessage() for record in caplog.records if "observer" in record.getMessage()]
    assert first.endswith("failed; it still receives later steps")
    assert f"missed 0 steps and failed at {len(told)}" in last


class Unwritable(Exception):
    @property
    def __notes__(self):
        raise SystemExit("no notes")


@pytest.mark.parametrize("error", [Unwritable(), SyntaxError("x", ("f", 1, 1, 5))], ids=["notes", "text"])
async def test_an_observer_whose_exception_is_unprintable_gets_later_steps(caplog, error):
    told = []

    def fail(records):
        told.append(records)
        raise error

    async with organism(SHOP, observers=[fail]) as o:
        for _ in range(3):
            assert await o.ask(Ask("hi"), to="a") == Answer("re: hi")
    assert len(told) > 3
    assert "that cannot be written out" in caplog.text


async def test_a_hanging_observer_blocks_nothing(monkeypatch, caplog):
    monkeypatch.setattr(module, "PATIENCE", 0.01)
    held = threading.Event()
    async with organism(SHOP, observers=[lambda _: held.wait(HANGS)]) as o:
        for _ in range(3):
            assert await o.ask(Ask("hi"), to="a") == Answer("re: hi")
    assert any("did not finish in time" in record.getMessage() for record in caplog.records)
    held.set()


async def test_steps_that_a_slow_observer_misses_are_dropped_and_reported_once(caplog):
    begun, go, seen = threading.Event(), threading.Event(), []

    def slow(records):
        begun.set()
        go.wait(HANGS)
        seen.append(records)

    watched = ObserverSink(slow, waiting=2)
    watched.start()
    watched(step(0))
    await anyio.to_thread.run_sync(begun.wait, 10)
    with caplog.at_level(logging.WARNING):
        for number in range(1, 6):
            watched(step(number))
        go.set()
        await anyio.to_thread.run_sync(watched.end, time.monotonic() + 10)
    assert seen == [step(0), step(1), step(2)]
    slow_, lacks = [record.getMessage() for record in caplog.records]
    assert "is too slow" in slow_
    assert "missed 3 steps" in lacks


async def test_a_server_stops_though_every_thread_for_handlers_is_taken():
    told, usual, holders = [], to_thread.current_default_thread_limiter(), [object() for _ in range(40)]
    async with organism(SHOP, observers=[told.append]) as o:
        assert await o.ask(Ask("hi"), to="a") == Answer("re: hi")
        holders = holders[: int(usual.available_tokens)]
        for each in holders:
            usual.acquire_on_behalf_of_nowait(each)
        assert usual.available_tokens == 0
    for each in holders:
        usual.release_on_behalf_of(each)
    assert told


async def test_a_stopping_server_delivers_the_remaining_steps():
    seen = []
    async with run_observers([seen.append, seen.append]) as told:
        for observe in told:
            observe(step(1))
    assert seen == [step(1), step(1)]


class LaterError:
    async def __call__(self, records):
        return None


async def later_result(records):
    return None


@pytest.mark.parametrize("wrong", [None, "print", later_result, LaterError()])
def test_an_uncallable_observer_is_refused_when_the_server_is_built(wrong):
    with pytest.raises(TypeError, match="is no observer"):
        build(SHOP, observers=[wrong])


def test_a_sink_gets_steps_until_it_is_detached():
    stream, seen, also = RecordStream(), [], []
    detach = stream.attach(seen.append)
    stream.attach(also.append)
    stream.put("ada", step(1))
    detach()
    stream.put("ada", step(2))
    assert (seen, also) == ([step(1)], [step(1), step(2)])


def test_a_sink_may_detach_itself_while_it_is_called():
    stream, seen, also = RecordStream(), [], []

    def once(records):
        seen.append(records)
        detach()

    detach = stream.attach(once)
    stream.attach(also.append)
    for number in (1, 2):
        stream.put("ada", step(number))
    assert (len(seen), len(also)) == (1, 2)


def test_a_sink_that_fails_keeps_no_step_from_the_others(caplog):
    def fail(records):
        raise ValueError("no")

    seen = []
    stream = RecordStream(fail, seen.append)
    for number in (1, 2):
        stream.put("ada", step(number))
    assert seen == [step(1), step(2)]
    assert caplog.text.count("a sink of records failed") == 2
