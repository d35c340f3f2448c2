"""The log at a real broker when something is wrong: no broker, a broker that goes, entries and copies that are large."""

from __future__ import annotations

import asyncio
import itertools

import nats.js.object_store  # noqa: F401 - as a server is built before its loop runs
import pytest

from agentserver.broker.address import BrokerAddress, BrokerError
from agentserver.engines.conformance.sample import SampleConversation, keep
from agentserver.engines.nats import answers, log, stream
from agentserver.engines.nats.log import LogOptions, NatsLog
from agentserver.engines.nats.stream import api
from agentserver.engines.replica import following
from agentserver.engines.replica.engine import ReplicaEngine
from agentserver.engines.replica.log import PARTITIONS
from agentserver.gateways.principals import shared
from agentserver.ports import EngineError, FencedError, UnfitError
from tests.brokers import one
from tests.machine import HANGS
from tests.pump.desk import until

pytestmark = [
    pytest.mark.anyio,
    # The library leaves the sockets of a connection that was cut to the collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

NUMBERS = itertools.count()


def options(node, name, **more):
    return LogOptions(name, BrokerAddress(node.url), monitoring=(node.monitoring,), **more)


def opened(node, folder, name=None, **more):
    name = name or f"x{next(NUMBERS)}"
    return ReplicaEngine(NatsLog(options(node, name, **more)), folder, name)


async def test_without_a_broker_it_does_not_start_and_says_why(tmp_path):
    nowhere = NatsLog(LogOptions("o", BrokerAddress("nats://127.0.0.1:9"), relaxed=True))
    with pytest.raises(EngineError, match=r"no broker at nats://127\.0\.0\.1:9"):
        async with ReplicaEngine(nowhere, tmp_path, "o"):
            pass


@pytest.mark.parametrize("monitoring", [(), ("http://127.0.0.1:9",)], ids=["none", "silent"])
async def test_a_broker_of_which_nothing_is_known_counts_as_relaxed(node, tmp_path, monitoring, caplog):
    name = f"x{next(NUMBERS)}"
    strict = LogOptions(name, BrokerAddress(node.url), monitoring=monitoring)
    with pytest.raises(EngineError, match="durability: relaxed"):
        async with ReplicaEngine(NatsLog(strict), tmp_path, name):
            pass
    for _ in range(2):  # each start says so
        caplog.clear()
        relaxed = LogOptions(name, BrokerAddress(node.url), monitoring=monitoring, relaxed=True)
        async with ReplicaEngine(NatsLog(relaxed), tmp_path, name):
            assert "may be lost with the power" in caplog.text


async def test_a_broker_that_does_not_wait_for_its_disk_is_refused(tmp_path):
    async with one(tmp_path, sync="2m") as node:
        with pytest.raises(EngineError, match="sync_interval is not always"):
            async with opened(node, tmp_path / "r"):
                pass


async def test_a_leader_that_has_not_come_to_a_claim_yet_is_asked_again(node):
    name = f"x{next(NUMBERS)}"
    async with NatsLog(options(node, name)) as one:
        stream = one._stream
        place = await stream.last()
        appending = asyncio.ensure_future(one.append(5, place + 1, b"entry", "id"))
        await asyncio.sleep(0.2)
        assert not appending.done()
        assert await stream.claim(5, one.name) == place + 1
        assert await appending == place + 2
        await stream.claim(5, "another")
        with pytest.raises(FencedError):
            await one.append(5, place + 1, b"entry", "later")


async def test_while_the_broker_is_gone_what_was_done_waits_and_what_is_new_is_refused(node, tmp_path):
    sample = SampleConversation()
    async with opened(node, tmp_path) as engine:
        said = sample.said(sample.opened(), "1")
        await keep(engine, said)
        node.kill()
        await until(lambda: engine._log.away)
        with pytest.raises(EngineError, match="broker"):
            await keep(engine, sample.said(sample.opened(), "2"))
        with pytest.raises(EngineError, match="broker"):
            await engine.claim("n", "c", 1.0)
        answered = sample.answered(said.conversation, said.ready[0])
        waiting = asyncio.ensure_future(keep(engine, answered))
        await asyncio.sleep(0.2)
        assert not waiting.done()
        await node.start()
        await asyncio.wait_for(waiting, HANGS)
        assert await engine.load(said.conversation.id) == answered.conversation


async def test_while_the_broker_is_gone_it_ends_all_the_same(node, tmp_path):
    sample = SampleConversation()
    engine = opened(node, tmp_path)
    await engine.__aenter__()
    said = sample.said(sample.opened(), "1")
    await keep(engine, said)
    node.kill()
    await until(lambda: engine._log.away)
    waiting = asyncio.ensure_future(keep(engine, sample.answered(said.conversation, said.ready[0])))
    await asyncio.sleep(0.05)
    async with asyncio.timeout(HANGS):
        await engine.__aexit__(None, None, None)
    with pytest.raises(EngineError):
        await waiting
    await node.start()


async def test_a_large_entry_goes_beside_the_stream_and_a_larger_one_is_refused(node, tmp_path, monkeypatch):
    monkeypatch.setattr(log, "HEADERS", (1 << 20) - 500)  # of max_payload
    sample, name = SampleConversation(), f"x{next(NUMBERS)}"
    async with opened(node, tmp_path / "a", name) as engine:
        large = sample.said(sample.opened(), "x" * 1000)
        await keep(engine, large)
        assert await engine.load(large.conversation.id) == large.conversation
        monkeypatch.setattr(NatsLog, "most", 600)
        with pytest.raises(UnfitError, match="600 at most"):
            await keep(engine, sample.said(sample.opened(), "y" * 1000))
    async with opened(node, tmp_path / "b", name) as other:
        assert await other.load(large.conversation.id) == large.conversation


async def test_a_process_begins_with_a_copy_when_the_log_was_forgotten(node, tmp_path):
    sample, name = SampleConversation(), f"x{next(NUMBERS)}"
    kept = []
    async with opened(node, tmp_path / "a", name) as engine:
        for _ in range(3):
            said = sample.said(sample.opened(), "1")
            await keep(engine, said)
            kept.append(said)
            await engine._following.copy(engine._path)
        first, last = await engine._log.bounds()
        assert 0 < first < last
        found = await api(engine._log._link, f"STREAM.INFO.AS_LOG_{name}", {})
        assert found["state"]["messages"] <= PARTITIONS + 2, "a claim for each partition, and what is later"
        await engine._log.snapshot(first, engine._path)
        assert await engine._log.bounds() == (first, last), (
            "an older copy does not take the place of a later one"
        )
        await keep(engine, sample.said(sample.opened(), "1"))
    async with opened(node, tmp_path / "b", name) as other:
        for said in kept:
            assert await other.load(said.conversation.id) == said.conversation
    # One that was away since before the log was forgotten is made anew.
    async with opened(node, tmp_path / "c", name):
        pass
    async with opened(node, tmp_path / "a", name) as engine:
        for _ in range(2):
            await keep(engine, sample.said(sample.opened(), "1"))
            await engine._following.copy(engine._path)
    async with opened(node, tmp_path / "c", name) as late:
        assert await late.load(kept[0].conversation.id) == kept[0].conversation


async def test_two_processes_of_one_machine_have_a_replica_each(node, tmp_path):
    name = f"x{next(NUMBERS)}"
    async with opened(node, tmp_path, name) as a, opened(node, tmp_path, name) as b:
        assert (a._path.name, b._path.name) == ("replica.db", "replica-1.db")


async def test_a_name_is_given_once_and_a_token_is_had_by_one(node, tmp_path):
    name = f"x{next(NUMBERS)}"
    async with opened(node, tmp_path / "a", name) as a, opened(node, tmp_path / "b", name) as b:
        assert [await a._log.once("k", "1"), await b._log.once("k", "2")] == ["1", "1"]
        inside = []

        async def work(engine, number):
            async with engine.alone("one at a time"):
                inside.append(number)
                await asyncio.sleep(0.02)
                assert inside[-1] == number

        await asyncio.gather(*(work(engine, number) for number, engine in enumerate((a, b, a, b))))
        assert sorted(inside) == [0, 1, 2, 3]


USERS = 'authorization {{ users: [ {{user: {}, password: "secret"}} ] }}'


async def test_a_user_that_the_broker_takes_no_more_ends_the_server_with_the_reason(tmp_path):
    """It stood there for ever: it could not come back, and held nothing, nor knew who was revoked."""
    words = tmp_path / "words"
    words.write_text("server:secret")
    words.chmod(0o600)
    began, ended = asyncio.Event(), []

    async def known(address):
        try:
            async with shared.following(address, "o", tmp_path / "principals"):
                began.set()
                await asyncio.Event().wait()
        except* BrokerError as group:
            ended.append(str(group.exceptions[0]))

    async with one(tmp_path / "broker", more=USERS.format("server")) as node:
        address = BrokerAddress(node.url, words)
        log = NatsLog(LogOptions("o", address, monitoring=(node.monitoring,)))
        async with ReplicaEngine(log, tmp_path / "r", "o") as engine:
            following = asyncio.ensure_future(known(address))
            await began.wait()
            node.reload(USERS.format("another"))
            told = "connection to the broker is over: the broker does not take this user any more: "
            with pytest.raises(EngineError, match=told):
                [held async for held in engine.shares()]
            await following
    assert ended[0].startswith("the connection by which principals are read is over: ")


async def test_a_server_whose_disk_is_full_leaves_its_part_to_the_others_and_comes_back(
    node, tmp_path, monkeypatch
):
    """It said that it lived, and held its part for as long as the disk was full."""
    monkeypatch.setattr(following, "AGAIN", 0.05)
    name = f"x{next(NUMBERS)}"

    async def holding(engine, enough):
        shares = engine.shares()
        while not enough(len(await anext(shares))):
            pass

    async with (
        opened(node, tmp_path / "a", name) as one,
        opened(node, tmp_path / "b", name) as other,
        asyncio.timeout(100),
    ):
        await holding(other, lambda number: number)
        await holding(one, lambda number: 0 < number < PARTITIONS)
        replica = one._following._replica
        with monkeypatch.context() as full:

            def apply(entries):
                raise EngineError("the disk is full")

            full.setattr(replica, "apply", apply)
            await other.claim("n", "c", 1.0)
            await holding(one, lambda number: not number)
            await holding(other, lambda number: number == PARTITIONS)
        await holding(one, lambda number: number)
        assert await one.claimed("n") == "c"


async def test_an_entry_that_may_be_kept_and_is_refused_for_good_gives_its_share_back(
    node, tmp_path, monkeypatch, caplog
):
    """It was sent for ever, and whatever came after it in its partition waited."""
    sample, name = SampleConversation(), f"x{next(NUMBERS)}"
    config = {"name": f"AS_LOG_{name}", "subjects": [f"as.{name}.log.*", f"as.{name}.own.*"]}
    config |= {"discard": "new", "duplicate_window": 600 * 10**9, "num_replicas": 1, "allow_direct": True}
    asked = stream.store

    async def unheard_once(*args):
        monkeypatch.setattr(stream, "store", asked)

    async with opened(node, tmp_path, name) as engine:
        said = sample.said(sample.opened(), "1")
        await keep(engine, said)
        share = engine.share_of(said.conversation.id)
        await api(engine._log._link, f"STREAM.UPDATE.AS_LOG_{name}", {**config, "max_bytes": 1})
        monkeypatch.setattr(answers, "ENOUGH", 3)
        monkeypatch.setattr(stream, "store", unheard_once)
        waiting = asyncio.ensure_future(keep(engine, sample.answered(said.conversation, said.ready[0])))
        await until(lambda: any("is refused since" in each for each in caplog.messages))
        with pytest.raises(EngineError):
            await keep(engine, sample.said(sample.opened(), "2"))
        await api(engine._log._link, f"STREAM.UPDATE.AS_LOG_{name}", config)
        with pytest.raises(FencedError):
            await asyncio.wait_for(waiting, HANGS)
        await until(lambda: engine.share_of(said.conversation.id) not in {None, share})
        again = sample.answered(said.conversation, said.ready[0])
        await keep(engine, again)
        assert await engine.load(said.conversation.id) == again.conversation
