"""A place that may not be written, for real: root is asked to do without its privileges."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from agentserver.engines.conformance.suite import SampleConversation
from agentserver.engines.sqlite.file import JournalOptions, open_writing, read_journal
from agentserver.engines.sqlite.writer import Writer
from agentserver.ports import EngineError
from tests.machine import report_missing

ROOT = Path(__file__).parents[3]
PLAIN = ("setpriv", "--bounding-set=-all")

OPENING = """
import asyncio, sys
from pathlib import Path
from agentserver.engines.sqlite.file import JournalOptions
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.ports import EngineError

async def main():
    try:
        async with SqliteEngine(JournalOptions(Path(sys.argv[1]))):
            print("opened")
    except EngineError as error:
        print(error)

asyncio.run(main())
"""


def opened(path):
    """What a server says that opens it and may do no more than anybody else."""
    plain = ()
    if os.geteuid() == 0:
        if shutil.which(PLAIN[0]) is None:
            report_missing(f"{PLAIN[0]} is not installed, and root may write everywhere")
        plain = PLAIN
    done = subprocess.run(
        [*plain, sys.executable, "-c", OPENING, path],
        capture_output=True, text=True, cwd=ROOT, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    return done.stdout.strip()


@pytest.fixture
def journal(tmp_path):
    """A journal with something in it, in a folder of its own."""
    path, story = tmp_path / "out" / "j", SampleConversation()
    path.parent.mkdir()
    connection = open_writing(JournalOptions(path))
    assert Writer(connection, path).commit([story.receive(story.start(), "1")]) == [None]
    connection.close()
    yield path
    path.parent.chmod(0o700)


def test_a_writable_file_is_opened(journal):
    assert opened(journal) == "opened"


@pytest.mark.parametrize(
    ("file", "lock", "folder", "told"),
    [
        (0o400, None, 0o700, "j: Permission denied"),
        (0o600, None, 0o500, "j.lock: Permission denied"),
        (0o600, 0o400, 0o700, "j.lock: Permission denied"),
        (0o600, 0o600, 0o500, "cannot be written (SQLITE_READONLY_DIRECTORY)"),
    ],
)
def test_a_read_only_file_is_refused_and_unchanged(journal, file, lock, folder, told):
    journal.chmod(file)
    if lock is not None:
        journal.with_name("j.lock").touch(lock)
    journal.parent.chmod(folder)
    before = journal.read_bytes()
    assert opened(journal).endswith(told)
    assert journal.read_bytes() == before


def test_a_journal_with_other_tables_is_refused_by_name(tmp_path):
    path = tmp_path / "journal.sqlite"
    open_writing(JournalOptions(path)).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("drop index conversation_asks")
        connection.execute("alter table conversation drop column asks")
        connection.commit()
    said = "its tables are not those of this agentserver"
    with pytest.raises(EngineError, match=said):
        open_writing(JournalOptions(path))
    with pytest.raises(EngineError, match=said), read_journal(path) as reader:
        reader.list_asking()
