"""The size of a journal does not change what reading one conversation costs: each query finds its rows by an index."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from agentserver.core.messages import UNDECIDED
from agentserver.engines.journal.finding import read_unindexed
from agentserver.engines.journal.reader import Reader
from agentserver.engines.journal.rows import DeliveryRow, Rows
from agentserver.engines.journal.stored import read_stored
from agentserver.engines.journal.suspension import suspend
from agentserver.engines.sqlite.file import JournalOptions, open_writing

JOURNAL = Path(__file__).parents[2] / "fixtures/journals/market.sqlite"


@pytest.fixture
def connection(tmp_path):
    path = Path(shutil.copy(JOURNAL, tmp_path))
    with closing(open_writing(JournalOptions(path))) as opened:
        yield opened


def scans(connection, read):
    """Run a read, and return the steps of its queries' plans that look at every delivery."""
    asked = []
    connection.set_trace_callback(asked.append)
    read()
    connection.set_trace_callback(None)
    queries = [each for each in asked if each.lower().startswith(("select", "with"))]
    assert any("delivery" in each or "queue" in each or "event" in each for each in queries)
    steps = [step for each in queries for *_, step in connection.execute(f"explain query plan {each}")]
    return [
        step
        for step in steps
        if "AUTOMATIC" in step or (step.startswith(("SCAN d", "SCAN e")) and "INDEX" not in step)
    ]


def find_number(connection, one):
    return connection.execute("select number from conversation where id = ?", (one,)).fetchone()[0]


@pytest.mark.parametrize(
    "read",
    [
        lambda connection, one: read_stored(connection, one),
        lambda connection, one: Reader(connection).recorded_conversation(one),
        lambda connection, one: Reader(connection).read_events(one, UNDECIDED, 99),
        lambda connection, one: read_unindexed(connection, find_number(connection, one)),
        lambda connection, one: suspend(connection, one, "it cannot go on", 1.0),
        lambda connection, _: [*Reader(connection).conversations()],
        lambda connection, _: Reader(connection).active(),
        lambda connection, _: Reader(connection).dead(),
        lambda connection, _: Reader(connection).list_suspended(),
    ],
    ids=[
        "read_stored",
        "recorded_conversation",
        "read_events",
        "read_unindexed",
        "suspend",
        "conversations",
        "active",
        "dead",
        "list_suspended",
    ],
)
def test_no_query_looks_at_every_delivery(connection, read):
    (one,) = connection.execute("select id from conversation order by closed limit 1").fetchone()
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
