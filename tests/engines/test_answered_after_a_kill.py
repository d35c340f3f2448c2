"""Three calls of one turn, and a server that is killed between their answers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from agentserver.engines.journal.reader import Reader
from agentserver.engines.sqlite.file import open_reading
from agentserver.history.export import dump, load
from agentserver.history.replay import replay
from tests.engines.answered import SHOP
from tests.machine import HANGS

ROOT = Path(__file__).parents[2]


def run(path):
    return subprocess.run(
        [sys.executable, "-m", "tests.engines.answered", str(path)],
        cwd=ROOT, capture_output=True, timeout=HANGS, text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def test_answers_of_before_and_after_a_kill_come_in_the_order_of_their_calls(tmp_path):
    path = tmp_path / "j"
    killed = run(path)
    assert (killed.returncode, killed.stdout) == (
        -signal.SIGKILL,
        "TodoRegistered 3 False " + asked_delivery(path) + "\n",
    )
    again = run(path)
    assert again.returncode == 0, again.stderr
    assert again.stdout.splitlines() == [
        f"{told} False {asked_delivery(path)}" for told in ("Answer 0", "SystemError 1", "Note 2")
    ]
    with closing(open_reading(path)) as connection:
        story = Reader(connection).recorded_conversation(conversation(path))
    assert replay(story, SHOP) is None
    assert replay(load(dump(story)), SHOP) is None


def conversation(path):
    with closing(open_reading(path)) as connection:
        (one,) = Reader(connection).conversations()
    return one.id


def asked_delivery(path):
    """The id of the delivery with which the agent was asked."""
    with closing(open_reading(path)) as connection:
        (key,) = connection.execute(
            "select id from delivery where recipient = 'agent' order by number limit 1"
        ).fetchone()
    return key
