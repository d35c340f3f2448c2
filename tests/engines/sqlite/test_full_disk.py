"""A disk that is really full: a small file system of its own, seen by one process only."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from agentserver.engines.journal.reader import Reader
from agentserver.engines.journal.retention import find_broken_link
from agentserver.engines.sqlite.file import JournalOptions, open_writing
from tests.machine import report_missing

ROOT = Path(__file__).parents[3]
ALONE = ("unshare", "--map-root-user", "--mount")

FILLING = """
import sqlite3, sys
from contextlib import closing
from pathlib import Path
from agentserver.engines.conformance.suite import SampleConversation
from agentserver.engines.sqlite.file import JournalOptions, open_writing
from agentserver.engines.sqlite.writer import Writer

path, ballast, story = Path(sys.argv[1]), Path(sys.argv[2]), SampleConversation()
ballast.write_bytes(bytes(1 << 20))
with closing(open_writing(JournalOptions(path))) as connection:
    writer, told = Writer(connection, path), []
    while not told or told[-1] is None:
        outcomes = [story.receive(story.start(), "x" * 500) for _ in range(8)]
        told += writer.commit(outcomes)
    print(*{str(error) for error in told if error})
    print(*{str(error) for error in writer.commit(outcomes)})
    ballast.unlink()
    told += writer.commit(outcomes)
    print(told[-8:])
    print(told.count(None))
"""


@pytest.fixture
def small_disk(tmp_path):
    """Run a program on a 4 MB disk; its files are copied out at the end."""
    place, saved = tmp_path / "disk", tmp_path / "saved"
    place.mkdir()
    saved.mkdir()
    script = 'mount -t tmpfs -o size=4m none "$0" || exit 69; "$@"; status=$?; cp "$0"/j* "$1.saved" 2>&1; exit $status'
    script = script.replace("$1.saved", str(saved))
    if shutil.which(ALONE[0]) is None:
        report_missing(f"{ALONE[0]} is not installed")

    def run(program):
        argv = [
            *ALONE,
            "sh",
            "-c",
            script,
            place,
            sys.executable,
            "-c",
            program,
            place / "j",
            place / "ballast",
        ]
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            cwd=ROOT,
            check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        if done.returncode == 69 or done.stderr.startswith("unshare:"):
            # A machine that forbids mounts lacks nothing that could be installed; test_sqlite.py has the other full disk.
            pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines(), saved / "j"

    return run


def test_on_a_disk_that_is_full_whole_steps_are_refused_until_there_is_room(small_disk):
    (refused, still, afterwards, kept), path = small_disk(FILLING)
    assert "the disk is full (SQLITE_FULL)" in refused
    assert "the disk is full (SQLITE_FULL)" in still
    assert afterwards == str([None] * 8)
    with closing(open_writing(JournalOptions(path))) as connection:
        reader = Reader(connection)
        found = [one.id for one in reader.conversations()]
        assert len(found) == int(kept) > 8
        for key in found:
            assert len(reader.recorded_conversation(key).steps) == 1
            assert find_broken_link(reader.recorded_conversation(key)) is None
