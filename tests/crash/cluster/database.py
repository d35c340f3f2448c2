"""A primary with a standby that follows it: started, killed, promoted, filled up and set up again.

With a standby that follows, commits wait for both. Their folders are on small memory disks where that is permitted.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.machine import HANGS
from tests.postgres import Postgres, programs, unprivileged_user

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZE = 3 << 30
"""Bytes of the disk of a database."""

SETTINGS = {
    "fsync": "on",
    "wal_level": "replica",
    "max_wal_size": "'128MB'",
    "min_wal_size": "'64MB'",
    "wal_keep_size": "'128MB'",
    "hot_standby": "on",
    "wal_retrieve_retry_interval": "'200ms'",
    "wal_receiver_timeout": "'3s'",
    "restart_after_crash": "on",
    "shared_buffers": "'64MB'",
}


class Node(Postgres):
    """One database of a pair, on a disk of its own."""

    mounted = False
    ballast: Path

    @property
    def socket(self) -> Path:
        return self.folder / ".s.PGSQL.5432"

    @property
    def running(self) -> bool:
        try:
            os.kill(self.pid, 0)
        except (OSError, ValueError, IndexError):
            return False
        return True

    def mount(self) -> None:
        """Give the folder a memory disk of its own where that is permitted."""
        self.ballast = self.folder / "ballast"
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=0700", "agentserver-crash", str(self.folder)],
            check=False, capture_output=True,
        )  # fmt: skip
        self.mounted = done.returncode == 0
        if self.mounted and unprivileged_user() is not None:
            shutil.chown(self.folder, unprivileged_user())

    def fill(self) -> None:
        """Leave no byte on the disk."""
        with self.ballast.open("wb") as file:
            block, size = bytes(1 << 20), 1 << 20
            while size >= 4096:
                try:
                    os.write(file.fileno(), block[:size])
                except OSError:
                    size //= 4

    def empty(self) -> None:
        """Take away what fills the disk."""
        self.ballast.unlink(missing_ok=True)

    def kill(self) -> None:
        """Kill the postmaster, and wait until those that it leaves have noticed."""
        pid = self.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text("utf-8").split()
        os.kill(pid, signal.SIGKILL)
        end = time.monotonic() + HANGS
        while any(Path(f"/proc/{child}").exists() for child in children) and time.monotonic() < end:
            time.sleep(0.02)

    def revive(self) -> None:
        """Start again after a kill."""
        if not self.running:
            (self.data / "postmaster.pid").unlink(missing_ok=True)
            self.start()


class Pair:
    """A primary and its standby, by turns."""

    def __init__(self, folder: Path, *, disks: bool) -> None:
        self.nodes = [Node(folder / name, SETTINGS) for name in ("a", "b")]
        for node in self.nodes:
            node.folder.mkdir()
            if unprivileged_user() is not None:
                shutil.chown(node.folder, unprivileged_user())
            if disks:
                node.mount()
        self.primary, self.standby = self.nodes

    @property
    def mounted(self) -> bool:
        return all(node.mounted for node in self.nodes)

    def begin(self) -> None:
        """Make both."""
        self.primary.create()
        self.primary.start()
        self.follow()

    def follow(self) -> None:
        """Make the standby a copy of the primary that follows it, and have commits wait for it."""
        standby, primary = self.standby, self.primary
        if standby.running:
            standby.stop("immediate")
        shutil.rmtree(standby.data, ignore_errors=True)
        standby.run("pg_basebackup", "-h", str(primary.folder), "-U", "postgres", "-D", str(standby.data), "-R", "-X", "stream", "-c", "fast")  # fmt: skip
        standby.configure(unix_socket_directories=f"'{standby.folder}'", synchronous_standby_names="''")
        standby.start()
        self.demand("*")
        self.await_standby()

    def demand(self, names: str) -> None:
        """Have commits wait for the standbys of these names."""
        self.primary.configure(synchronous_standby_names=f"'{names}'")
        self.primary.run("pg_ctl", "-D", str(self.primary.data), "reload")

    def await_standby(self) -> None:
        """Wait until the standby follows."""
        end = time.monotonic() + HANGS
        while not self.query("select 1 from pg_stat_replication where sync_state in ('sync', 'quorum')"):
            assert time.monotonic() < end, "the standby does not follow"
            time.sleep(0.05)

    def query(self, statement: str) -> str:
        """Run a statement at the primary; its answer as text."""
        return self.primary.run(
            "psql", "-h", str(self.primary.folder), "-U", "postgres", "-Atqc", statement
        ).stdout.strip()

    def promote(self) -> None:
        """End the primary as if its machine had died, and promote the standby."""
        self.primary.kill()
        self.standby.configure(synchronous_standby_names="''")
        self.standby.run("pg_ctl", "-D", str(self.standby.data), "-w", "-t", str(HANGS), "promote")
        self.primary, self.standby = self.standby, self.primary

    def end(self) -> None:
        """Stop everything."""
        for node in self.nodes:
            if node.running:
                node.run("pg_ctl", "-D", str(node.data), "-m", "immediate", "stop", check=False)
            if node.mounted:
                subprocess.run(["umount", "-l", str(node.folder)], check=False)


@contextlib.contextmanager
def pair(*, disks: bool = True) -> Iterator[Pair]:
    """A primary with its standby for as long as this lasts."""
    programs()
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))  # a socket's path has at most 107 bytes
    folder.chmod(0o755)
    found = Pair(folder, disks=disks)
    try:
        found.begin()
        yield found
    finally:
        found.end()
        shutil.rmtree(folder, ignore_errors=True)
