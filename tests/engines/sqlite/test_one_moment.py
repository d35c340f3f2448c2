"""A read of a conversation during writes sees one moment."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from agentserver.engines.journal.stored import read_stored
from agentserver.engines.sqlite.file import JournalOptions, open_reading, open_writing

JOURNAL = Path(__file__).parents[2] / "fixtures" / "journals" / "market.sqlite"


@pytest.fixture
def path(tmp_path):
    shutil.copy(JOURNAL, tmp_path / "journal.sqlite")
    open_writing(JournalOptions(tmp_path / "journal.sqlite")).close()
    return tmp_path / "journal.sqlite"


def test_a_write_between_two_statements_of_a_reader_does_not_make_it_unreadable(path):
    waiting = (
        "select c.id from conversation c join queue q on q.conversation = c.number where c.closed is null"
    )
    with (
        closing(open_reading(path)) as reading,
        closing(sqlite3.connect(path, isolation_level=None)) as writing,
    ):
        (conversation,) = reading.execute(waiting).fetchone()
        before = read_stored(reading, conversation)
        written = []

        def write(statement):
            if "from queue" in statement and not written:
                written.append(writing.execute("delete from queue").rowcount)

        reading.set_trace_callback(write)
        assert read_stored(reading, conversation) == before
        assert written[0] > 0
