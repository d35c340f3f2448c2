"""A flow whose process is killed while it sleeps wakes once, in the next process."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("sleeper.py")


def start(folder, word):
    command = [sys.executable, str(PROGRAM), str(folder), word]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_a_flow_that_was_killed_in_its_sleep_wakes_once(tmp_path):
    with start(tmp_path, "begin") as first:
        assert first.stdout.readline() == "sleeping\n"
        first.send_signal(signal.SIGKILL)
    for _ in range(2):
        with start(tmp_path, "later") as later:
            assert later.stdout.readline() == "settled\n"
        assert later.returncode == 0
    assert (tmp_path / "log").read_text() == "woke\n"
