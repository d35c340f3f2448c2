"""Conversations that move to another process while gateways wait for them."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, asynccontextmanager
from random import Random

import pytest

from agentserver import HandlerResponse
from agentserver.core.blueprint import Listener
from agentserver.core.messages import UNDECIDED, Done
from agentserver.ports import Unkept, UnkeptError, WatchEnd
from tests.core.paper import Answer, Note
from tests.machine import HANGS
from tests.pump.desk import answer, until
from tests.pump.elsewhere.pair import pair, watched
from tests.pump.elsewhere.test_elsewhere import opened, said

pytestmark = pytest.mark.anyio

A = Listener("a", (Note,), "answers")


def held_at(name):
    """A handler that does not come back at this process, and answers at the other one; and an event that it began."""
    began = asyncio.Event()

    async def holds(payload, metadata):
        began.set()
        await asyncio.Event().wait()

    return {one: holds if one == name else answer for one in ("a", "b")}, began


async def test_who_asks_where_the_conversation_was_is_answered_from_where_it_is():
    handlers, began = held_at("a")
    async with pair((A, handlers)) as two:
        asking = asyncio.ensure_future(two.a.ask(Note("1")))
        await began.wait()
        await two.give_up("a")
        assert (await asking).text == "re: 1"


async def test_who_asks_from_elsewhere_is_answered_by_the_next_owner():
    handlers, began = held_at("a")
    async with pair((A, handlers), drain=0.01) as two:
        handle = await two.a.open()
        await handle.send(two.a.markup(Note("1")), "a")
        handle.detach()
        await began.wait()
        there = await two.b.pump.resume("console", handle.id)
        asking = asyncio.ensure_future(two.b.ask(Note("2"), handle=there))
        await until(lambda: two.a.pump.conversation(handle.id).version == 2)
        await two.stop("a")
        assert (await asking).text == "re: 2"


async def test_what_is_handed_in_while_the_owner_is_stopped_is_the_next_ones():
    async with pair((A, answer)) as two:
        key = await opened(two.a)
        two.broker.still("a")
        two.engines["a"].log.pause()
        sending = asyncio.ensure_future(
            two.b.pump.entrance.submit("console", key, two.b.markup(Note("2")), "a", "mine")
        )
        await two.stop("a")
        submitted = await sending
        assert submitted.code is None
        again = await two.b.pump.entrance.submit("console", key, two.b.markup(Note("2")), "a", "mine")
        assert (again.again, again.request) == (True, submitted.request)
        found, _ = await watched(two.b.pump, key, after=submitted.after, enough=1)
        assert said(two.b, found) == ["re: 2"]


async def test_a_message_under_its_senders_id_is_not_told_as_a_request_that_it_may_never_be():
    async with pair((A, answer)) as two:
        key = await opened(two.a)
        handle = await two.b.pump.resume("console", key)
        owners, data = handle._host.owners, two.b.markup(Note("2"))
        two.broker.still("a")
        two.engines["a"].log.pause()
        owners.patience = 0.001  # nobody decides in time: what was handed in twice may be one or the other
        assert (await handle.send(data, "a", request="mine")).code is Unkept.UNKEPT
        with pytest.raises(UnkeptError):  # and not: wait for the end of the other one
            async with asyncio.timeout(HANGS):
                await anext(handle.replies(data, "a", request="mine"))
        owners.patience = HANGS
        await two.stop("a")
        async with asyncio.timeout(HANGS):
            replies = [reply async for reply in handle.replies(data, "a", request="mine")]
        assert said(two.b, replies) == ["re: 2"]
        again = await handle.send(data, "a", request="mine")
        assert (again.code, again.again, again.request) == (None, True, replies[0].request)


async def test_a_process_that_comes_back_hands_in_what_it_thought_its_own():
    async with pair((A, answer)) as two:
        key = await opened(two.a)
        await two.stop("a")
        late = asyncio.ensure_future(
            two.a.pump.entrance.submit("console", key, two.a.markup(Note("late")), "a", None)
        )
        await until(lambda: key not in two.a.pump._live)
        two.go_on("a")
        assert (await late).code is None
        found, _ = await watched(two.b.pump, key, enough=2)
        assert said(two.b, found) == ["re: 1", "re: late"]


@pytest.mark.parametrize("name", ["a", "b"])
async def test_a_watch_goes_on_over_a_move(name):
    async with pair((A, answer)) as two:
        key = await opened(two.a)
        desk = two.desks[name]
        following = asyncio.ensure_future(watched(desk.pump, key))
        for number in range(2, 30):
            if number == 15:
                await two.give_up("a")
            await desk.pump.entrance.submit("console", key, desk.markup(Note(str(number))), "a", None)
        await desk.pump.entrance.end(None, key, "ada")
        found, why = await following
        assert why is WatchEnd.CLOSED
        replies = said(desk, found)
        assert replies == [f"re: {number}" for number in range(1, 30)]
        places = [event.place for event in found]
        assert places == sorted(set(places))


async def test_one_that_was_opened_and_not_begun_begins_where_it_has_moved():
    async with pair((A, answer)) as two:
        handle = await two.a.open()
        await two.give_up("a")
        assert (await two.a.ask(Note("1"), handle=handle)).text == "re: 1"
        assert two.b.pump.conversation(handle.id).principal == "console"


async def test_one_that_has_begun_where_it_moved_though_nobody_here_was_told_is_answered_here():
    async with pair((A, answer)) as two:
        handle, data = await two.a.open(), two.a.markup(Note("1"))
        await two.give_up("a")
        entrance = two.a.pump.entrance
        entrance.handles.owners.patience = 0.001
        two.engines["b"].log.pause()
        assert (await handle.send(data, "a", request="mine")).code is Unkept.UNKEPT
        handle.detach()
        entrance.handles.owners.patience = HANGS
        two.engines["b"].log.go_on()
        async with asyncio.timeout(HANGS):
            while len(await entrance.handles.outbox(handle.id)) < 2:  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0)
            there = await two.b.pump.resume("console", handle.id)
            assert [event.redelivered for event in there.waiting()] == [False, False]
            there.detach()
            while await entrance.handles.outbox(handle.id):  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0)
            back = await two.a.pump.resume("console", handle.id)
            replies = [reply async for reply in back.replies(data, "a", request="mine")]
        assert (said(two.a, replies), replies[0].redelivered) == (["re: 1"], True)
        assert [*back.waiting()] == []


async def test_when_the_server_stops_who_waits_for_another_process_is_let_go():
    async with pair((A, answer), drain=0.01) as two:
        key = await opened(two.a)
        two.broker.still("a")
        sending = asyncio.ensure_future(
            two.b.pump.entrance.submit("console", key, two.b.markup(Note("2")), "a", None)
        )
        await until(lambda: any(two.engines["b"]._pending.values()))
        two.b.pump.entrance.stop()
        assert (await sending).code is None  # it is kept
        after = await two.b.pump.entrance.submit("console", key, two.b.markup(Note("3")), "a", None)
        assert after.code is Unkept.STOPPING


@pytest.mark.parametrize("seed", range(3))
async def test_whatever_moves_each_message_is_answered_once_in_each_gateways_order(seed):
    random = Random(seed)
    ran = []

    async def slowly(payload, metadata):
        ran.append(payload.text)
        for _ in range(random.randrange(30)):
            await asyncio.sleep(0)
        return HandlerResponse.respond(Answer(f"re: {payload.text}"))

    async with pair((A, slowly)) as two:
        keys = [
            await opened(two.desks[name], f"{name}{number}") for number in range(3) for name in ("a", "b")
        ]
        watching = {
            (key, name): asyncio.ensure_future(watched(two.desks[name].pump, key))
            for key in keys
            for name in "ab"
        }
        over = asyncio.Event()

        async def moving():
            while not over.is_set():
                partition, name = random.randrange(two.broker.partitions), random.choice("ab")
                two.broker.claim(partition, name)
                await asyncio.sleep(0.002)

        moves = asyncio.ensure_future(moving())

        async def talk(number):
            key, name = random.choice(keys), random.choice("ab")
            desk = two.desks[name]
            for _ in range(2):  # a client that is not sure sends again
                submitted = await desk.pump.entrance.submit(
                    "console", key, desk.markup(Note(str(number))), "a", f"own {number}"
                )
                assert submitted.code is None, submitted
            return key, f"re: {number}"

        sent = await asyncio.gather(*(talk(number) for number in range(60)))
        over.set()
        await moves
        for key in keys:
            for name in "ab":
                wanted = sum(1 for each, _ in sent if each == key) + 1
                await _rested(two.desks[name].pump, key, wanted)
            await two.desks["a"].pump.entrance.end(None, key, "ada")
        for (key, name), each in watching.items():
            found, why = await each
            assert why == "closed"
            replies = said(two.desks[name], found)[1:]
            assert sorted(replies) == sorted(text for of, text in sent if of == key)
            places = [event.place for event in found]
            assert places == sorted(set(places))
        assert set(ran) >= {str(number) for number in range(60)}


async def _rested(pump, key, wanted):
    """Wait until so many requests of a conversation are at rest."""
    done = 0
    async with aclosing(pump.entrance.watch("console", key, UNDECIDED)) as items:
        async for item in items:
            done += isinstance(item, Done)
            if done == wanted:
                return


async def test_what_its_owner_may_not_begin_is_not_told_as_accepted():
    async with pair((A, answer)) as two:
        handle, data = await two.a.open(), two.a.markup(Note("1"))
        await two.give_up("a")
        owners = two.a.pump.entrance.handles.owners
        owners.patience = 0.001
        two.engines["b"].log.pause()
        assert (await handle.send(data, "a")).code is Unkept.UNKEPT
        two.engines["b"].log.go_on()


@asynccontextmanager
async def busy_with_a_share(two):
    """The pump of a takes up a share that was b's, and comes to nothing else meanwhile; gives its partition."""
    taking, taken, goes_on = two.a.pump._taking, asyncio.Event(), asyncio.Event()
    gained, arrivals = taking.elsewhere

    async def waits(share):
        taken.set()
        await goes_on.wait()
        await gained(share)

    taking.elsewhere = waits, arrivals
    partition = next(n for n, owner in two.broker.owners.items() if owner.name == "b")
    two.broker.claim(partition, "a")
    async with asyncio.timeout(HANGS):
        await taken.wait()
    yield partition
    taking.elsewhere = gained, arrivals
    goes_on.set()


