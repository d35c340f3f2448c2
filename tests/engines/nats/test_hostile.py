"""What does not belong into a log, and answers that no broker gives: nothing of it ends a reader or counts."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from types import SimpleNamespace

import nats.js.object_store  # noqa: F401 - as a server is built before its loop runs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.broker.address import BrokerAddress, BrokerError
from agentserver.engines.conformance.sample import SampleConversation, keep
from agentserver.engines.nats import keeping, log, stream
from agentserver.engines.nats.answers import answer_of
from agentserver.engines.nats.life import Life
from agentserver.engines.nats.log import LogOptions, NatsLog
from agentserver.engines.nats.members import Beat
from agentserver.engines.nats.stream import EPOCH, api
from agentserver.engines.nats.subjects import LogSubjects
from agentserver.engines.replica import opening
from agentserver.engines.replica.engine import ReplicaEngine, partition_of
from agentserver.engines.replica.importing import import_journal
from agentserver.ports import EngineError, FencedError
from tests.brokers import one
from tests.machine import HANGS
from tests.pump.desk import until

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


def opened(node, folder):
    options = LogOptions("o", BrokerAddress(node.url), monitoring=(node.monitoring,))
    return ReplicaEngine(NatsLog(options), folder, "o")


@given(st.binary(max_size=200))
def test_no_bytes_of_a_broker_are_a_traceback(data):
    answer_of(data)
    assert Beat.load("a", data).name == "a"


@pytest.mark.parametrize(
    "data", [b"[" * 100_000, b'{"seq": Infinity}', b'{"error": {"err_code": Infinity}}', b"[]"]
)
def test_neither_are_these(data):
    assert answer_of(data) is None
    assert Beat.load("a", data).holds == frozenset()


class Liar:
    """A link to a broker that answers everything with the same."""

    def __init__(self, said):
        self.said = said

    async def ask(self, subject, data, seconds, headers=None):
        return SimpleNamespace(data=self.said)

    async def hear(self, subject, heard, most):
        pass


@pytest.mark.parametrize(
    "said",
    [b"{}", b"[]", b'{"state": []}', b'{"state": {"subjects": 3}}', b'{"state": {"subjects": ["ab", 3]}}'],
)
async def test_a_broker_that_does_not_say_who_lives_is_none(said):
    life = Life(Liar(said), LogSubjects("o"), None, "me", 2.0, None)
    with pytest.raises(BrokerError):
        await life.begin()


@pytest.mark.parametrize("said", [b"{}", b'{"config": []}', b'{"config": {"num_replicas": "1"}}'])
async def test_a_stream_of_which_nothing_is_said_is_not_taken(said):
    class Refusing(Liar):
        async def ask(self, subject, data, seconds, headers=None):
            if "CREATE" in subject:
                return SimpleNamespace(data=b'{"error": {"code": 400, "description": "no"}}')
            return await super().ask(subject, data, seconds, headers)

    one = NatsLog(LogOptions("o", BrokerAddress("nats://127.0.0.1:9")))
    one._link = Refusing(said)
    with pytest.raises(BrokerError, match="is there with other settings"):
        await one._make(1)


async def test_a_stray_message_in_the_log_is_no_claim_and_ends_nobody(tmp_path):
    """An empty message once counted as a claim in every replica, though the broker knew of none."""
    sample, subjects = SampleConversation(), LogSubjects("o")
    async with one(tmp_path / "broker") as node, opened(node, tmp_path) as engine:
        said = sample.said(sample.opened(), "1")
        await keep(engine, said)
        partition, client = partition_of(said.conversation.id), engine._log._link.client
        await client.publish(subjects.log(partition), b"")
        await client.publish(subjects.log("nowhere"), b"")
        await client.publish(subjects.log(99), b"no entry")
        await client.publish(subjects.log(partition), b"no entry", headers={EPOCH: "9" * 5000})
        await client.publish(subjects.log(partition), b"AGE1")
        await client.flush()
        answered = sample.answered(said.conversation, said.ready[0])
        await keep(engine, answered)
        assert await engine.load(said.conversation.id) == answered.conversation


async def test_a_log_that_is_lost_ends_a_start_and_the_replica_begins_it_again(tmp_path, monkeypatch):
    """It was deleted, by every server, where a broker had lost its disk: it may be all that is left. Then it was put
    aside, and the server began with nothing."""
    monkeypatch.setattr(opening, "BEHIND", ())
    sample, here, away = SampleConversation(), tmp_path / "r", tmp_path / "away"
    away.mkdir()
    async with one(tmp_path / "broker") as node:
        async with opened(node, here) as engine:
            said = sample.said(sample.opened(), "1")
            await keep(engine, said)
            await api(engine._log._link, "STREAM.DELETE.AS_LOG_o", {})
        with pytest.raises(EngineError, match=r"the log at 0.*agentserver journal import TO/replica\.db"):
            await opened(node, here).__aenter__()
        for file in here.glob("replica.db*"):
            file.rename(away / file.name)
        async with NatsLog(LogOptions("o", BrokerAddress(node.url), relaxed=True)) as empty:
            await import_journal(empty, away / "replica.db", tmp_path / "scratch")
        for _ in range(2):
            async with opened(node, here) as engine:
                assert await engine.load(said.conversation.id) == said.conversation


async def test_a_server_whose_log_is_lost_while_it_runs_ends(tmp_path, monkeypatch):
    """It waited for entries at places that would come at some time, and missed all that came until then."""
    monkeypatch.setattr(stream, "BEHIND", (0.1,))
    sample = SampleConversation()
    async with one(tmp_path / "broker") as node, opened(node, tmp_path / "a") as engine:
        await keep(engine, sample.said(sample.opened(), "1"))
        await api(engine._log._link, "STREAM.DELETE.AS_LOG_o", {})
        await engine._log._make(1)
        with pytest.raises(EngineError, match="it has lost entries"):
            [held async for held in engine.shares()]


async def test_the_id_of_an_entry_is_known_by_its_place(tmp_path):
    def there(node):
        return NatsLog(LogOptions("o", BrokerAddress(node.url), relaxed=True))

    async with one(tmp_path / "broker") as node, there(node) as log:
        place = await log.append(3, None, b"entry", "an id")
        claimed = await log._stream.claim(3, log.name)
        following = log.follow(0)
        assert [(await anext(following)).id for _ in range(2)] == ["an id", log.name]
        await following.aclose()
        assert [await log.id_at(at) for at in (place, claimed, claimed + 1)] == ["an id", log.name, ""]


async def test_large_entries_are_held_for_as_long_as_the_log_has_them(tmp_path, monkeypatch):
    """They were let go after a day: a server that had been away since hung at its start, without a word."""
    monkeypatch.setattr(log, "HEADERS", (1 << 20) - 500)  # of max_payload
    monkeypatch.setattr(keeping, "HELD", timedelta(seconds=0.3))
    sample, there = SampleConversation(), []
    async with one(tmp_path / "broker") as node, opened(node, tmp_path / "a") as engine:
        bucket = await engine._log._keeping._store()
        for _ in range(4):
            await keep(engine, sample.said(sample.opened(), "x" * 1000))
            await asyncio.sleep(0.5)
            await engine._following.copy(engine._path)
            found = [info.name for info in await bucket.list() if not info.deleted]
            there.append(len(found) - 1)
    assert there == [1, 1, 1, 1], "the log has what came after the copy before the last"


async def test_a_copy_of_which_pieces_are_gone_ends_a_start_with_the_reason(tmp_path, monkeypatch):
    """It was waited for without an end: a copy is replaced while a server fetches it."""
    monkeypatch.setattr(keeping, "STILL", 0.2)
    async with one(tmp_path / "broker") as node, opened(node, tmp_path / "a") as engine:
        await engine._following.copy(engine._path)
        kept, link = engine._log._keeping, engine._log._link
        file = tmp_path / "copy"
        assert await kept.restore(file) == engine._following._replica.place
        assert (await asyncio.to_thread(file.read_bytes)).startswith(b"SQLite")
        await api(link, "STREAM.PURGE.OBJ_AS_KEPT_o", {"filter": "$O.AS_KEPT_o.C.>"})
        with pytest.raises(EngineError, match="the kept copy of a replica cannot be fetched"):
            async with asyncio.timeout(HANGS):
                await kept.restore(file)
        with pytest.raises(BrokerError):
            await kept.get("replica")


async def test_a_log_that_lacks_something_ends_a_start_with_the_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(log, "HEADERS", (1 << 20) - 500)  # of max_payload
    monkeypatch.setattr(keeping, "_PATIENCE", (0.5, 0.5))
    sample = SampleConversation()
    async with one(tmp_path / "broker") as node:
        async with opened(node, tmp_path / "a") as engine:
            await keep(engine, sample.said(sample.opened(), "x" * 1000))
            bucket = await engine._log._keeping._store()
            (info,) = await bucket.list()
            await bucket.delete(info.name)
        with pytest.raises(EngineError, match="is gone from the broker"):
            async with asyncio.timeout(HANGS), opened(node, tmp_path / "b"):
                pass


async def test_a_server_that_cannot_follow_any_more_leaves_everything_to_the_others(tmp_path):
    """It went on claiming partitions, in which nothing was done from then on."""
    sample = SampleConversation()
    async with one(tmp_path / "broker") as node, opened(node, tmp_path / "a") as engine:
        said = sample.said(sample.opened(), "1")
        await keep(engine, said)
        share, link = engine.share_of(said.conversation.id), engine._log._link
        await link.client.publish(LogSubjects("o").log(0), b"AGE9 of a later version")
        await link.client.flush()
        await until(lambda: engine.share_of(said.conversation.id) is None)
        with pytest.raises(FencedError):
            await engine.commit(share, sample.answered(said.conversation, said.ready[0]))
        with pytest.raises(EngineError, match="upgrade this server"):
            await engine.claim("n", "c", 1.0)
        assert [one async for one in aiter_first(engine.shares())] == [frozenset()]


async def aiter_first(found):
    yield await anext(found)
