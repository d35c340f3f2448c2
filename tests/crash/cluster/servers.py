"""The servers of an organism, each a process of ``agentserver serve`` that is started, stopped and killed."""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from tests.machine import HANGS

ROOT = Path(__file__).parents[3]

BOOT = """
import socket, sys, time
name, offset = sys.argv[1], float(sys.argv[2])
real, real_ns = time.time, time.time_ns
time.time, time.time_ns = (lambda: real() + offset), (lambda: real_ns() + int(offset * 1e9))
socket.gethostname = lambda: name
from agentserver.cli import main
sys.argv = ["agentserver", *sys.argv[3:]]
main()
"""
"""Starts the command line with a clock that is wrong by so many seconds, as a machine of its own name has it."""


def environment(**more: str) -> dict[str, str]:
    """The environment of a process of the harness."""
    return {**os.environ, "PYTHONPATH": str(ROOT), **more}


def command(home: Path, *words: str, check: bool = True, **more: str) -> subprocess.CompletedProcess:
    """Run a verb of the command line in a project."""
    return subprocess.run(
        [sys.executable, "-m", "agentserver", *words], cwd=home, env=environment(**more), check=check,
        capture_output=True, text=True, timeout=6 * HANGS, stdin=subprocess.DEVNULL,
    )  # fmt: skip


class Server:
    """One server, which may be dead at present.

    Args:
        home: the project.
        name: by which the database and the log of calls know it.
        offset: seconds by which its clock is wrong.
        more: of its environment.
    """

    def __init__(self, home: Path, name: str, offset: float = 0.0, **more: str) -> None:
        self.home, self.name, self.offset, self.more = home, name, offset, more
        self.process: subprocess.Popen | None = None
        self.url = ""
        self.disturbed = 0.0
        self.lines: list[str] = []

    def __str__(self) -> str:
        return self.name

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def disturb(self, *, ending: bool = False) -> None:
        """Note that clients may wait for this server, from now on or (``ending``) until now."""
        self.disturbed = time.monotonic() if ending else math.inf

    def launch(self) -> None:
        """Begin to start; ``await_door`` waits for the end of it."""
        log = str(self.home / "calls.log")
        more = {"CRASH_LOG": log, "CRASH_SERVER": self.name, **self.more}
        boot = [sys.executable, "-c", BOOT, self.name, str(self.offset)]
        self.url = ""
        self.process = subprocess.Popen(
            [*boot, "serve", "organism.yaml"], cwd=self.home, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True, env=environment(**more),
        )  # fmt: skip
        threading.Thread(target=self._hear, args=(self.process,), daemon=True).start()

    def _hear(self, process: subprocess.Popen) -> None:
        with process.stderr as told:
            for line in told:
                self.lines.append(f"{time.time():.3f} {line.rstrip()}")
                found = re.fullmatch(r"(http://127\.0\.0\.1:\d+)\n", line)
                if found and self.process is process:
                    self.url = found[1]

    def await_door(self, within: float = HANGS) -> None:
        """Wait until it takes requests."""
        end = time.monotonic() + within
        while not self.url:
            assert self.alive, f"{self.name} ended: {self.lines[-10:]}"
            assert time.monotonic() < end, f"{self.name} does not start: {self.lines[-10:]}"
            time.sleep(0.02)

    def start(self) -> None:
        """Start, and wait until it takes requests."""
        self.launch()
        self.await_door()

    def kill(self) -> None:
        """End at once."""
        self.disturb()
        assert self.process is not None
        self.process.kill()
        self.process.wait(HANGS)

    def signal(self, number: int) -> None:
        """Send a signal."""
        self.disturb()
        if self.alive:
            os.kill(self.pid, number)

    def stop(self) -> None:
        """Ask it to end, and wait for that."""
        self.signal(signal.SIGTERM)
        assert self.process is not None
        self.process.wait(HANGS)
