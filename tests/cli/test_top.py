"""``agentserver top`` with a real server."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pexpect
import pytest

from tests.cli.conftest import environment
from tests.cli.test_reloading import YAML, Session, write
from tests.machine import HANGS


@pytest.fixture
def server(tmp_path):
    write(tmp_path, yaml=YAML + "journal: {path: journal.sqlite}\n")
    one = Session(tmp_path)
    one.say("@teller 1")
    one.hear("old 1")
    yield one
    with one.process as process:
        process.kill()


def top(folder, *options):
    return subprocess.run(
        [sys.executable, "-m", "agentserver", "top", *options],
        cwd=folder, env=environment(), capture_output=True, text=True, timeout=HANGS, check=False,
    )  # fmt: skip


def test_a_program_reads_lines_of_json(server, tmp_path):
    done = top(tmp_path, "--once")
    assert done.returncode == 0
    told = json.loads(done.stdout)
    assert told["organism"] == "demo"
    assert [each["name"] for each in told["listeners"]] == ["teller"]


def test_a_person_sees_running_work(server, tmp_path):
    server.say("@teller slow")
    server.hear("at work")
    child = pexpect.spawn(
        sys.executable, ["-m", "agentserver", "top"], cwd=str(tmp_path), env=environment(TERM="xterm"), timeout=HANGS,
        encoding="utf-8", dimensions=(40, 120),
    )  # fmt: skip
    child.expect_exact("demo")
    child.expect_exact("running")
    child.expect_exact("teller")
    (tmp_path / "go").touch()
    assert server.end() == 0
    child.expect_exact("the server has ended")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


def test_after_a_crash_the_socket_is_no_server_and_the_next_start_removes_it(server, tmp_path):
    server.process.send_signal(signal.SIGKILL)
    server.process.wait()
    (left,) = tmp_path.glob("journal.sqlite.*.top")
    done = top(tmp_path)
    assert done.returncode == 2
    assert "no server runs here" in done.stderr
    again = Session(tmp_path)
    again.say("@teller 2")
    again.hear("old 2")
    assert top(tmp_path, "--once").returncode == 0
    assert not left.exists()
    with again.process:
        assert again.end() == 0
    assert not list(tmp_path.glob("*.top"))


def test_one_of_several_servers_in_a_folder_is_chosen_by_its_process(tmp_path):
    write(tmp_path, yaml=YAML + "journal: none\n")
    servers = [Session(tmp_path), Session(tmp_path)]
    try:
        for one in servers:
            one.say("@teller 1")
            one.hear("old 1")
        pids = sorted(one.process.pid for one in servers)
        done = top(tmp_path, "--once")
        assert done.returncode == 2
        assert f"choose one with --pid: {pids[0]}, {pids[1]}" in done.stderr
        for pid in pids:
            assert json.loads(top(tmp_path, "--once", "--pid", str(pid)).stdout)["organism"] == "demo"
        other = top(tmp_path, "--once", "--pid", "1")
        assert other.returncode == 2
        assert "no server runs here with process id 1" in other.stderr
    finally:
        for one in servers:
            with one.process as process:
                process.kill()


def test_the_overview_lists_the_server_that_has_the_journal_open(server, tmp_path):
    command = [sys.executable, "-m", "agentserver", "overview"]
    run = lambda *options: subprocess.run(  # noqa: E731 - twice
        [*command, *options], cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=HANGS, check=True
    ).stdout  # fmt: skip
    (one,) = json.loads(run("--json"))["servers"]
    assert one["state"] == "alive"
    assert one["name"].endswith(f"process {server.process.pid}")
    assert one["conversations"] == 1
    assert "servers: 1\n  alive " in run()
    assert server.end() == 0
    assert "servers: none runs here" in run()
