"""A sender that lost everything but its own ids: the retry finds the same conversation, and pays once."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from tests.machine import HANGS

ROOT = Path(__file__).parents[2]


def run(path, when):
    return subprocess.run(
        [sys.executable, "-m", "tests.engines.opened", str(path), when],
        cwd=ROOT, capture_output=True, timeout=HANGS, text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def stored_keys(path):
    with closing(sqlite3.connect(path)) as connection:
        return [key for (key,) in connection.execute("select conversation from opening")]


def test_a_retry_after_a_kill_pays_once_and_in_the_conversation_that_was_opened_first(tmp_path):
    path = tmp_path / "j"
    for when in ("opened", "answered"):
        assert run(path, when).returncode == -signal.SIGKILL
    (key,) = stored_keys(path)
    for _ in range(2):
        again = run(path, "never")
        assert again.stdout.split() == [key, "True"], again.stderr
    assert Path(f"{path}.paid").read_text() == "paid\n"
    assert stored_keys(path) == [key]
