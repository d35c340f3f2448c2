"""The log at a real broker when somebody deletes, empties or makes its streams otherwise."""

from __future__ import annotations

import asyncio
import itertools
import json

import nats.js.object_store
import pytest

from agentserver.broker.address import BrokerAddress
from agentserver.engines.conformance.sample import SampleConversation, keep
from agentserver.engines.nats import life, log, stream
from agentserver.engines.nats.log import LogOptions, NatsLog
from agentserver.engines.nats.stream import api
from agentserver.engines.replica.engine import ReplicaEngine
from agentserver.ports import EngineError
from tests.brokers import one
from tests.machine import HANGS
from tests.pump.desk import until

pytestmark = pytest.mark.anyio

NUMBERS = itertools.count()
PLACE = "organism.yaml:3: engine.nats"


def opened(node, folder, name, replicas=1):
    address = BrokerAddress(node.url, None, replicas, None, PLACE)
    return ReplicaEngine(NatsLog(LogOptions(name, address, monitoring=(node.monitoring,))), folder, name)


async def ends_with(engine, why):
    """The shares come to their end, with the reason."""
    with pytest.raises(EngineError, match=why):
        async with asyncio.timeout(HANGS):
            [held async for held in engine.shares()]


async def test_a_server_whose_log_is_deleted_under_it_ends_with_the_reason(node, tmp_path, monkeypatch):
    """It asked for it for ever, told nobody, and left every sender waiting."""
    monkeypatch.setattr(stream, "BEHIND", (0.05, 0.05))
    name = f"x{next(NUMBERS)}"
    async with opened(node, tmp_path, name) as engine:
        await keep(engine, SampleConversation().said(SampleConversation().opened(), "1"))
        await api(engine._log._link, f"STREAM.DELETE.AS_LOG_{name}", {})
        await ends_with(engine, "the log ends at 0, and was read up to .*: it has lost entries")


async def test_a_server_whose_log_is_emptied_under_it_ends_with_the_reason(node, tmp_path, monkeypatch):
    """Its claims were gone, so that it took every refusal for a leader that is behind."""
    monkeypatch.setattr(stream, "LOOK", 2)
    sample, name = SampleConversation(), f"x{next(NUMBERS)}"
    async with opened(node, tmp_path, name) as engine:
        said = sample.said(sample.opened(), "1")
        await keep(engine, said)
        await api(engine._log._link, f"STREAM.PURGE.AS_LOG_{name}", {})
        writing = asyncio.ensure_future(keep(engine, sample.answered(said.conversation, said.ready[0])))
        await ends_with(engine, "has nothing at .* any more, where a claim was: it has lost entries")
    with pytest.raises(EngineError):
        await writing


async def test_a_server_makes_the_bucket_of_who_lives_again(node, tmp_path, monkeypatch):
    """It took nothing new any more, and said that the broker did not answer."""
    monkeypatch.setattr(life, "SILENT", 0.5)
    sample, name = SampleConversation(), f"x{next(NUMBERS)}"
    async with opened(node, tmp_path, name) as engine:
        shares = engine.shares()
        while not await anext(shares):
            pass
        await api(engine._log._link, f"STREAM.DELETE.KV_AS_LIFE_{name}", {})
        await until(lambda: engine._log.away)
        await until(lambda: not engine._log.away)
        await keep(engine, sample.said(sample.opened(), "1"))


async def test_a_server_goes_on_when_the_id_of_its_log_was_removed(node, tmp_path):
    """The next start ended with words about another log."""
    name = f"x{next(NUMBERS)}"
    async with opened(node, tmp_path, name) as engine:
        await keep(engine, SampleConversation().said(SampleConversation().opened(), "1"))
        id_of_log = engine._key
        await api(engine._log._link, f"STREAM.DELETE.KV_AS_ONCE_{name}", {})
    async with opened(node, tmp_path, name) as engine:
        assert engine._key == id_of_log


async def test_shares_are_taken_up_when_the_notes_of_shares_were_removed(node, tmp_path):
    """Who took a share up tried to note it for ever, and told nobody."""
    name = f"x{next(NUMBERS)}"
    async with opened(node, tmp_path, name) as engine:
        held = next(iter(await anext(aiter(engine.shares()))))
        await api(engine._log._link, f"STREAM.DELETE.KV_AS_NOTES_{name}", {})
        async with asyncio.timeout(HANGS):
            await engine.marks.past(held)
        assert await engine._log.noted(f"share.{held.partition}")


