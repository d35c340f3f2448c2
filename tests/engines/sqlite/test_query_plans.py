"""The size of a journal does not change what reading one conversation costs: each query finds its rows by an index."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from agentserver.engines.journal.reader import Reader
from agentserver.engines.journal.rows import DeliveryRow, Rows
from agentserver.engines.journal.stored import read_stored

JOURNAL = Path(__file__).parents[2] / "fixtures/journals/market.sqlite"


@pytest.fixture
def connection(tmp_path):
    path = shutil.copy(JOURNAL, tmp_path)
    with closing(sqlite3.connect(path, isolation_level=None)) as opened:
        yield opened


def scans(connection, read):
    """Run a read, and return the steps of its queries' plans that look at every delivery."""
    asked = []
    connection.set_trace_callback(asked.append)
    read()
    connection.set_trace_callback(None)
    queries = [each for each in asked if each.lower().startswith("select")]
    assert any("delivery" in each or "queue" in each for each in queries)
    steps = [step for each in queries for *_, step in connection.execute(f"explain query plan {each}")]
    return [step for step in steps if step.startswith("SCAN d") and "INDEX delivery_" not in step]


@pytest.mark.parametrize(
    "read",
    [
        lambda connection, one: read_stored(connection, one),
        lambda connection, _: [*Reader(connection).conversations()],
        lambda connection, _: Reader(connection).active(),
        lambda connection, _: Reader(connection).dead(),
        lambda connection, _: Reader(connection).list_suspended(),
    ],
    ids=["read_stored", "conversations", "active", "dead", "list_suspended"],
)
def test_no_query_looks_at_every_delivery(connection, read):
    (one,) = connection.execute("select id from conversation limit 1").fetchone()
    assert scans(connection, lambda: read(connection, one)) == []


def test_a_delivery_leaves_the_queue_by_its_key_and_not_by_a_look_at_all(connection):
    asked = []
    connection.set_trace_callback(asked.append)
    for count in (1, 2, 64):
        rows = Rows(queue={DeliveryRow(-number, 1): None for number in range(count)})
        rows.write(connection)
    connection.set_trace_callback(None)
    assert len(asked) == 3
    for statement in asked:
        steps = [step for *_, step in connection.execute(f"explain query plan {statement}")]
        assert "SEARCH queue USING PRIMARY KEY (conversation=? AND delivery=?)" in steps
