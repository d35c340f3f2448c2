"""What the broker refuses to the user of a listener, and what the server refuses of what comes through."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack, suppress
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nats.js.errors import NotFoundError, ServiceUnavailableError

from agentserver.broker.address import BrokerAddress, BrokerError
from agentserver.broker.link import PermissionDeniedError, SilenceError, connected
from agentserver.broker.passwords import bcrypt
from agentserver.broker.permissions import configuration, user_of
from agentserver.broker.words import Subjects, word
from agentserver.worker import frames
from agentserver.worker.remote.queue import TicketDesk
from agentserver.worker.remote.speech import AliveFrame, HeardFrame, Spelling, TakeFrame
from agentserver.worker.running import WorkerError
from tests.brokers import one, three
from tests.machine import HANGS

pytestmark = pytest.mark.anyio

NAME = "org"
MINE, OTHER = "calculator", "calculator.add"
SUBJECTS = Subjects(NAME)
STREAM = SUBJECTS.stream


def users(*listeners):
    every = [user_of(NAME, each) for each in (None, *listeners)]
    return configuration(NAME, listeners, {user: bcrypt(user, "secret") for user in every})


@pytest.fixture
async def node(tmp_path):
    more = await asyncio.to_thread(users, MINE, OTHER)
    async with one(tmp_path, more=more) as node:
        yield node


def address(node, listener):
    path = node.folder / f"user.{word(listener) if listener else ''}"
    path.write_text(f"{user_of(NAME, listener)}:secret\n")
    return BrokerAddress(node.url, path)


def link(node, listener=MINE):
    inbox = {} if listener is None else {"inbox": SUBJECTS.inbox(listener)}
    return connected(address(node, listener), name="test", **inbox)


def desk(node):
    return TicketDesk(address(node, None), SUBJECTS, (MINE, OTHER), 10_000)


PUBLISHED = [
    SUBJECTS.done(OTHER, "s", "c"),  # a forged sender
    SUBJECTS.ticket(OTHER, "s", "c"),  # a wrong recipient
    SUBJECTS.ticket(MINE, "s", "c"),  # its own queue is the server's to fill
    SUBJECTS.pull(OTHER),  # another's queue
    f"$JS.ACK.{STREAM}.{word(OTHER)}.1.1.1.1.0",
    f"$JS.API.STREAM.MSG.GET.{STREAM}",
    f"$JS.API.DIRECT.GET.{STREAM}",
    f"$JS.API.STREAM.MSG.DELETE.{STREAM}",
    f"$JS.API.STREAM.PURGE.{STREAM}",
    f"$JS.API.STREAM.INFO.{STREAM}",
    f"$JS.API.STREAM.DELETE.{STREAM}",
    "$JS.API.STREAM.CREATE.OWN",
    "$JS.API.STREAM.NAMES",
    f"$JS.API.CONSUMER.CREATE.{STREAM}.own",
    f"$JS.API.CONSUMER.DURABLE.CREATE.{STREAM}.own",
    f"$JS.API.CONSUMER.INFO.{STREAM}.{word(MINE)}",
    f"$JS.API.CONSUMER.DELETE.{STREAM}.{word(MINE)}",
    "$SYS.REQ.SERVER.PING",
    f"{SUBJECTS.inbox(OTHER)}.x",
    "as.other.done.calculator.s.c",
    "anything",
]
HEARD = [
    "as.>",
    ">",
    "*.org.done.>",
    SUBJECTS.said(OTHER),
    SUBJECTS.said(MINE),
    SUBJECTS.of_listener(OTHER),
    SUBJECTS.of_listener(MINE),
    f"{SUBJECTS.inbox(OTHER)}.>",
    "as.org.inbox.*.>",
    "_INBOX.>",
    "$JS.EVENT.ADVISORY.>",
    "$SYS.>",
]


async def ignore(_msg):
    """Nothing is to be done."""


async def test_the_broker_refuses_whatever_is_not_its_listeners(node):
    async with desk(node), link(node) as mine:
        for subject in PUBLISHED:
            with pytest.raises(PermissionDeniedError, match="refuse this user: publish to"):
                await mine.ask(subject, b"{}", HANGS)
        with pytest.raises(SilenceError, match="no listener"):
            await mine.ask(SUBJECTS.done(MINE, "s", "c"), b"{}", HANGS)
    for subject in HEARD:
        async with link(node) as mine:
            await mine.hear(subject, ignore, 1)
            told = await asyncio.wait_for(mine.denied, HANGS)
            assert f'refuse this user: subscription to "{subject.lower()}"' in told


async def test_a_changed_organism_is_taken_over_while_everybody_stays_connected(node):
    async with desk(node), link(node) as mine:
        with pytest.raises(SilenceError):
            await mine.ask(SUBJECTS.done(MINE, "s", "c"), b"", HANGS)
        with pytest.raises(BrokerError, match=r"(?i)authorization"):
            async with link(node, "third"):
                pass
        node.reload(await asyncio.to_thread(users, MINE, OTHER, "third"))
        while True:
            try:
                async with link(node, "third") as third:
                    with pytest.raises(SilenceError):
                        await third.ask(SUBJECTS.done("third", "s", "c"), b"", HANGS)
                break
            except BrokerError:
                await asyncio.sleep(0.1)
        with pytest.raises(SilenceError):
            await mine.ask(SUBJECTS.done(MINE, "s", "c"), b"", HANGS)
        assert mine.client.stats["reconnects"] == 0
        node.reload(await asyncio.to_thread(users, OTHER))  # whoever has no listener any more is sent away
        assert "authorization" in (await asyncio.wait_for(mine.over, HANGS)).lower()


class Waiting:
    """A call that waits at a desk, and the ticket of it that a worker would be given."""

    def __init__(self, place, monkeypatch):
        self.told = []
        monkeypatch.setattr(
            "agentserver.worker.reading.asked", lambda number, _accepted, _current: call_frame(number)
        )
        current = SimpleNamespace(progress=self.told.append)
        self.over = asyncio.ensure_future(place.outcome(MINE, None, current, None))

    async def ticket(self, mine):
        inbox = f"{SUBJECTS.inbox(MINE)}.".encode()
        queue = await patiently(
            lambda: mine.stream.pull_subscribe_bind(word(MINE), STREAM, inbox_prefix=inbox)
        )
        (msg,) = await patiently(lambda: queue.fetch(1, timeout=1))
        await msg.ack()
        server, call = msg.subject.split(".")[-2:]
        return server, call


async def patiently(work):
    """Ask the broker again while its nodes choose a leader, or the queue is made again."""
    while True:
        try:
            return await work()
        except (TimeoutError, NotFoundError, ServiceUnavailableError):
            await asyncio.sleep(0.2)


def call_frame(number):
    return frames.CallFrame(number, "r", "<r/>", {}, {}, {}, [], None, 5.0, False, True, 1, 100, "key", 0, 1)


async def said(mine, ticket, what, listener=MINE):
    data = what if isinstance(what, bytes) else frames.written(what)
    while True:  # as a worker: a server whose node has gone hears again when it has found another
        with suppress(SilenceError):
            return Spelling(10_000).answer(
                (await mine.ask(SUBJECTS.done(listener, *ticket), data, HANGS)).data
            )
        await asyncio.sleep(0.2)


async def test_a_call_is_given_to_the_first_that_takes_it_and_ended_by_it_once(node, monkeypatch):
    async with desk(node) as place, link(node) as mine:
        waiting = Waiting(place, monkeypatch)
        ticket = await waiting.ticket(mine)
        assert await said(mine, ticket, AliveFrame(1)) == frames.CancelFrame(0), "it is nobody's yet"
        given = await said(mine, ticket, TakeFrame(frames.VERSION, "me"))
        assert isinstance(given, frames.CallFrame)
        assert await said(mine, ticket, TakeFrame(frames.VERSION, "me")) == given
        assert await said(mine, ticket, TakeFrame(frames.VERSION, "another")) == frames.CancelFrame(0)
        assert await said(mine, ticket, AliveFrame(given.call)) == HeardFrame(given.call)
        assert await said(mine, ticket, frames.ProgressFrame(given.call, "half")) == HeardFrame(given.call)
        end = frames.ReturnedFrame(given.call, [], {}, [], [])
        assert await said(mine, ticket, end) == HeardFrame(given.call)
        assert await waiting.over == end
        assert waiting.told == ["half"]
        assert await said(mine, ticket, end) == frames.CancelFrame(0)


async def test_a_worker_of_another_version_is_told(node, monkeypatch):
    async with desk(node) as place, link(node) as mine:
        waiting = Waiting(place, monkeypatch)
        ticket = await waiting.ticket(mine)
        answer = await said(mine, ticket, TakeFrame(frames.VERSION + 1, "me"))
        assert isinstance(answer, frames.FailedFrame)
        assert "speaks version" in answer.detail
        waiting.over.cancel()


@pytest.mark.parametrize(
    "words",
    [
        b"",
        b"\xff",
        b"{}",
        b"[]",
        b'{"kind": "call"}',
        b'{"kind": "setup"}',
        b"[" * 9000,
        b"x" * 20000,
        frames.written(frames.ReturnedFrame(999, [], {}, [], [])),
    ],
    ids=range(9),
)
async def test_rubbish_ends_the_call_as_a_death_would(node, monkeypatch, words):
    async with desk(node) as place, link(node) as mine:
        waiting = Waiting(place, monkeypatch)
        ticket = await waiting.ticket(mine)
        assert await said(mine, ticket, words) == frames.CancelFrame(0), "before it is taken it hurts nobody"
        assert not waiting.over.done()
        given = await said(mine, ticket, TakeFrame(frames.VERSION, "me"))
        assert isinstance(given, frames.CallFrame)
        assert await said(mine, ticket, words) == frames.CancelFrame(0)
        with pytest.raises(WorkerError, match=r"it sent|out of turn"):
            await waiting.over


async def test_another_listener_cannot_end_the_call_even_if_it_knew_its_name(node, monkeypatch):
    async with desk(node) as place, link(node) as mine, link(node, OTHER) as other:
        waiting = Waiting(place, monkeypatch)
        ticket = await waiting.ticket(mine)
        given = await said(mine, ticket, TakeFrame(frames.VERSION, "me"))
        forged = frames.ReturnedFrame(given.call, [], {}, [], [])
        assert await said(other, ticket, forged, OTHER) == frames.CancelFrame(0)
        with pytest.raises(PermissionDeniedError):
            await said(other, ticket, forged, MINE)
        assert not waiting.over.done()
        waiting.over.cancel()


async def test_the_server_answers_in_the_account_of_the_listener_alone(node, monkeypatch):
    """A reply subject is no matter of the broker's permissions: it would have the server speak for the worker."""
    async with desk(node) as place, link(node) as mine, link(node, None) as server:
        waiting = Waiting(place, monkeypatch)
        ticket = await waiting.ticket(mine)
        heard = []

        async def hear(msg):
            heard.append(msg)

        for subject in ("victim", f"{SUBJECTS.inbox(OTHER)}.x"):
            await server.hear(subject, hear, 1 << 20)
        await server.client.flush()
        take = frames.written(TakeFrame(frames.VERSION, "me"))
        for subject in ("victim", f"{SUBJECTS.inbox(OTHER)}.x", SUBJECTS.ticket(OTHER, "s", "c")):
            await mine.client.publish(SUBJECTS.done(MINE, *ticket), take, reply=subject)
        await said(mine, ticket, TakeFrame(frames.VERSION, "later"))
        await server.client.flush()
        assert heard == []
        waiting.over.cancel()


