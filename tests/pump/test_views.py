"""Conversations that move to another process while gateways wait for them."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from random import Random

import anyio
import pytest

from agentserver import HandlerResponse
from agentserver.core.blueprint import Listener
from agentserver.core.messages import UNDECIDED, Delta, DeltaKind, Done, Reply
from agentserver.ports import NotStoredError, RejectReason, WatchEnd
from tests.core.paper import Answer, Note
from tests.engines.together.storage import REST
from tests.machine import HANGS
from tests.pump.desk import answer, wait_until
from tests.pump.pair import pair, watch_events
from tests.pump.test_owners import decoded_texts, open_answered

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
        await wait_until(lambda: two.a.pump.conversation(handle.id).version == 2)
        await two.stop("a")
        assert (await asking).text == "re: 2"


async def test_messages_submitted_while_the_owner_is_stopped_go_to_the_next_owner():
    async with pair((A, answer)) as two:
        key = await open_answered(two.a)
        two.engines["a"].still = True
        sending = asyncio.ensure_future(
            two.b.pump.entrance.submit("console", key, two.b.markup(Note("2")), "a", "mine")
        )
        await two.stop("a")
        submitted = await sending
        assert submitted.code is None
        again = await two.b.pump.entrance.submit("console", key, two.b.markup(Note("2")), "a", "mine")
        assert (again.again, again.request) == (True, submitted.request)
        found, _ = await watch_events(two.b.pump, key, after=submitted.after, enough=1)
        assert decoded_texts(two.b, found) == ["re: 2"]


async def test_a_message_under_its_senders_id_is_not_reported_as_a_request_before_it_is_one():
    async with pair((A, answer)) as two:
        key = await open_answered(two.a)
        handle = await two.b.pump.resume("console", key)
        owners, data = handle._host.owners, two.b.markup(Note("2"))
        two.engines["a"].still = True
        owners.patience = 0.001  # nobody decides in time: what was handed in twice may be one or the other
        assert (await handle.send(data, "a", request="mine")).code is RejectReason.UNKEPT
        with pytest.raises(NotStoredError):  # and not: wait for the end of the other one
            async with asyncio.timeout(HANGS):
                await anext(handle.replies(data, "a", request="mine"))
        owners.patience = HANGS
        await two.stop("a")
        async with asyncio.timeout(HANGS):
            replies = [reply async for reply in handle.replies(data, "a", request="mine")]
        assert decoded_texts(two.b, replies) == ["re: 2"]
        again = await handle.send(data, "a", request="mine")
        assert (again.code, again.again, again.request) == (None, True, replies[0].request)


async def test_a_process_that_comes_back_submits_its_presumed_messages():
    async with pair((A, answer)) as two:
        key = await open_answered(two.a)
        await two.stop("a")
        await two.b.pump.entrance.submit("console", key, two.b.markup(Note("2")), "a", None)
        late = asyncio.ensure_future(
            two.a.pump.entrance.submit("console", key, two.a.markup(Note("late")), "a", None)
        )
        await wait_until(lambda: key not in two.a.pump._live)
        two.go_on("a")
        assert (await late).code is None
        found, _ = await watch_events(two.b.pump, key, enough=3)
        assert decoded_texts(two.b, found) == ["re: 1", "re: 2", "re: late"]


@pytest.mark.parametrize("name", ["a", "b"])
async def test_a_watch_continues_over_a_move(name):
    async with pair((A, answer)) as two:
        key = await open_answered(two.a)
        desk = two.desks[name]
        following = asyncio.ensure_future(watch_events(desk.pump, key))
        for number in range(2, 30):
            if number == 15:
                await two.give_up("a")
            await desk.pump.entrance.submit("console", key, desk.markup(Note(str(number))), "a", None)
        await _wait_idle(desk.pump, key, 29)
        await desk.pump.entrance.end(None, key, "ada")
        found, why = await following
        assert why is WatchEnd.CLOSED
        replies = decoded_texts(desk, found)
        assert replies == [f"re: {number}" for number in range(1, 30)]
        places = [event.place for event in found]
        assert places == sorted(set(places))


async def test_a_stopping_server_releases_clients_that_wait_for_another_process():
    async with pair((A, answer), drain=0.01) as two:
        key = await open_answered(two.a)
        two.engines["a"].still = True
        sending = asyncio.ensure_future(
            two.b.pump.entrance.submit("console", key, two.b.markup(Note("2")), "a", None)
        )
        await wait_until(lambda: two.storage.inbox)
        two.b.pump.entrance.stop()
        assert (await sending).code is None  # it is kept
        after = await two.b.pump.entrance.submit("console", key, two.b.markup(Note("3")), "a", None)
        assert after.code is RejectReason.STOPPING


async def _happens(two, keys, random, over):
    """Stop processes, take over their conversations, leave them idle and give them back, until time is up."""
    while not over.is_set():
        name = random.choice("ab")
        match random.randrange(6):
            case 0:
                two.storage.still(name)
                await asyncio.sleep(0.01)
                two.storage.moving(name)
            case 1:
                two.storage.advance(REST)
            case 2 | 3:
                await two.desks[name].pump.releasing.release()
            case _:
                two.storage.move(random.choice(keys), name)
        await asyncio.sleep(0.002)


@pytest.mark.parametrize("seed", range(6))
async def test_whatever_happens_each_message_is_answered_once_in_each_gateways_order(seed):
    random = Random(seed)
    ran = []

    async def slowly(payload, metadata):
        ran.append(payload.text)
        for _ in range(random.randrange(30)):
            await asyncio.sleep(0)
        return HandlerResponse.respond(Answer(f"re: {payload.text}"))

    # Each stop past a lease counts as an end of the process, and the same message may meet several.
    async with pair((A, slowly), fatal_ends=1000) as two:
        keys = [
            await open_answered(two.desks[name], f"{name}{number}")
            for number in range(3)
            for name in ("a", "b")
        ]
        watching = {
            (key, name): asyncio.ensure_future(watch_events(two.desks[name].pump, key))
            for key in keys
            for name in "ab"
        }
        over = asyncio.Event()

        moves = asyncio.ensure_future(_happens(two, keys, random, over))

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
                await _wait_idle(two.desks[name].pump, key, wanted)
            await two.desks["a"].pump.entrance.end(None, key, "ada")
        for (key, name), each in watching.items():
            found, why = await each
            assert why == "closed"
            replies = decoded_texts(two.desks[name], found)[1:]
            assert sorted(replies) == sorted(text for of, text in sent if of == key)
            places = [event.place for event in found]
            assert places == sorted(set(places))
        assert set(ran) >= {str(number) for number in range(60)}


async def _wait_idle(pump, key, wanted):
    """Wait until so many requests of a conversation are idle."""
    done = 0
    async with aclosing(pump.entrance.watch("console", key, UNDECIDED)) as items:
        async for item in items:
            done += isinstance(item, Done)
            if done == wanted:
                return


async def test_an_idle_conversation_of_a_gateway_is_seen_after_a_move_there_and_back():
    async with pair((A, answer)) as two:
        handle, pump = await two.a.open(), two.a.pump
        assert (await two.a.ask(Note("1"), handle=handle)).text == "re: 1"
        two.storage.move(handle.id, "b")
        await wait_until(lambda: handle.id not in pump._live)
        await wait_until(lambda: pump.conversation(handle.id) is not None)
        two.storage.move(handle.id, "a")
        await wait_until(lambda: handle.id in pump._live)
        assert (pump.conversation(handle.id).id, handle.over) == (handle.id, False)
        assert (await two.a.ask(Note("2"), handle=handle)).text == "re: 2"
        await two.a.pump.entrance.end(None, handle.id, "ada")
        assert handle.over


async def test_a_message_for_a_conversation_that_ends_before_its_owner_came_to_it_is_said_to_be_too_late():
    """No event came of it: after a while it was reported as accepted."""
    async with pair((A, answer)) as two:
        key = await open_answered(two.a)
        two.engines["a"].still = True
        data = two.b.markup(Note("2"))
        sending = asyncio.ensure_future(two.b.pump.entrance.submit("console", key, data, "a", None))
        await wait_until(lambda: two.storage.inbox)
        await two.a.pump.entrance.end(None, key, "ada")
        async with asyncio.timeout(HANGS):
            assert (await sending).code is RejectReason.OVER


async def test_another_server_sends_the_events_alone_and_no_pieces_of_an_answer():
    keys, shows, heard = [], [], {"a": [], "b": []}

    async def talk(payload, metadata):
        delta = Delta(metadata.thread_id, "r", "a", DeltaKind.TEXT, "half")
        shows[0](delta._replace(conversation=keys[0]))
        return HandlerResponse.respond(Note("whole"))

    async def follow(name, pump, ready):
        items = pump.entrance.watch("console", keys[0], UNDECIDED, ready.set, deltas=True)
        async with aclosing(items):
            async for item in items:
                heard[name].append(type(item))
                if isinstance(item, Reply):
                    return

    async with pair((A, talk)) as two, anyio.create_task_group() as tasks:
        handle = await two.a.open()
        keys.append(handle.id)
        shows.append(two.a.pump.answers.publish)
        for name, one in (("a", two.a), ("b", two.b)):
            ready = anyio.Event()
            tasks.start_soon(follow, name, one.pump, ready)
            await ready.wait()
        await handle.send(two.a.markup(Note("1")), "a")
        with anyio.fail_after(HANGS):
            await wait_until(lambda: Reply in heard["a"] and Reply in heard["b"])
    assert heard == {"a": [Delta, Reply], "b": [Reply]}
