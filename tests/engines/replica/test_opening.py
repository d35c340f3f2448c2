"""A start with a replica that is not of this log, or has what the log has not: refused, and everything stays as it is."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from agentserver.engines.conformance.sample import SampleConversation, keep
from agentserver.engines.replica import opening
from agentserver.engines.replica.engine import ReplicaEngine
from agentserver.engines.replica.log import PARTITIONS
from agentserver.ports import EngineError
from tests.engines.together.broker import MemoryBroker, MemoryLog

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(opening, "BEHIND", (0.0,))


def server(broker, folder, name="p"):
    return ReplicaEngine(MemoryLog(broker, name), folder, "o")


@pytest.fixture
async def used(tmp_path):
    """A log with something in it, of which there is a replica; and the conversation."""
    broker, sample = MemoryBroker(PARTITIONS), SampleConversation()
    said = sample.said(sample.opened(), "1")
    async with server(broker, tmp_path) as engine:
        await keep(engine, said)
    return broker, said.conversation


async def refused(broker, folder, why):
    path = folder / "replica.db"
    before = path.read_bytes()
    with pytest.raises(EngineError, match=why) as refusal:
        await server(broker, folder).__aenter__()
    assert path.read_bytes() == before
    assert f"move it away (mv {path}* TO/)" in str(refusal.value)


async def test_an_empty_log_ends_the_start_of_a_server_that_has_something(used, tmp_path):
    """It began with nothing, and said so in its log only."""
    await refused(MemoryBroker(PARTITIONS), tmp_path, "is the replica of another log")


async def test_a_log_that_lost_its_end_does_too_and_one_that_is_behind_for_a_moment_does_not(used, tmp_path):
    broker, conversation = used
    lost = broker.entries.pop()
    await refused(broker, tmp_path, f"it ends at {lost.place}, and the log at {lost.place - 1}")

    class Behind(MemoryLog):
        async def bounds(self):
            found = await super().bounds()
            if len(broker.entries) < lost.place:
                broker.entries.append(lost)
            return found

    async with ReplicaEngine(Behind(broker, "p"), tmp_path, "o") as engine:
        assert await engine.load(conversation.id) == conversation


async def test_a_log_that_lost_its_end_and_went_on_is_told_apart_by_what_is_there(used, tmp_path):
    """It was told apart by its places alone, which soon are the same again."""
    broker, _ = used
    broker.entries[-1] = broker.entries[-1]._replace(id="of another")
    broker.append(0, None, b"", "later")
    await refused(broker, tmp_path, "the log has another entry at")


async def test_the_replica_of_another_log_is_not_replaced_by_a_log_that_has_forgotten_its_place(
    used, tmp_path
):
    class Forgetful(MemoryLog):
        async def bounds(self):
            return 10_000, 10_001

    with pytest.raises(EngineError, match="is the replica of another log"):
        await ReplicaEngine(Forgetful(MemoryBroker(PARTITIONS), "p"), tmp_path, "o").__aenter__()


async def test_a_replica_of_before_there_were_ids_is_taken(used, tmp_path):
    broker, conversation = used
    with closing(sqlite3.connect(tmp_path / "replica.db")) as connection:
        connection.executescript("drop table followed_entry; drop table followed_log")
    async with server(broker, tmp_path) as engine:
        assert await engine.load(conversation.id) == conversation
    await refused(MemoryBroker(PARTITIONS), tmp_path, "is the replica of another log")


async def test_the_id_of_an_entry_counts_only_at_its_place(used, tmp_path):
    """A version that knew of none has applied another one since."""
    broker, conversation = used
    with closing(sqlite3.connect(tmp_path / "replica.db")) as connection:
        connection.executescript("update followed_entry set place = 1, id = 'of before'")
    async with server(broker, tmp_path) as engine:
        assert await engine.load(conversation.id) == conversation


async def test_a_damaged_replica_is_not_made_anew_from_nothing(used, tmp_path):
    class Empty(MemoryLog):
        async def bounds(self):
            return 0, 0

    path = tmp_path / "replica.db"
    path.write_bytes(bytes(8192))
    with pytest.raises(EngineError, match="The log was lost"):
        await ReplicaEngine(Empty(MemoryBroker(PARTITIONS), "p"), tmp_path, "o").__aenter__()
    assert path.read_bytes() == bytes(8192)


async def test_servers_of_one_log_have_its_id(used, tmp_path):
    broker, conversation = used
    for _ in range(2):
        async with server(broker, tmp_path / "another", "another") as engine:
            assert await engine.load(conversation.id) == conversation


async def test_a_log_whose_id_was_removed_is_given_it_again_by_who_has_its_entries(used, tmp_path, caplog):
    """The start ended with words about another log, although the log had everything."""
    broker, conversation = used
    (before,) = broker._names.values()
    broker._names.clear()
    async with server(broker, tmp_path) as engine:
        assert await engine.load(conversation.id) == conversation
    assert list(broker._names.values()) == [before]
    assert not caplog.messages


async def test_a_log_whose_id_was_drawn_again_is_known_by_its_entries(used, tmp_path, caplog):
    broker, conversation = used
    broker._names.clear()
    async with server(broker, tmp_path / "another", "another"):
        drawn = dict(broker._names)
    for _ in range(2):
        async with server(broker, tmp_path) as engine:
            assert await engine.load(conversation.id) == conversation
    assert broker._names == drawn
    assert sum("another id than before, and the same entries" in told for told in caplog.messages) == 1


async def test_a_log_whose_id_was_removed_and_that_lost_its_end_is_refused(used, tmp_path):
    broker, _ = used
    broker._names.clear()
    broker.entries.pop()
    await refused(broker, tmp_path, "is the replica of another log")


async def test_an_id_of_a_log_that_is_none_is_refused_with_the_way_out(used, tmp_path):
    """One of more than 64 letters would end each opening of a conversation in an error."""
    broker, _ = used
    (name,) = broker._names
    broker._names[name] = "x" * 65
    with pytest.raises(EngineError, match="remove the bucket AS_ONCE of this log"):
        await server(broker, tmp_path).__aenter__()
