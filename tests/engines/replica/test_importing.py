"""A journal becomes the beginning of a log, once, when it is whole and nobody has it."""

from __future__ import annotations

import itertools
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from anyio.to_thread import run_sync

from agentserver.broker.address import BrokerAddress
from agentserver.engines.nats.log import LogOptions, NatsLog
from agentserver.engines.replica.engine import ReplicaEngine
from agentserver.engines.replica.importing import import_journal
from agentserver.engines.sqlite.file import JournalOptions, open_reading, open_writing
from agentserver.engines.sqlite.lock import Lock
from agentserver.engines.sqlite.proof.verify import findings
from agentserver.ports import EngineError

pytestmark = pytest.mark.anyio
FIXTURES = Path(__file__).parents[2] / "fixtures" / "journals"


@pytest.fixture
def journal(tmp_path):
    """One that was killed at work: deliveries queued, replies held, dead letters."""
    path = tmp_path / "journal.sqlite"
    shutil.copy(FIXTURES / "market-9.sqlite", path)
    open_writing(JournalOptions(path)).close()
    return path


NUMBERS = itertools.count()


@pytest.fixture
def log(node):
    """Gives the log of a process, of an organism that nobody else has."""
    options = LogOptions(f"market{next(NUMBERS)}", BrokerAddress(node.url), relaxed=True)
    return lambda: NatsLog(options)


def server(log, folder):
    return ReplicaEngine(log(), folder, "market")


async def imported(log, journal, tmp_path, name="copy"):
    async with log() as opened:
        return await import_journal(opened, journal, tmp_path / name)


async def ends(log):
    async with log() as opened:
        return await opened.bounds()


def rows(path):
    with closing(open_reading(path)) as connection:
        return [
            connection.execute(f"select * from {table} order by 1").fetchall()
            for table in ("conversation", "step", "delivery", "event", "receipt")
        ]


async def test_every_server_begins_with_what_the_journal_has(log, journal, tmp_path):
    await imported(log, journal, tmp_path)
    async with server(log, tmp_path / "a") as engine:
        held = await anext(engine.shares())
        assert [key for share in held async for key in engine.at_work(share)], (
            "it goes on where the journal was left"
        )
        async with server(log, tmp_path / "b"):
            pass
    for name in ("a", "b"):
        replica = tmp_path / name / "replica.db"
        assert await run_sync(rows, replica) == await run_sync(rows, journal)
        assert await run_sync(list, findings(replica)) == []


async def test_the_journal_stays_as_it_is(log, journal, tmp_path):
    before = await run_sync(rows, journal)
    await imported(log, journal, tmp_path)
    assert await run_sync(rows, journal) == before


async def test_a_cluster_that_has_something_is_left_as_it_is(log, journal, tmp_path):
    async with server(log, tmp_path / "a"):
        pass
    before = await ends(log)
    with pytest.raises(EngineError, match="has something already"):
        await imported(log, journal, tmp_path)
    assert await ends(log) == before


async def test_what_was_imported_is_not_imported_again_once_a_server_ran(log, journal, tmp_path):
    await imported(log, journal, tmp_path)
    async with server(log, tmp_path / "a"):
        pass
    with pytest.raises(EngineError, match="has something already"):
        await imported(log, journal, tmp_path, "again")


async def test_an_import_that_was_cut_short_is_done_again(log, journal, tmp_path, monkeypatch):
    async def cut(*_):
        raise EngineError("the broker went")

    with monkeypatch.context() as patched:
        patched.setattr(NatsLog, "snapshot", cut)
        with pytest.raises(EngineError, match="went"):
            await imported(log, journal, tmp_path)
    await imported(log, journal, tmp_path, "again")
    async with server(log, tmp_path / "a"):
        pass
    assert await run_sync(rows, tmp_path / "a" / "replica.db") == await run_sync(rows, journal)


async def test_a_journal_that_a_server_has_is_refused(log, journal, tmp_path):
    lock = await run_sync(Lock, journal)
    await run_sync(lock.__enter__)
    with pytest.raises(EngineError, match="process"):
        await imported(log, journal, tmp_path)
    lock.__exit__(None, None, None)
    assert await ends(log) == (0, 0)


async def test_a_journal_that_is_not_whole_is_refused(log, journal, tmp_path):
    with closing(sqlite3.connect(journal)) as connection, connection:
        connection.execute("update step set seed = zeroblob(16) where number = 3")
    with pytest.raises(EngineError, match="not imported"):
        await imported(log, journal, tmp_path)
    assert await ends(log) == (0, 0)


async def test_a_journal_that_is_not_there_is_not_made(log, tmp_path):
    with pytest.raises(EngineError, match="there is no journal"):
        await imported(log, tmp_path / "none.sqlite", tmp_path)
    assert list(tmp_path.glob("none*")) == []
