"""``agentserver serve`` as a supervisor meets it: a real process, real sockets, SIGTERM and SIGHUP."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import sqlite3
import subprocess
import sys
import termios
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import httpx
import pytest

from tests.cli.conftest import environment, spawn
from tests.cli.test_reloading import CODE
from tests.machine import HANGS

YAML = """
name: demo
listeners:
  - {name: teller, handler: tell.tell, description: Tells.}
journal: {path: out/journal.sqlite}
http: {bind: "127.0.0.1:0"}
limits: {drain: 30s}
"""

TIMEOUT = HANGS


class ServedClient:
    """A server, its door, and a client with a token of a user."""

    def __init__(self, folder, *options):
        self.folder = folder
        self.write()
        added = subprocess.run(
            [sys.executable, "-m", "agentserver", "principals", "add", "ada", "--may", "teller", "--trust", "orders"],
            cwd=folder, env=environment(), capture_output=True, text=True, check=True, timeout=TIMEOUT,
        )  # fmt: skip
        token = max(re.findall(r"[A-Za-z0-9_.-]{40,}", added.stdout + added.stderr), key=len)
        self.process = spawn("serve", *options, cwd=folder, stdin=None)
        self.address = self.process.stderr.readline().strip()
        assert self.address.startswith("http://127.0.0.1:"), self.address + self.process.stderr.read()
        self.client = httpx.Client(
            base_url=self.address, timeout=TIMEOUT, headers={"authorization": f"Bearer {token}"}
        )

    def write(self, word="old", yaml=YAML, field=""):
        code = CODE.replace("WORD", word).replace(
            "class Ask:\n    text: str\n", f"class Ask:\n    text: str\n{field}"
        )
        (self.folder / "tell.py").write_text(code)
        (self.folder / "organism.yaml").write_text(yaml)

    def open(self):
        answer = self.client.post("/v1/conversations")
        assert answer.status_code == 201, answer.text
        return f"/v1/conversations/{answer.json()['conversation']}"

    def ask(self, path, text):
        answer = self.client.post(f"{path}/messages?to=teller&wait=25", json={"text": text})
        return answer.json()["value"]["text"] if answer.status_code == 200 else answer.status_code

    def at_work(self):
        assert self.process.stdout.readline() == "at work\n"

    def signal(self, number):
        self.process.send_signal(number)

    def queued(self):
        """Deliveries that are not done, once the process has ended."""
        with closing(sqlite3.connect(self.folder / "out" / "journal.sqlite")) as journal:
            return journal.execute("select count(*) from queue where delayed = 0").fetchone()[0]

    def end(self):
        self.client.close()
        with self.process as process:
            process.kill()


@pytest.fixture
def served_client(tmp_path):
    found = ServedClient(tmp_path, "--reload")
    yield found
    found.end()


@pytest.fixture
def threads():
    with ThreadPoolExecutor(4) as pool:
        yield pool


def test_a_reload_affects_the_next_message_and_no_running_one(served_client, threads):
    busy, other = served_client.open(), served_client.open()
    slow = threads.submit(served_client.ask, busy, "slow")
    served_client.at_work()
    served_client.write("new", field="    mood: str = 'calm'\n")
    served_client.signal(signal.SIGHUP)
    told = served_client.process.stderr.readline()
    assert "is reloaded; 1 conversation finishes a step in the old code" in told
    assert served_client.ask(other, "1") == "new 1"
    assert not slow.done()
    (served_client.folder / "go").touch()
    assert slow.result(TIMEOUT) == "old slow"
    assert served_client.ask(busy, "2") == "new 2"
    assert '"mood"' in served_client.client.get("/openapi.json").text
    served_client.write("third", YAML.replace("127.0.0.1:0", "127.0.0.1:9"))
    served_client.signal(signal.SIGHUP)
    lines = iter(served_client.process.stderr.readline, "")
    assert any("is not reloaded" in line for line in lines)  # the watch may have reloaded "new" once more
    assert next(lines) == "http: has changed: it needs a restart\n"
    assert served_client.ask(busy, "3") == "new 3"


def test_a_drain_refuses_new_work_ends_streams_and_finishes_running_work(served_client, threads):
    busy, other = served_client.open(), served_client.open()
    listening = threading.Event()

    def follow():
        with served_client.client.stream("GET", f"{other}/events") as stream:
            listening.set()
            return "".join(stream.iter_text())

    stream = threads.submit(follow)
    assert listening.wait(TIMEOUT)
    slow = threads.submit(served_client.ask, busy, "slow")
    served_client.at_work()
    assert served_client.client.get("/readyz").status_code == 200
    served_client.signal(signal.SIGTERM)
    ended = stream.result(TIMEOUT)
    last = json.loads(ended.rpartition("data:")[2].strip().splitlines()[0])
    assert (last["type"], last["reason"]) == ("end", "stopping")
    assert served_client.client.get("/readyz").status_code == 503
    assert served_client.client.get("/healthz").status_code == 200
    assert served_client.ask(other, "1") == 503
    assert slow.result(TIMEOUT) in {"old slow", 202}  # 202: it goes on
    (served_client.folder / "go").touch()
    assert served_client.process.wait(TIMEOUT) == 0
    assert served_client.queued() == 0


def test_a_second_signal_ends_it_at_once_and_loses_nothing(served_client, threads):
    busy = served_client.open()
    asked = threads.submit(served_client.ask, busy, "slow")
    served_client.at_work()
    served_client.signal(signal.SIGTERM)
    while served_client.client.get("/readyz").status_code != 503:
        pass
    served_client.signal(signal.SIGTERM)
    assert served_client.process.wait(TIMEOUT) == 128 + signal.SIGTERM
    asked.exception(TIMEOUT)  # it was answered that it goes on, or cut off
    assert served_client.queued() == 1


def test_a_hangup_reloads_also_without_the_option_and_no_file_is_watched(tmp_path):
    served = ServedClient(tmp_path)
    try:
        path = served.open()
        served.write("new")
        served.signal(signal.SIGHUP)
        assert "is reloaded" in served.process.stderr.readline()
        assert served.ask(path, "1") == "new 1"
    finally:
        served.end()


@pytest.mark.parametrize("nohup", [False, True])
def test_a_server_whose_terminal_is_gone_ends_unless_it_was_to_outlast_it(tmp_path, nohup):
    """The shell of a terminal passes the signal on to its jobs: here the server itself leads the terminal."""
    (tmp_path / "tell.py").write_text(CODE)
    (tmp_path / "organism.yaml").write_text(YAML)
    leader, follower = pty.openpty()

    def take_terminal():
        os.setsid()
        fcntl.ioctl(follower, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGHUP, signal.SIG_IGN if nohup else signal.SIG_DFL)

    nowhere = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
    with spawn("serve", cwd=tmp_path, preexec_fn=take_terminal, **nowhere) as process:
        os.close(follower)
        assert process.stderr.readline().startswith("http://")
        os.close(leader)
        if nohup:
            assert "is reloaded" in process.stderr.readline()
            process.terminate()
        assert process.wait(TIMEOUT) in {
            0,
            128 + signal.SIGTERM,
        }  # drained, or at once before it waits for signals