async def test_one_that_was_opened_begins_elsewhere_before_the_pump_has_heard_that_it_has_moved():
    async with pair((A, answer)) as two:
        handle, engine = await two.a.open(), two.engines["a"]
        async with busy_with_a_share(two):
            two.broker.claim(engine.share_of(handle.id).partition, "b")
            await until(lambda: engine.share_of(handle.id) is None)
            assert handle.id in two.a.pump._live
            assert (await two.a.ask(Note("1"), handle=handle)).text == "re: 1"


async def test_one_that_was_opened_before_its_share_was_taken_up_begins_where_it_has_moved():
    async with pair((A, answer)) as two, busy_with_a_share(two) as partition:
        handle = await two.a.open()
        while two.engines["a"].share_of(handle.id).partition != partition:
            handle = await two.a.open()
        sending = asyncio.ensure_future(two.a.ask(Note("1"), handle=handle))
        arrived = two.engines["a"]._pending[partition]
        await until(lambda: arrived)
        two.broker.claim(partition, "b")
        assert (await sending).text == "re: 1"


@pytest.mark.parametrize("heard", [True, False])
async def test_one_that_was_opened_and_is_back_before_its_first_message_begins_where_it_was_opened(heard):
    async with pair((A, answer)) as two:
        handle, engine, pump = await two.a.open(), two.engines["a"], two.a.pump
        partition = engine.share_of(handle.id).partition
        two.broker.claim(partition, "b")
        await until(lambda: engine.share_of(handle.id) is None)
        if heard:
            await until(lambda: handle.id not in pump._live)
        two.broker.claim(partition, "a")
        await until(lambda: engine.share_of(handle.id) in pump._shares.held)
        assert (await pump.entrance.standing("console", handle.id)).principal == "console"
        assert pump._accounts.of("console")[2] == 1
        assert (await two.a.ask(Note("1"), handle=handle)).text == "re: 1"


async def test_one_that_a_gateway_has_and_rests_is_seen_after_it_has_gone_and_come_back():
    async with pair((A, answer)) as two:
        handle, engine, pump = await two.a.open(), two.engines["a"], two.a.pump
        assert (await two.a.ask(Note("1"), handle=handle)).text == "re: 1"
        partition = engine.share_of(handle.id).partition
        two.broker.claim(partition, "b")
        await until(lambda: handle.id not in pump._live)
        await until(lambda: pump.conversation(handle.id) is not None)
        two.broker.claim(partition, "a")
        await until(lambda: engine.share_of(handle.id) in pump._shares.held)
        assert (pump.conversation(handle.id).id, handle.over) == (handle.id, False)
        assert (await two.a.ask(Note("2"), handle=handle)).text == "re: 2"
        await two.a.pump.entrance.end(None, handle.id, "ada")
        assert handle.over
