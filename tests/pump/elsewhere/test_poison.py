"""A message that ends each process that works on it, in an organism of several processes."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from agentserver.core.blueprint import Listener
from agentserver.core.records.audit import Event
from agentserver.engines.replica.engine import ReplicaEngine, partition_of
from agentserver.engines.replica.log import PARTITIONS
from tests.core.paper import Note
from tests.engines.together.broker import MemoryBroker, MemoryLog
from tests.pump.desk import answer, desk, until
from tests.pump.elsewhere.pair import pair

pytestmark = pytest.mark.anyio

A = Listener("a", (Note,), "answers", concurrency=4)

FATAL = 3


class Ends:
    """Handlers of processes that end one after the other, whenever one of them works on the poison.

    Args:
        beside: how many others run when the first one ends.
    """

    def __init__(self, beside):
        self.beside = beside
        self.running, self.served, self.poisoned = [], [], asyncio.Event()

    async def __call__(self, payload, metadata):
        self.running.append(payload.text)
        if payload.text == "poison":
            await until(lambda: len(self.running) > self.beside)
            self.beside = 0  # from now on it runs alone, or the test fails
            self.poisoned.set()
            await asyncio.Event().wait()
        if self.beside:
            await asyncio.Event().wait()
        self.served.append(payload.text)
        return await answer(payload, metadata)


async def opened(stack, broker, directory, name, *listeners):
    """Another process, once the ones before are gone."""
    engine = await stack.enter_async_context(ReplicaEngine(MemoryLog(broker, name), directory / name, "o"))
    return await stack.enter_async_context(desk(*listeners, engine=engine, drain=0.01, fatal_ends=FATAL))


async def said(one, *texts):
    for text in texts:
        handle = await one.open()
        await one.send(handle, Note(text))
        handle.detach()


def end(broker, name):
    """End a process at once."""
    broker.still(name)
    broker.advance(1.5)
    broker.advance(1.5)


def given_up(one):
    return [record for record in one.records if record.event is Event.FAILED]


@pytest.mark.parametrize("beside", [0, 3])
async def test_a_message_that_ends_its_process_is_given_up_and_nothing_beside_it(tmp_path, beside):
    broker, handler, innocents = MemoryBroker(PARTITIONS), Ends(beside), [str(n) for n in range(beside)]
    ends = FATAL + bool(
        beside
    )  # one that comes while others run tells who it may have been, as with a journal
    async with AsyncExitStack() as stack:
        one = await opened(stack, broker, tmp_path, "p0", (A, handler))
        await said(one, *innocents, "poison")
        for number in range(ends):
            await until(handler.poisoned.is_set)
            assert not given_up(one)
            handler.poisoned.clear()
            handler.running.clear()
            end(broker, f"p{number}")
            one = await opened(stack, broker, tmp_path, f"p{number + 1}", (A, handler))
        await until(lambda: given_up(one) and len(handler.served) == beside)
        assert [record.code for record in given_up(one)] == ["internal"]
        assert sorted(handler.served) == innocents
        assert not handler.poisoned.is_set()
        assert not given_up(one)[1:]
        assert await one.ask(Note("after")) is not None
        for number in range(ends):
            broker.moving(broker.logs[f"p{number}"])  # what is stopped could not be closed


class Together:
    """Handlers of which none comes back in the first process; in the next one all but the first wait for each other."""

    def __init__(self, waiting):
        self.waiting = set(waiting)
        self.ended, self.running, self.together = False, [], asyncio.Event()

    async def __call__(self, payload, metadata):
        self.running.append(payload.text)
        if not self.ended:
            await asyncio.Event().wait()
        if self.waiting <= set(self.running):
            self.together.set()
        if payload.text in self.waiting:
            await self.together.wait()
        return await answer(payload, metadata)


async def of_one_share(one, handle=None):
    """Another conversation of the share of one, as shares are taken up one by one; any when left out."""
    while True:
        found = await one.open()
        if handle is None or partition_of(found.id) == partition_of(handle.id):
            return found
        found.detach()


async def test_what_only_waited_when_its_process_ended_is_no_suspect_and_runs_beside_others(tmp_path):
    broker, handler, handle = MemoryBroker(PARTITIONS), Together("1234"), None
    async with AsyncExitStack() as stack:
        alone = replace(A, concurrency=1)
        one = await opened(stack, broker, tmp_path, "p0", (alone, handler))
        for text in ("first", *"1234"):
            handle = await of_one_share(one, handle)
            await one.send(handle, Note(text))
            handle.detach()
        await until(lambda: handler.running)
        end(broker, "p0")
        assert handler.running == ["first"]  # the others have waited for it
        handler.running.clear()
        handler.ended = True
        two = await opened(stack, broker, tmp_path, "p1", (A, handler))
        await handler.together.wait()
        assert handler.running[0] == "first"
        assert await two.ask(Note("after")) is not None
        broker.moving(broker.logs["p0"])


async def test_a_suspect_of_a_share_that_is_lost_while_it_is_taken_up_holds_nothing_up(tmp_path):
    began, reached, goes_on = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def stuck(payload, metadata):
        began.set()
        await asyncio.Event().wait()

    async with pair((A, {"a": answer, "b": stuck}), replicas=tmp_path, drain=0.01) as two:
        handle = await two.b.open()
        await two.b.send(handle, Note("1"))
        await began.wait()
        lost, engine, pump = two.engines["b"].share_of(handle.id), two.engines["a"], two.a.pump
        begin = pump._marks.begin

        async def waits(share, suspects, calls):
            await begin(share, suspects, calls)
            if share.partition == lost.partition:
                assert suspects
                reached.set()
                await goes_on.wait()

        pump._marks.begin = waits
        end(two.broker, "b")
        await until(reached.is_set)
        share = engine.share_of(handle.id)
        two.broker.claim(lost.partition, "b")
        await until(lambda: engine.share_of(handle.id) is None)
        pump._taking.let_go(share)  # as a commit has shown
        goes_on.set()
        there = await two.a.open()
        assert (await two.a.ask(Note("2"), handle=there)).text == "re: 2"
        two.go_on("b")


async def test_one_that_was_queued_when_its_conversation_ended_holds_no_suspect_up(tmp_path):
    began, goes_on = asyncio.Event(), asyncio.Event()

    async def waits(payload, metadata):
        if payload.text != "suspect":
            began.set()
            await goes_on.wait()
        return await answer(payload, metadata)

    async def stuck(payload, metadata):
        began.set()
        await asyncio.Event().wait()

    alone = replace(A, concurrency=1)
    async with pair((alone, {"a": waits, "b": stuck}), replicas=tmp_path, drain=0.01) as two:
        runs, ends, suspect = await two.a.open(), await two.a.open(), await two.b.open()
        await two.a.send(runs, Note("1"))
        await began.wait()
        await two.a.send(ends, Note("2"))
        await ends.close()
        began.clear()
        asking = asyncio.ensure_future(two.b.ask(Note("suspect"), handle=suspect))
        await began.wait()
        goes_on.set()
        end(two.broker, "b")
        await until(lambda: len(two.a.pump._shares.held) == PARTITIONS)
        there = await two.a.pump.resume("console", suspect.id)
        async for reply in there.events():
            assert two.a.decode(reply).text == "re: suspect"
            break
        two.go_on("b")
        await asking
