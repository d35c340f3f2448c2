"""Three brokers and three servers on loopback with the organism of this checkout, and a console on one of them.

    ./run cluster

The console is the third server's. It ends with /quit or Ctrl-D, or with Ctrl-C twice, and everything ends with it; what
they kept is in a folder that is printed, and goes too. Owns the processes it starts and ends no others.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.brokers import Brokers, NoBrokerError, Port  # noqa: E402 - the launcher stands once, beside the tests

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMES = ("a", "b", "c")
PATIENCE = 3.0
"""Seconds that a server has to end before it is killed."""


class Desk:
    """One server: a project folder of its own with the organism of this checkout on the cluster.

    Args:
        folder: which is made.
        brokers: that keep the conversations.
        port: of its door.
    """

    def __init__(self, folder: Path, brokers: Brokers, port: int) -> None:
        self.folder, self.door = folder, f"http://127.0.0.1:{port}"
        (folder / "config").mkdir(parents=True)
        (folder / "listeners").symlink_to(ROOT / "listeners")
        organism = yaml.safe_load((ROOT / "config/organism.yaml").read_text("utf-8"))
        organism.pop("journal", None)
        monitoring = [node.monitoring for node in brokers.nodes]
        organism["engine"] = {"nats": {"url": brokers.url, "replicas": 3, "monitoring": monitoring}}
        organism["http"] = {**organism["http"], "bind": f"127.0.0.1:{port}"}
        (folder / "config/organism.yaml").write_text(yaml.safe_dump(organism, sort_keys=False), "utf-8")

    def _argv(self, *more: str) -> list[str]:
        return [sys.executable, "-m", "agentserver", "serve", *more]

    @property
    def _environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(ROOT)}

    def behind(self) -> subprocess.Popen[bytes]:
        """Start it without a terminal; a Ctrl-C that was typed for the console does not reach it."""
        with (self.folder / "server.log").open("wb") as log:
            return subprocess.Popen(
                self._argv(), cwd=self.folder, env=self._environment, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def before(self) -> subprocess.Popen[bytes]:
        """Start it with this terminal."""
        return subprocess.Popen(self._argv("--console"), cwd=self.folder, env=self._environment)


def console_of(process: subprocess.Popen[bytes]) -> int:
    """Wait until a console has ended; gives its status. Ctrl-C is the console's: it asks back before it leaves."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return process.wait()
    finally:
        signal.signal(signal.SIGINT, before)


def end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End servers as one is told to, all at once, and soon; at once when this is itself being ended."""
    for process in processes:
        process.terminate()
    last = time.monotonic() + (PATIENCE if sys.exc_info()[0] is None else 0)
    for process in processes:
        try:
            process.wait(max(0.0, last - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


async def cluster(folder: Path) -> int:
    """Start everything, wait for the console, end everything; gives the console's status."""
    async with Brokers(folder / "brokers") as brokers:
        doors = [Port() for _ in NAMES]
        desks = [Desk(folder / name, brokers, port.number) for name, port in zip(NAMES, doors, strict=True)]
        for node in brokers.nodes:
            print(f"broker {node.name}  {node.url}  process {node.pid}")
        servers: list[subprocess.Popen[bytes]] = []
        try:
            for name, desk in zip(NAMES[:-1], desks[:-1], strict=True):
                servers.append(desk.behind())
                print(f"server {name}  {desk.door}  process {servers[-1].pid}  log {desk.folder}/server.log")
            print(f"server {NAMES[-1]}  {desks[-1].door}  this console")
            print(
                f"A token: cd {desks[-1].folder} && {ROOT}/run agentserver principals add me --role operator",
                flush=True,
            )
            servers.append(desks[-1].before())
            return console_of(servers[-1])
        finally:
            end(servers)


def main() -> int:
    """Run it; the status is the console's, 69 where there is no broker."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="agentserver-cluster-") as folder:
            return asyncio.run(cluster(Path(folder)))
    except NoBrokerError as error:
        print(error, file=sys.stderr)
        return 69
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