async def test_a_large_entry_is_kept_when_the_bucket_of_large_ones_was_removed(node, tmp_path):
    """It was refused until the server was started again."""
    name = f"x{next(NUMBERS)}"
    async with opened(node, tmp_path, name) as engine:
        keeping = engine._log._keeping
        await keeping.put("before", b"1")
        await api(engine._log._link, f"STREAM.DELETE.OBJ_AS_KEPT_{name}", {})
        async with asyncio.timeout(HANGS):
            await keeping.put("after", b"2")
        assert await keeping.get("after") == b"2"


async def test_a_server_without_a_replica_begins_when_a_copy_is_kept_again(node, tmp_path):
    """It met the gap, was told no way out, and met it again although there was a copy by then."""
    sample, name = SampleConversation(), f"x{next(NUMBERS)}"
    async with opened(node, tmp_path / "has", name) as engine:
        for _ in range(3):
            said = sample.said(sample.opened(), "1")
            await keep(engine, said)
            await engine._following.copy(engine._path)
        await api(engine._log._link, f"STREAM.DELETE.OBJ_AS_KEPT_{name}", {})
        with pytest.raises(EngineError, match=r"no copy of a replica is kept: .* copy its replica.db to"):
            await opened(node, tmp_path / "new", name).__aenter__()
        await engine._following.copy(engine._path)
    async with opened(node, tmp_path / "new", name) as other:
        assert await other.load(said.conversation.id) == said.conversation


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"max_age": 3600 * 10**9}, r"max_age is 3600000000000, and has to be 0"),
        ({"subjects": ["as.else.>"]}, r"subjects is \['as.else.>'\], and has to be "),
        ({"storage": "memory"}, "storage is memory, and has to be file"),
        ({"discard": "old"}, "discard is old, and has to be new"),
    ],
    ids=["age", "subjects", "memory", "old"],
)
async def test_a_log_that_would_forget_is_refused_with_the_setting(node, tmp_path, settings, why):
    """Only the number of its nodes was looked at."""
    name = f"x{next(NUMBERS)}"
    wanted = {"subjects": [f"as.{name}.log.*", f"as.{name}.own.*"], "storage": "file", "discard": "new"}
    client = await nats.connect(node.url)
    request = json.dumps({"name": f"AS_LOG_{name}", **wanted, **settings}).encode()
    made = json.loads((await client.request(f"$JS.API.STREAM.CREATE.AS_LOG_{name}", request)).data)
    assert "error" not in made
    await client.close()
    with pytest.raises(
        EngineError, match=f"{PLACE}: the stream AS_LOG_{name} is there with other settings: {why}"
    ):
        await opened(node, tmp_path, name).__aenter__()


async def test_a_log_with_room_for_so_many_bytes_is_taken(node, tmp_path):
    """A bound of bytes is a full disk, which a sender is told."""
    name = f"x{next(NUMBERS)}"
    client = await nats.connect(node.url)
    settings = {
        "name": f"AS_LOG_{name}",
        "subjects": [f"as.{name}.log.*", f"as.{name}.own.*"],
        "discard": "new",
    }
    request = json.dumps({**settings, "max_bytes": 1 << 20}).encode()
    await client.request(f"$JS.API.STREAM.CREATE.AS_LOG_{name}", request)
    await client.close()
    async with opened(node, tmp_path, name) as engine:
        await keep(engine, SampleConversation().said(SampleConversation().opened(), "1"))


async def test_more_replicas_than_nodes_are_refused_at_once_with_the_way_out(node, tmp_path, monkeypatch):
    """It said after a quarter of a minute that a stream was not found."""
    monkeypatch.setattr(log, "ELECTION", 10 * HANGS)
    with pytest.raises(EngineError) as refusal:
        async with asyncio.timeout(HANGS):
            await opened(node, tmp_path, f"x{next(NUMBERS)}", replicas=3).__aenter__()
    told = str(refusal.value)
    assert told.startswith(f"{PLACE}: ")
    assert "replicas > 1 not supported" in told
    assert "say replicas: 1" in told


async def test_an_account_without_room_is_refused_at_once_with_the_way_out(tmp_path, monkeypatch):
    monkeypatch.setattr(log, "ELECTION", 10 * HANGS)
    limits = """accounts { A: { jetstream: {max_mem: 1M, max_file: 1M, max_streams: 2}, users: [{user: a, password: b}] } }
    no_auth_user: a"""
    async with one(tmp_path / "broker", more=limits) as node:
        with pytest.raises(
            EngineError, match=r"maximum number of streams reached \(give the account more room"
        ):
            async with asyncio.timeout(HANGS):
                await opened(node, tmp_path / "r", "o").__aenter__()
