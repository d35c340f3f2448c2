"""The server ends at a signal, whatever its handlers do, and keeps unfinished work."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing

import pytest

from agentserver.cli import process
from agentserver.cli.process import GracefulEnd
from tests.cli.conftest import environment, spawn
from tests.machine import HANGS

HANDLERS = """
from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from agentserver import xmlify


@xmlify
@dataclass(frozen=True)
class Ping:
    timeout: int = 0


async def hold(payload: Ping, metadata):
    print("at work", flush=True)
    time.sleep(1000)


async def swallow(payload: Ping, metadata):
    print("at work", flush=True)
    asyncio.get_running_loop().run_in_executor(None, time.sleep, 1000)
    while True:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            pass
"""

ORGANISM = """
name: odd
listeners:
  - {{name: {0}, description: Never ends., payload_class: odd.Ping, handler: odd.{0}}}
limits: {{drain: {1}, stall: {2}}}
"""


@pytest.fixture
def interrupt_server(tmp_path):
    """Start a server that is handling one message, send it signals, and return its status and its queue."""

    def run(handler, drain, number=0, *, again=False, stall="1h"):
        (tmp_path / "odd.py").write_text(HANDLERS)
        (tmp_path / "organism.yaml").write_text(ORGANISM.format(handler, drain, stall))
        with spawn("run", cwd=tmp_path) as process:
            process.stdin.write(f"@{handler}/Ping\n")
            process.stdin.flush()
            while "at work" not in process.stdout.readline():
                pass
            process.send_signal(number)
            while again and process.poll() is None:  # two that come as one are one
                time.sleep(0.1)
                process.send_signal(number)
            try:
                _, logged = process.communicate(timeout=HANGS)
            finally:
                process.kill()
        with closing(sqlite3.connect(tmp_path / "out" / "journal.sqlite")) as journal:
            (queued,) = journal.execute("select count(*) from queue where delayed = 0").fetchone()
        return process.returncode, queued, logged

    return run


def test_a_handler_that_swallows_its_cancellation_does_not_block_the_end(interrupt_server):
    status, queued, logged = interrupt_server("swallow", "100ms", signal.SIGTERM)
    assert (status, queued) == (0, 1), logged
    assert "Traceback" not in logged


def test_a_handler_that_blocks_the_loop_is_abandoned_after_the_drain(interrupt_server):
    assert interrupt_server("hold", "100ms", signal.SIGTERM)[:2] == (128 + signal.SIGTERM, 1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_it_at_once(interrupt_server, number):
    assert interrupt_server("hold", "1h", number, again=True)[:2] == (128 + number, 1)


def test_a_handler_that_holds_the_loop_for_too_long_ends_the_process(interrupt_server):
    status, queued, logged = interrupt_server("hold", "1h", stall="1s")
    assert (status, queued) == (process.ExitCode.STALLED, 1)
    assert "hold has held the event loop for 1 s" in logged
    assert "time.sleep(1000)" in logged
    assert "the process ends" in logged


def test_a_call_ends_too_when_its_handler_does_not(tmp_path):
    (tmp_path / "odd.py").write_text(HANDLERS)
    (tmp_path / "organism.yaml").write_text(ORGANISM.format("swallow", "100ms", "1h"))
    done = subprocess.run(
        [sys.executable, "-m", "agentserver", "call", "swallow", "--set", "timeout=1", "--timeout", "2"],  # time for the message to come there
        cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=HANGS, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (3, "at work\n"), done.stderr
    assert "not all answers came within 2 s" in done.stderr


# Inside


class End(BaseException):
    """Signals the end of the process."""


@pytest.fixture
def exit_statuses(monkeypatch):
    """Collect exit statuses instead of ending the process; the calling thread continues."""
    found, heard = [], threading.Event()

    def end(status, _terminal=None):
        found.append(status)
        heard.set()

    monkeypatch.setattr(process, "end_process", end)
    return found, heard


def test_a_signal_before_the_session_listens_ends_the_process(exit_statuses):
    found, heard = exit_statuses
    with GracefulEnd(1000.0):
        os.kill(os.getpid(), signal.SIGTERM)
        assert heard.wait(HANGS)
    assert found[0] == 128 + signal.SIGTERM


def test_a_signal_is_the_sessions_and_the_next_one_the_processes(exit_statuses):
    found, heard = exit_statuses

    async def session():
        signals = one.signals()
        waiting = asyncio.ensure_future(anext(signals))
        await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGINT)
        assert await waiting == signal.SIGINT
        await signals.aclose()
        one.begin(0)

    with GracefulEnd(1000.0) as one:
        asyncio.run(session())
        assert found == []
        os.kill(os.getpid(), signal.SIGINT)
        assert heard.wait(HANGS)
    assert found[0] == 128 + signal.SIGINT


def test_a_session_that_began_to_end_has_the_time_of_the_drain(exit_statuses):
    found, heard = exit_statuses
    with GracefulEnd(-process.LAST) as one:
        one.begin(7)
        assert heard.wait(HANGS)
    assert found[0] == 7


def test_a_child_has_its_own_signals(exit_statuses):
    with GracefulEnd(1000.0):
        child = os.fork()
        if not child:
            time.sleep(30)
            os._exit(1)
        os.kill(child, signal.SIGTERM)
        _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGTERM
    assert exit_statuses[0] == []
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