async def test_what_the_broker_is_made_to_send_elsewhere_is_worth_nothing(node, monkeypatch):
    """Whoever may ask the broker may name any subject for its answer: a ticket of one queue in the place of others."""
    async with desk(node) as place, link(node) as mine, link(node, OTHER) as other:
        waiting = Waiting(place, monkeypatch)
        await mine.client.publish(
            SUBJECTS.pull(MINE), json.dumps({"batch": 1}).encode(), reply=SUBJECTS.ticket(OTHER, "aa", "bb")
        )
        queue = await other.stream.pull_subscribe_bind(
            word(OTHER), STREAM, inbox_prefix=f"{SUBJECTS.inbox(OTHER)}.".encode()
        )
        try:
            (msg,) = await queue.fetch(1, timeout=1)
        except TimeoutError:
            pass
        else:
            assert msg.data == b""
            with pytest.raises(SilenceError):
                await other.ask(SUBJECTS.done(OTHER, "aa", "bb"), b"", 1)
        assert not waiting.over.done()
        waiting.over.cancel()


@pytest.mark.parametrize("ask", [SUBJECTS.pull(MINE), SUBJECTS.said(MINE).replace(">", "s.c")])
async def test_the_broker_sends_nothing_into_a_log_for_a_worker(node, ask):
    """An answer of the broker's is bound by no permission: an empty one in the log was a claim of a partition."""
    log = ("as.org.log.5", "as.org.own.5", "$KV.AS_LIFE_org.process.x", "$O.AS_KEPT_org.M.replica")
    async with desk(node), link(node) as mine, link(node, None) as server:
        await server.stream.add_stream(name="LOG", subjects=[*log, "anything"])
        for reply in (*log, SUBJECTS.done(OTHER, "s", "c")):
            await mine.client.publish(ask, b'{"batch": 1, "no_wait": true}', reply=reply)
        await mine.client.flush()
        with pytest.raises(BrokerError):
            await mine.ask(SUBJECTS.done(MINE, "x", "c"), b"", 1)
        assert (await server.stream.stream_info("LOG")).state.last_seq == 0
        await mine.client.publish(ask, b"", reply="_R_.a.b")
        assert "publish with reply of" in await asyncio.wait_for(mine.denied, HANGS)


