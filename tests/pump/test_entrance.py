"""What gateways do without holding a conversation: messages handed in, watched, confirmed, cancelled, ended."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, asynccontextmanager

import anyio
import pytest

from agentserver import HandlerResponse
from agentserver.contract import Code
from agentserver.core.messages import Done, Reply
from agentserver.engines.memory import MemoryEngine
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions
from agentserver.ports import NotStoredError, RejectReason, SubmitResult, WatchEnd, WatchStop
from tests.core.paper import Answer, Ask, listener
from tests.pump.desk import FullEngine, answer, desk, hang_forever, wait_until

pytestmark = pytest.mark.anyio
respond = HandlerResponse.respond


@pytest.fixture(params=["memory", "journal"])
def shop(request, tmp_path):
    @asynccontextmanager
    async def open_shop(*pairs, **limits):
        kept = MemoryEngine() if request.param == "memory" else SqliteEngine(JournalOptions(tmp_path / "j"))
        async with kept as engine, desk(*(pairs or [(listener("a"), answer)]), engine=engine, **limits) as d:
            d.gate = d.pump.entrance
            yield d

    return open_shop


async def submit(d, key, text="hi", own=None, to="a", principal="console"):
    return await d.gate.submit(principal, key, d.markup(Ask(text)), to, own)


async def detach_handle(d, key=None):
    handle = await d.pump.open("console", key)
    handle.detach()
    return handle.id


async def watch_until(d, key, after=(0, 0), until=None, principal="console"):
    """What a watcher is given until an item fits, that one with it."""
    found = []
    async with aclosing(d.gate.watch(principal, key, after)) as items:
        async for item in items:
            found.append(item)
            if until is not None and until(item):
                return found
    return found


def is_done(item):
    return isinstance(item, Done)


async def test_a_message_submitted_without_a_handle_is_answered_to_every_watcher(shop):
    async with shop() as d:
        key = await detach_handle(d)
        one = await submit(d, key)
        assert (one.code, one.again) == (None, False)
        seen = [await watch_until(d, key, one.after, is_done) for _ in range(3)]
        assert seen[0] == seen[1] == seen[2]
        assert [type(item) for item in seen[0]] == [Reply, Done]
        assert d.decode(seen[0][0]) == Answer("re: hi")


async def test_a_refused_message_carries_its_code_and_so_does_its_repetition(shop):
    async with shop() as d:
        key = await detach_handle(d)
        for own in ("short", "long"):
            data = b"<what>" + b"x" * (10 if own == "short" else 10_000) + b"</what>"
            first = await d.gate.submit("console", key, data, None, own)
            again = await d.gate.submit("console", key, data, None, own)
            assert first.code is Code.VALIDATION
            assert again == SubmitResult(first.request, Code.VALIDATION, again=True)
        routed = await submit(d, key, to="nobody", own="r")
        assert routed.code is Code.ROUTING
        assert (await submit(d, key, to="nobody", own="r")).code is Code.ROUTING
        taken = await submit(d, key, own="t")
        await watch_until(d, key, taken.after, is_done)
        assert await submit(d, key, own="t") == SubmitResult(taken.request, None, again=True)


async def refusals(d, principal, key):
    """What each method says to one who may not name a conversation."""
    for call in (
        submit(d, key, principal=principal),
        watch_until(d, key, principal=principal),
        d.gate.confirm(principal, key, (0, 0)),
        d.gate.cancel(principal, key, "r", ""),
        d.gate.end(principal, key, ""),
        d.gate.find_conversation(principal, key),
    ):
        with pytest.raises(LookupError) as error:
            await call
        yield error.value.args


async def test_an_opening_that_is_kept_is_one_step_and_the_first_message_without_one_is_too(shop):
    async with shop() as d:
        kept = await d.pump.open("console", committed=True)
        known = await d.pump.open("console", "mine", committed=True)
        known = await d.pump.open("console", "mine", committed=True)
        lazy = await d.pump.open("console")
        assert [d.pump.conversation(each.id).version for each in (kept, known, lazy)] == [1, 1, 0]
        await lazy.send(d.markup(Ask("hi")), "a")
        recorded = await d.pump._engine.read(lambda reader: [*reader.conversations()])
        assert {one.id for one in recorded} == {kept.id, known.id, lazy.id}


async def test_an_opening_that_cannot_be_stored_is_refused_and_leaves_nothing_open():
    async with FullEngine() as engine, desk((listener("a"), answer), engine=engine) as d:
        engine.full = True
        found = await asyncio.gather(
            *(d.pump.open("console", key, committed=True) for key in (None, "mine", "mine")),
            return_exceptions=True,
        )
        assert [(type(each), each.reason) for each in found] == [(NotStoredError, RejectReason.UNKEPT)] * 3
        assert d.pump._accounts.counts_of("console") == (0, 0, 0)
        assert not d.pump._live
        assert not d.pump._handles.handles


async def test_unknown_and_foreign_are_alike(shop):
    async with shop() as d:
        key = await detach_handle(d)
        unknown = [told async for told in refusals(d, "console", "unknown")]
        foreign = [told async for told in refusals(d, "other", key)]
        assert set(unknown) == set(foreign) == {("no such conversation",)}
        assert d.pump._watches.of == {}
        assert not (await d.gate.find_conversation(None, key)).over


async def test_a_cancelled_request_ends_and_its_conversation_continues(shop):
    async with shop((listener("a", deadline=99), hang_forever), (listener("b"), answer)) as d:
        key = await detach_handle(d)
        one, two = await submit(d, key), await submit(d, key, "b", to="b")
        await watch_until(d, key, two.after, is_done)
        assert await d.gate.cancel("console", key, one.request, "")
        assert not await d.gate.cancel("console", key, one.request, "")
        assert not await d.gate.cancel("console", key, two.request, "")
        assert not await d.gate.cancel("console", key, "unknown", "")
        end = (
            await watch_until(d, key, one.after, lambda item: is_done(item) and item.request == one.request)
        )[-1]
        assert (end.request, end.answered) == (one.request, False)
        await wait_until(lambda: d.pump._accounts.pending == 0)
        three = await submit(d, key, "again", to="b")
        assert d.decode((await watch_until(d, key, three.after, is_done))[0]) == Answer("re: again")


async def test_a_principal_whose_request_an_operator_cancels_is_notified(shop):
    async with shop((listener("a", deadline=99), hang_forever)) as d:
        key = await detach_handle(d)
        one = await submit(d, key)
        assert await d.gate.cancel(None, key, one.request, "ada")
        reply, end = await watch_until(d, key, one.after, is_done)
        assert (reply.error, d.decode(reply).code, end.answered) == (True, Code.DENIED, True)
        assert any("by ada" in str(record.detail) for record in d.records)


async def test_the_same_key_gives_the_same_conversation_even_a_finished_one(shop):
    async with shop() as d:
        key = await detach_handle(d, "mine")
        assert await detach_handle(d, "mine") == key
        assert (await d.pump.open("other", "mine")).id != key
        assert await detach_handle(d, "yours") != key
        await submit(d, key)
        await d.gate.end("console", key, "")
        again = await d.pump.open("console", "mine")
        assert again.id == key
        assert (await again.send(d.markup(Ask("x")), "a")).code is RejectReason.OVER
        assert (await submit(d, key)).code is RejectReason.OVER


async def test_watching_a_closed_conversation_gives_its_messages_and_ends(shop):
    async with shop() as d:
        key = await detach_handle(d)
        one = await submit(d, key)
        seen = await watch_until(d, key, one.after, is_done)
        ahead = asyncio.create_task(watch_until(d, key))
        await asyncio.sleep(0.01)
        await d.gate.end(None, key, "")
        ended = WatchStop(WatchEnd.CLOSED, seen[-1].place)
        assert await ahead == [*seen, ended]
        assert await watch_until(d, key) == [*seen, ended]
        assert await watch_until(d, key, seen[-1].place) == [ended]


async def test_operators_read_records_of_all_or_of_one_principal(shop):
    async with shop() as d:
        found = {None: [], "console": [], "other": []}

        async def read(principal):
            async for records in d.gate.stream.read(principal):
                found[principal] += records

        async with anyio.create_task_group() as tasks:
            for principal in found:
                tasks.start_soon(read, principal)
            await asyncio.sleep(0)
            handle, other = await d.open(), await d.pump.open("other")
            await d.ask(Ask("1"), handle=handle)
            await d.ask(Ask("2"), handle=other)
            await wait_until(
                lambda: len(found[None]) == len(d.records) == len(found["console"] + found["other"])
            )
            tasks.cancel_scope.cancel()
        assert found[None] == d.records
        assert {record.conversation for record in found["console"]} == {handle.id}
        assert {record.conversation for record in found["other"]} == {other.id}
        assert not d.pump._stream._readers
