"""``./run cluster`` brings up brokers, servers and a console, and ends them all with the console."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

import pexpect
import pytest

from tests.brokers import needed
from tests.cli.conftest import environment
from tests.machine import HANGS

ROOT = Path(__file__).parents[2]


@pytest.fixture
def started(tmp_path):
    needed()
    child = pexpect.spawn(
        sys.executable, [str(ROOT / ".ci/cluster.py")], cwd=str(tmp_path), timeout=HANGS, encoding="utf-8", dimensions=(40, 200),
        env=environment(TERM="xterm", XDG_STATE_HOME=str(tmp_path), PROMPT_TOOLKIT_NO_CPR="1", TMPDIR=str(tmp_path)),
    )  # fmt: skip
    yield child
    child.close(force=True)


def processes(text):
    return [int(number) for number in re.findall(r"process (\d+)", text)]


def alive(pid):
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False


def test_a_person_talks_to_one_of_three_servers_and_leaves_nothing_behind(started, tmp_path):
    started.expect_exact("agentserver principals add")
    pids = processes(started.before)
    assert len(pids) == 5, "three brokers and the two servers that have no console"
    started.expect_exact("router>")
    assert all(map(alive, pids))
    started.send("@calculator expression=2+3\r")
    started.expect_exact("5")
    os.kill(pids[3], signal.SIGKILL)
    started.send("@calculator expression=20+3\r")
    started.expect_exact("23")
    started.send("/quit\r")
    started.expect(pexpect.EOF)
    started.close()
    assert started.exitstatus == 0
    assert not any(map(alive, pids))
    assert not list(tmp_path.glob("agentserver-cluster-*"))


def test_ctrl_c_while_it_starts_ends_everything_at_once(started, tmp_path):
    started.expect_exact("broker n1")
    started.sendintr()
    started.expect(pexpect.EOF)
    started.close()
    assert not any(map(alive, processes(started.before)))
    assert not list(tmp_path.glob("agentserver-cluster-*"))