async def test_a_worker_that_is_silent_is_lost(node, monkeypatch):
    monkeypatch.setattr("agentserver.worker.remote.queue.LOST", 0.5)
    monkeypatch.setattr("agentserver.worker.remote.queue.BEAT", 0.2)
    async with desk(node) as place, link(node) as mine:
        waiting = Waiting(place, monkeypatch)
        given = await said(mine, await waiting.ticket(mine), TakeFrame(frames.VERSION, "me"))
        assert isinstance(given, frames.CallFrame)
        with pytest.raises(WorkerError, match="nothing was heard of it"):
            await asyncio.wait_for(waiting.over, HANGS)


async def test_a_ticket_that_was_lost_is_there_again_and_one_that_is_not_waited_for_is_gone(
    node, monkeypatch
):
    monkeypatch.setattr("agentserver.worker.remote.queue.AGAIN", 0.3)
    async with desk(node) as place, link(node) as mine, link(node, None) as server:
        waiting = Waiting(place, monkeypatch)
        first = await waiting.ticket(mine)  # and its worker dies
        assert await waiting.ticket(mine) == first
        await asyncio.sleep(0.5)
        waiting.over.cancel()
        while (await server.stream.stream_info(STREAM)).state.messages:  # noqa: ASYNC110 - the broker is asked
            await asyncio.sleep(0.1)


async def test_three_servers_begin_on_three_nodes_at_once_and_outlive_the_leading_one(tmp_path, monkeypatch):
    monkeypatch.setattr("agentserver.worker.remote.queue.AGAIN", 1.0)
    async with three(tmp_path, more=await asyncio.to_thread(users, MINE, OTHER)) as brokers:
        file = address(brokers.nodes[0], None).credentials
        desks = [TicketDesk(BrokerAddress(brokers.url, file, 3), SUBJECTS, (MINE,), 10_000) for _ in range(3)]
        mine = BrokerAddress(brokers.url, address(brokers.nodes[0], MINE).credentials)
        async with AsyncExitStack() as stack:
            await asyncio.gather(*map(stack.enter_async_context, desks))
            worker = await stack.enter_async_context(connected(mine, name="test", inbox=SUBJECTS.inbox(MINE)))
            leading = await brokers.leader(STREAM)
            leading.kill()
            waiting = Waiting(desks[1], monkeypatch)
            ticket = await waiting.ticket(worker)
            given = await said(worker, ticket, TakeFrame(frames.VERSION, "me"))
            end = frames.ReturnedFrame(given.call, [], {}, [], [])
            assert await said(worker, ticket, end) == HeardFrame(given.call)
            assert await waiting.over == end


@pytest.mark.parametrize("removed", ["the queue", "the consumer"])
async def test_what_an_operator_has_removed_is_there_again_for_the_next_call(node, monkeypatch, removed):
    monkeypatch.setattr("agentserver.worker.remote.queue.AGAIN", 0.5)
    async with desk(node) as place, link(node) as mine, link(node, None) as server:
        if removed == "the queue":
            await server.stream.delete_stream(STREAM)
        else:
            await server.stream.delete_consumer(STREAM, word(MINE))
        waiting = Waiting(place, monkeypatch)
        assert await waiting.ticket(mine)
        waiting.over.cancel()


@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode), st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["kind", "call", "version", "taker", "said", "detail", "faults"]), inner, max_size=5)
    | inner.map(lambda each: {"kind": "take", "version": each, "taker": "x"}),
    max_leaves=10,
).map(lambda value: json.dumps(value).encode())))  # fmt: skip
def test_any_bytes_are_a_word_or_no_frame(data):
    for read in (Spelling(150).spoken, Spelling(150).answer):
        assert len(why_not(read, data)) < 1000


def why_not(read, data):
    """Why this is no frame; empty when it is one."""
    try:
        read(data)
    except frames.FrameError as error:
        return str(error)
    return ""


async def test_a_server_that_is_given_a_workers_user_is_told_what_the_broker_refuses(node):
    """After a quarter of a minute it said that there was no answer."""
    one = TicketDesk(address(node, MINE), SUBJECTS, (MINE,), 10_000)
    with pytest.raises(BrokerError, match=r"refuse this user: .*\(agentserver cluster permissions writes"):
        await asyncio.wait_for(one.__aenter__(), HANGS)
